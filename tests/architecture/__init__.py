"""Tests of the code itself: who imports whom, what the science may not touch, what no file may hold.

They read source files and import nothing of Weir. Read ``test_layers.py`` first.
"""
