"""The site: Django with its database, API, live channel and pages.

Imports ``scheduler`` freely and ``workers`` only through ``jobs.py``; never Spark. Read ``config/settings.py`` first,
then ``approvals/services``, where a dataflow's way from submission to enactment is.
"""
