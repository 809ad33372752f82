"""The processes of a node: slots, spares, trials, looks; what each may touch, takes and says.

Imports the modules beside it and, for trials, ``reconciling``. Read ``supervision.py`` first.
"""
