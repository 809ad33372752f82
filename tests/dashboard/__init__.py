"""Tests of the site's services, selectors, API, live channel and commands.

``building.py`` makes teams, people and documents; the rest mirrors ``dashboard``. Read ``test_submission.py`` first.
"""
