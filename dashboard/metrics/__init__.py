"""Prometheus: what `/metrics` says, in base units, under one prefix, with labels that are bounded.

Read ``collecting.py`` first.
"""
