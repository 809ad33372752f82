"""The science: dataflows, reuse and planning as pure functions over frozen values.

May import the standard library, NetworkX, NumPy, PyYAML and sqlglot; no Django, Celery, Redis, Spark, clock or chance.
Read ``model/dataflow.py`` first, then ``reuse/merge.py``, then ``planning.py``, which composes them into one plan.
"""
