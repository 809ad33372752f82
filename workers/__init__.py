"""The part of Weir that executes dataflows: the engine, the task library, the launcher that starts everything, and the
benches.

May import ``scheduler.model`` everywhere, benches all of ``scheduler``; nothing of ``dashboard``. Read
``engine/channels/__init__.py`` first: everything that moves between two fragments goes through it.
"""
