"""Schedules to read: what slots hold, what a schedule would change, and what it promised against what was measured.

Imports jobs, teams, catalog, operations, plans and profiles; nothing here changes the estate. Read ``selectors.py``
first; what is told from values alone is in ``comparison.py`` and ``scheduler.performance.outcome``.
"""
