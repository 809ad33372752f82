"""Proposals: a plan before its reviewers, and its way to done. The commands that compose the other apps are here.

Imports every app below it: core, teams, audit, catalog, operations, plans. Read ``services.py`` first.
"""
