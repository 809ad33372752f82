"""Named savepoints: copies of running dataflows' states at a moment, from which dataflows can begin later.

Imports operations, catalog and teams. Read ``models.py`` first; who takes and deletes them is
``dashboard.approvals.services.savepoint_commands``.
"""
