"""Plans as records: requested, computed, frozen with digest and generation.

Imports core, audit, catalog, operations, profiles and the science. Read ``services.py`` first, then ``computing.py``;
``scheduling.py`` for schedules.
"""
