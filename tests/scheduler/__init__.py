"""Tests of the science: documents, fingerprints, merging, unmerging, fragments and plans.

Import the scheduler alone, never Django or Spark. Read ``invariants.py`` first, then ``reference.py``.
"""
