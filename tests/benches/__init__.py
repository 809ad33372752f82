"""Measurements behind `./weir bench NAME`, with the tests of their own logic; no part of what `./weir up` runs.

Each prints a table, writes JSON and compares within one run. ``names.txt`` lists them: name, module, what is measured.
May import everything; nothing of the product imports them. Read ``reuse_on_spark.py`` first, or ``traces.py`` for the
traces that ``reuse_traces.py`` replays.
"""
