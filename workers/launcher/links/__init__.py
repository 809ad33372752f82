"""Links that cost something: a node on this machine reaches the broker as one on another machine would.

`namespaces.py` puts the node into a network namespace of its own, joined to this one by a pair of interfaces (veth);
what the kernel's queueing disciplines do not do of delay and bandwidth, a relay in front of the broker does
(`relay.py`). Read ``link.py`` first. Imports nothing of Weir but the launcher's own.
"""
