"""Profiles: what task types sustain and take on a slot, measured by sweeps of trials, imported, and held to what runs.

Imports jobs, core, teams, audit, catalog and operations. Read ``models.py`` first, then
``services/sweep_driver.py``, which moves a sweep on; planning reads ``selectors.profiles_for``.
"""
