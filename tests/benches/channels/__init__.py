"""What channels cost on this machine: a hop, throughput, divided streams, many queries.

Imports ``workers.engine``. Read ``run.py`` first: it runs the others.
"""
