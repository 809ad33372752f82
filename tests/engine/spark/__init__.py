"""Tests with a real Spark: slots and node agents against a broker, and the proof that outputs are sacred.

May import workers and scheduler. Read ``rig.py`` first: it runs an agent and publishes what it should do.
"""
