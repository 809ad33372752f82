"""Performance: rates along a dataflow, what they take and cost, profiles being measured, schedules predicted.

May import ``scheduler.model``. Read ``rates.py`` first, then ``pricing.py``; for schedules (paper [2])
``modelling.py``, ``routing.py`` and ``prediction.py``.
"""
