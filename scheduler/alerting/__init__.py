"""Alerting, decided in values: when something is wrong for long enough to tell people, once, and when it is over.

``kinds`` says what can be watched; start with ``machine``. It imports the model alone, and has no clock.
"""
