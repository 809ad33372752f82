"""Connectors out: sinks that write the events of a channel to another system, each exactly once where that can be.

They run on threads of the connector host (``workers.engine.connectors.connector_host``), one a sink. May import the
engine and the library. Read ``contract.py`` first, then ``sink_runner.py``.
"""
