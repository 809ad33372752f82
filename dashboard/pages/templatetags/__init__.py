"""Template tags and filters of the pages.

Imports Django only. Read ``weir.py`` first.
"""
