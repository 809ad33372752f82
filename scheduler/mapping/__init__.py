"""Mapping: which slot takes which fragment.

May import ``scheduler.model``. Read ``least_loaded.py`` first: for now it is the only one.
"""
