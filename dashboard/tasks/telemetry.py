"""Keeping what is observed of nodes and schedules, and who used what; series over time are the recorder's."""

from __future__ import annotations

from celery.signals import worker_ready
from django.utils import timezone

from dashboard import jobs, queue
from dashboard.bills import charging
from dashboard.jobs import BrokerAway
from dashboard.operations.live_view import telemetry
from dashboard.queue import app
from dashboard.schedules.outcome_store import record_readings


@worker_ready.connect
def say_that_it_works(**_: object) -> None:
    """A worker that has just started is there before its first observation."""
    jobs.worker_works()


@app.task(name=queue.RECORD_OBSERVATIONS)
def record_observations() -> int:
    """Note which nodes were seen, and what is measured of dataflows that run by a schedule; how many readings."""
    jobs.worker_works()
    at = timezone.now()
    telemetry.record_nodes(at=at)
    return record_readings(at=at)


@app.task(name=queue.RECORD_USAGE)
def record_usage() -> int:
    """Charge what slots used since the last time; how many were charged. What a broker that is away hides, later."""
    try:
        return charging.record_usage(at=timezone.now())
    except BrokerAway:
        return 0
