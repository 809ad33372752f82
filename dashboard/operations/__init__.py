"""The estate in the database: what runs, for whom, as which fragments, on which nodes; its history; its live view.

Imports core, teams, audit, catalog, ``scheduler.model`` and ``jobs``. Read ``models.py`` first, then ``estate.py``,
which reads it, ``storing.py``, which takes plans into it, and ``view.py``: what one viewer may know of it.
"""
