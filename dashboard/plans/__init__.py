"""Plans as records: requested, computed, frozen with digest and generation.

Imports core, audit, catalog, operations and ``scheduler.planning``. Read ``services.py`` first.
"""
