"""Tests of the agents: reconciliation as a state machine, and node agents with stand-in slots.

May import workers and scheduler.model. Read ``test_reconcile.py`` first.
"""
