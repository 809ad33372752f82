"""Collaborative reuse (paper [1]): what equals what, merging, unmerging, and the fragments that execute it.

May import ``scheduler.model``. Read ``fingerprint.py`` first, then ``merge.py``, ``unmerge.py`` and ``fragments.py``.
"""
