"""Measurements behind `./weir bench NAME`: each prints a table, writes JSON and compares within one run.

May import everything of `scheduler` and `workers`, nothing of `dashboard`: what needs the site is in
``dashboard/benches``. Read ``reuse_on_spark.py`` first, or
``traces.py`` for the traces that ``reuse_traces.py`` replays.
"""
