"""Observations of the estate: by nodes, for one viewer, and over time.

Imports the models and ``estate_store``. Read ``estate_view.py`` first, then ``live_documents.py``.
"""
