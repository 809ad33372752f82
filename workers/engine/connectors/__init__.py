"""Connectors: live sources, read by one host process a node, which writes their events to channels.

May import channels, secrets, the store of agents and the model; nothing of Spark. Read ``contract.py`` first, then
``runner.py``. What each type of source takes is declared in ``workers.library.live``.
"""
