"""Values that everything else speaks in: dataflows, task types, the estate, plans and errors.

Imports nothing of Weir. Read ``dataflow.py`` first, then ``estate.py`` and ``plan.py``.
"""
