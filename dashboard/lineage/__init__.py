"""OpenLineage: what runs, told to a catalogue of data. A run is a deployment of a dataflow, never a batch.

Read ``events.py`` first, then ``emitting.py``.
"""
