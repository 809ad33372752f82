"""Performance: rates along a dataflow, the CPU that they take, and what that costs.

May import ``scheduler.model``. Read ``rates.py`` first, then ``pricing.py``.
"""
