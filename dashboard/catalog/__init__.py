"""Submitted dataflows: their documents, versions, status and who may see them.

Imports core, teams, audit and the scheduler's documents. Read ``lifecycle.py`` first, then ``services.py``.
"""
