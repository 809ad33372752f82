"""Common parts of the site's apps: errors as HTTP, transition tables, notifications, middleware.

Imports ``scheduler.model.errors`` and Django, and none of the other apps. Read ``http_errors.py`` first.
"""
