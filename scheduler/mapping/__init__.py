"""Mapping: which slot takes which fragment, and which thread of a schedule (paper [2], 7).

May import ``scheduler.model``. Read ``least_loaded.py`` for fragments; for threads ``requested_slots.py``, then the
algorithms ``dsm.py``, ``rsm.py``, ``sam.py`` and ``exact_mapping.py``, which one suite of tests holds to the same
promises.
"""
