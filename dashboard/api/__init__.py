"""The JSON API under ``/api``; ``docs/api.md`` describes it.

Imports services and selectors of the apps. Read ``routes.py`` first.
"""
