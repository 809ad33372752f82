"""Measurements that need the site's database or pages: planning through the database, what-if over HTTP.

Imports the site, ``scheduler`` and the tools of ``workers.benches``. Read ``planning_workload.py`` first.
"""
