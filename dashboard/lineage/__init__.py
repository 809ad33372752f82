"""OpenLineage: what runs, told to a catalogue of data. A run is a deployment of a dataflow, never a batch.

Read ``lineage_events.py`` first, then ``emitting.py``.
"""
