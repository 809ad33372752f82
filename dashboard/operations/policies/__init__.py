"""Policies of dynamic tasks: what guards may name and see, what they choose, what they would have chosen; events that
teams post for them.

Imports the models, ``estate_store`` and ``live_view``. Read ``guard_watches.py`` first, then ``policy_reader.py``.
"""
