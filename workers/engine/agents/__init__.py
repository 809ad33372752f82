"""Agents: a node agent supervises slots, a slot reconciles the queries that run with those that are desired.

May import scheduler.model, workers.engine.spark and workers.engine.channels; nothing of the site. Read
``reconciling/reconcile.py`` first, then ``supervising/supervision.py``. ``transport`` brings state to other nodes,
``node_files`` has what a node keeps on its disk, ``failing`` what becomes of queries that hang, or end their driver.
"""
