"""Tests of the engine: agents, channels, Spark, trials; each folder mirrors its package.

May import workers and scheduler.
"""
