"""Files of a node on its disk: its desired state, checkpoints, and stores of folds.

Imports the modules beside it and the library's stores. Read ``node_store.py`` first.
"""
