"""The hands of Weir: Celery tasks that run the science, and agents that drive Spark.

May import ``scheduler.model`` everywhere; only ``workers.tasks`` may call services of ``dashboard``.
Read ``channels/__init__.py`` first: everything that moves between two fragments goes through it.
"""
