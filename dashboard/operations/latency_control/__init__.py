"""Latency limits: intervals and modes that keep them, and what became of them.

Imports the models, ``estate_store`` and ``live_view``. Read ``pacer.py`` first.
"""
