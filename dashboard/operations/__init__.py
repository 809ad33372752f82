"""The estate in the database: what runs, for whom, as which fragments, on which nodes; its history; its live view.

Imports core, teams, audit, catalog, ``scheduler.model`` and ``jobs``. Read ``models.py`` first, then the rooms:
``estate_store`` (its rows), ``live_view`` (what is observed of it), ``latency_control``, ``diagnosis`` and
``policies``. Beside them are ``selectors``, ``services``, and modules that use several rooms.
"""
