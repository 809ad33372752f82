"""Selectors of schedules: what slots hold, what a schedule would change, what it promised and what was measured.

Imports jobs, core, teams, catalog, operations, plans, profiles, explorer and approvals, and changes nothing of the
estate. Read ``selectors.py`` first; what follows from values alone is in ``comparison.py`` and
``scheduler.performance.outcome``.
"""
