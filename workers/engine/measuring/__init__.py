"""The parts of a trial beside its slot: events to feed, figures from batches, what a slot takes, the machine's class.

May import ``scheduler.model``, ``workers.engine.channels``, ``workers.library`` and ``workers.processes``, nothing of
agents and, but for ``trial_host.py``, nothing of Spark. Read ``workers/engine/trial_store.py`` first, then
``trial_figures.py``; ``workers/engine/agents/supervising/trial_runner.py`` puts it together, ``trial_host.py`` is the
slot's side.
"""
