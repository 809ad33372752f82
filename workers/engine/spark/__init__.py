"""Spark: a slot's session, the compiler from fragments to queries, queries and their telemetry.

May import scheduler.model, workers.library and workers.engine.channels; nothing of the site. Read ``compile.py`` first.
"""
