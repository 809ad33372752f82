"""Tests of ``workers.engine.channels``: scripts and registry against a real broker, the contract against Spark.

``contract/`` runs every promise of docs/channels.md on both implementations; read ``contract/rig.py`` first.
"""
