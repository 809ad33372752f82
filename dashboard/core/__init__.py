"""What every app of the site uses: errors as HTTP, transition tables, notifications, middleware, commands.

Imports ``scheduler.model.errors`` and Django, none of the other apps except in management commands, which compose
them. Read ``errors.py`` first.
"""
