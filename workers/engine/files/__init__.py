"""Files that sinks write: batches are staged, then closed into files by size or age, each event in exactly one.

Imports neither Spark nor the broker; queries write through ``staging.py``, the node's agent closes. Read ``folder.py``
first, which says what a folder holds and which moment decides.
"""
