"""Simulations that people ask for: algorithms of adaptation side by side, and recorded rates against a plan.

Both are rows that a Celery task works off, part by part, and neither changes anything of the estate. Read
``services.py`` first (asking, cancelling), then ``driver.py`` (the work).
"""
