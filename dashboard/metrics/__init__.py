"""Prometheus: what `/metrics` says, in base units, under one prefix, with labels that are bounded.

Read ``metric_families.py`` first.
"""
