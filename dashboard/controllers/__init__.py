"""Controllers on the site: what teams let them do, their rounds, their evidence, and the runner of their loop.

Imports plans, profiles and everything below, and ``scheduler``; plans are carried out by ``dashboard.approvals`` above.
Read ``loop_runner.py`` first, then ``models.py``.
"""
