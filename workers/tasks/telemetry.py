"""Keeping a history of what is observed."""

from __future__ import annotations

from django.utils import timezone

from dashboard.operations import telemetry
from workers import names
from workers.app import app


@app.task(name=names.RECORD_OBSERVATIONS)
def record_observations() -> int:
    """Add a point of history for the estate and every dataflow in it; how many were added."""
    return telemetry.record_history(at=timezone.now())
