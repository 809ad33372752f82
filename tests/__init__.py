"""Tests, mirroring the source: one folder a package.

May import everything. Read ``scheduler/invariants.py`` first: it says what must hold whatever happens.
"""
