"""Users, teams, roles and API tokens, and what a viewer may know of.

Imports core and audit. Read ``permissions.py`` first: every rule of who may do what is there.
"""
