"""Agents: a node agent supervises slots, a slot reconciles the queries that run with those that are desired.

May import scheduler.model, workers.spark and workers.channels; nothing of the site. Read ``reconcile.py`` first.
"""
