"""Queries that hang, or end their slot's driver: which they are, what they leave, and who comes back when.

Imports the modules beside it, ``node_files`` and ``reconciling``; a slot alone imports it. Read ``suspects.py`` first.
"""
