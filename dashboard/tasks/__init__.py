"""Celery tasks: thin. Each reads what it needs and calls one service of the site.

Imports services and selectors of ``dashboard`` (never models), ``scheduler`` and the engine's Spark-free modules.
Read ``clock.py`` first, which says when each is due.
"""
