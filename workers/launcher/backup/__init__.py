"""`./weir backup` and `./weir restore`: all that a system must not lose, as one file, taken while it runs.

Read `taking.py` first: it says in which order what is copied, and why a copy is a state that the system recovers from.
Imports nothing of Weir but the launcher.
"""
