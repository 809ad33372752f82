"""Elastic keyed state: which bundle of a ring has which keys as loads change and machines die (thesis [3], chapter 6).

Imports the model alone. Read ``scheduler/model/ring.py`` first, then ``copies.py``; ``query_copies.py`` has copies of
whole queries, which need no ring, and ``heartbeats.py`` says which nodes are missed.
"""
