"""Tests of the pages through Django's client, of the builders behind them, and of the look's colours.

Imports anything of the site. Read ``test_every_page.py`` first.
"""
