"""What a node keeps on its disk: what it was told, checkpoints, and stores of folds.

Imports the modules beside it and the library's stores. Read ``node_store.py`` first.
"""
