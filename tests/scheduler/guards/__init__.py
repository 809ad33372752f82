"""Tests of guards: their language, their evaluation against one that scans everything anew, choices, checks, dry runs.

``naive_guards`` is the independent evaluator; ``random_guards`` draws guards and histories of events.
"""
