"""Exploring what dataflows share: overlap, the estate as one graph, one task, and a submission before it is made.

Only reads. Imports core, teams, catalog, operations, plans, approvals, ``scheduler`` and
``jobs``. Every figure is of what the
viewer may know of: a private dataflow of another team is in no list, no count and no sum. Read ``overlap_reader.py``
first.
"""
