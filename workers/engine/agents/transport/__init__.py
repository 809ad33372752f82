"""The transport of a fragment's state to the node of its heir: through the broker, ahead of the handover and at its
end.

Imports `scheduler.contracts`, the channels' keys and the library's stores; of the agents, how handovers are read from a
desired state. Read ``state_transport.py`` first, then ``ahead.py`` for when something goes ahead.
"""
