"""The SELECT of the ``sql`` task: what it may hold, its one form, its columns and types, what contains what.

Imports sqlglot, which parses, and nothing of Spark: the site asks it about every document. Read ``grammar`` first.
"""
