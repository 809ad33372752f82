"""Measuring profiles: sweeps moved on, trial by trial."""

from __future__ import annotations

from django.utils import timezone

from dashboard.jobs import BrokerAway
from dashboard.profiles.services import driving
from workers import names
from workers.app import app


@app.task(name=names.ADVANCE_SWEEPS)
def advance_sweeps() -> int:
    """Look what came of the trials that were ordered, and order the next; how many sweeps are open."""
    try:
        return driving.advance_sweeps(at=timezone.now())
    except BrokerAway:
        return 0
