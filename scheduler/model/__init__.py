"""Values that everything else speaks in: dataflows, task types, the estate, plans and errors.

Imports nothing else of Weir. Read ``dataflow.py`` first, then ``documents.py``, ``estate.py`` and ``plan.py``.
"""
