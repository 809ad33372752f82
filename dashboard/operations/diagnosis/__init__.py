"""Findings about what runs, and remedies: one health model for pages, API, probes and alerts.

Imports the models, ``estate_store`` and ``live_view``. Read ``health.py`` first.
"""
