"""Tests of the launcher and of what `./weir up` does with processes; all of them are real.

May import workers.launcher alone. Read ``test_supervise.py`` first.
"""
