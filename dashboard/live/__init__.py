"""Live state: an HTTP snapshot with a sequence number, then coalesced deltas over a WebSocket.

Imports the selectors of the apps. Read ``live_protocol.py`` first, then ``hub.py``.
"""
