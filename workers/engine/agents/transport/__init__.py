"""The transport of a fragment's state to the node of its heir: through the broker, before a handover and at its end.

Imports `scheduler.contracts`, the channels' keys, the library's stores, and of the agents what handovers a desired
state asks for. Read ``state_transport.py`` first, then ``ahead.py``: it decides whether a copy goes ahead.
"""
