"""Celery tasks: thin. Each reads what it needs and calls one service of the site.

Imports services and selectors of ``dashboard`` (never models), ``scheduler`` and ``workers``' Spark-free modules; no
Spark. Read ``planning.py`` first.
"""
