"""Allocation (paper [2], 6, 7.1): how many threads each task needs, what slots they fill, which machines have those.

May import ``scheduler.model``. Read ``lsa.py`` first, then ``mba.py`` and ``acquisition.py``.
"""
