"""Kept history: series in three grains and annotations, in the site's database, as blocks of many points.

Imports ``scheduler.history`` and Django. Read ``history_store.py`` first; ``blocks.py`` says how points become bytes.
"""
