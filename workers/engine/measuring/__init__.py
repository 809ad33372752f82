"""What a trial needs beside its slot: events to feed, figures from batches, what a slot takes, the machine's class.

May import ``scheduler.model``, ``workers.engine.channels``, ``workers.library`` and ``workers.processes``, nothing of
agents and, but for ``host.py``, nothing of Spark. Read ``workers/engine/trials.py`` first, then ``figures.py``;
``workers/engine/agents/supervising/trial_runner.py`` puts it together, ``host.py`` is the slot's side.
"""
