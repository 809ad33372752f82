"""The audit trail: one row for every change of state, written in the transaction of the change.

Imports core only. Read ``trail.py`` first: ``audited`` is the door that every writing service goes through.
"""
