"""Tests of ``workers.engine.channels``: scripts and registry against a real broker, the contract against Spark.

``contract/`` asks Spark for every promise of docs/channels.md; read ``contract/rig.py`` first. The Java side
is compared with what ``reference.py`` computes in Python.
"""
