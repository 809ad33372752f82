"""Alerting, decided in values: when something is wrong for long enough to tell people, once, and when it is over.

``rule_kinds`` says what can be watched; start with ``alert_states``. It imports the model alone, and has no clock.
"""
