"""Measuring: sweeps moved on, trial by trial; what runs held to what was measured, and costs learned from it."""

from __future__ import annotations

from django.utils import timezone

from dashboard import queue
from dashboard.jobs import BrokerAway
from dashboard.operations.live_view import cost_learning
from dashboard.profiles import observations
from dashboard.profiles.services import sweep_driver
from dashboard.queue import app


@app.task(name=queue.ADVANCE_SWEEPS)
def advance_sweeps() -> int:
    """Look what came of the trials that were ordered, and order the next; how many sweeps are open."""
    try:
        return sweep_driver.advance_sweeps(at=timezone.now())
    except BrokerAway:
        return 0


@app.task(name=queue.OBSERVE_PROFILES)
def observe_profiles() -> int:
    """Note what running bundles do beside their profiles; how many were noted."""
    return observations.record_observations(at=timezone.now())


@app.task(name=queue.FIT_COSTS)
def fit_costs() -> int:
    """Learn what plans are priced with from what slots take; how many classes of machine have new costs."""
    return cost_learning.learn(at=timezone.now())
