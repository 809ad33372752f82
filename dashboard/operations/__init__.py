"""The estate in the database: what runs, for whom, as which fragments, on which nodes; its history; its live view.

Imports core, teams, audit, catalog, ``scheduler.model`` and ``jobs``. Read ``estate.py`` first.
"""
