"""Connectors: live sources, read by one host process a node, which writes their events to channels.

May import channels, secrets, the store of agents and the model; Spark's session only for sources that Spark reads
(``spark_source.py``). Read ``contract.py`` first, then ``source_runner.py``. What each type of source takes is declared
in ``workers.library.live`` and beside it.
"""
