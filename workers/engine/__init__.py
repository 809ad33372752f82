"""The engine: agents that bring nodes to their desired state, Spark queries, channels, and what is observed of them.

Imports ``scheduler.model`` and ``workers.library``; nothing of the site. Read ``agents/reconciling`` first.
"""
