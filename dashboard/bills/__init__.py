"""Bills: what every running task used, hour by hour, divided among the dataflows that needed it.

Imports core, teams, catalog, operations, plans, ``scheduler`` and ``jobs``. Read ``charging.py`` first, then
``selectors.py``.
"""
