"""Reconciliation on a slot, which makes what runs what is desired: snapshot, decision, instructions, actuators.

Imports the modules beside it, ``node_files`` and ``transport``, nothing of ``supervising``. Read ``reconcile.py``
first, then ``decisions.py`` and ``executor.py``.
"""
