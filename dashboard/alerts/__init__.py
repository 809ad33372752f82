"""Alerts: rules of teams, their evaluation against health and history, the inbox, and who is notified how.

What is decided is in ``scheduler/alerting``. Read ``evaluating.py`` first, then ``readers.py``.
"""
