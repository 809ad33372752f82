"""One module of views for each kind of page.

Imports the apps' services and selectors, and the builders beside it. Read ``dataflows.py`` first.
"""
