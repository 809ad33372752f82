"""What is wrong with what runs, and what helps: one health model for pages, API, probes and alerts.

Imports the models, ``estate_store`` and ``live_view``. Read ``health.py`` first.
"""
