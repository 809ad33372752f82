"""Tests that drive a real browser: the pages over a node that is played, and first light over the real system.

Imports anything of Weir. Read ``site.py`` first, then ``test_pages.py``.
"""
