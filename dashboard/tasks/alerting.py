"""Alerts, the messages that come of them, and lineage: each a short run of what is due."""

from __future__ import annotations

import time

from celery.signals import worker_shutdown

from dashboard import queue
from dashboard.alerts import evaluating
from dashboard.lineage import emitting
from dashboard.outbox import sending
from dashboard.outbox.delivery_threads import DeliveryThreads
from dashboard.queue import app

STOPS_WITHIN_S = 1.5
_DELIVERIES = DeliveryThreads(sending.send_due)


@app.task(name=queue.EVALUATE_ALERTS)
def evaluate_alerts() -> int:
    """Hold what is known to the rules; how many alerts changed."""
    return evaluating.evaluate_round(now_s=int(time.time()))


@app.task(name=queue.DELIVER)
def deliver() -> bool:
    """Let a thread send what waits; whether one was free."""
    return _DELIVERIES.start()


@worker_shutdown.connect
def _stop(**_: object) -> None:
    _DELIVERIES.stop(within_s=STOPS_WITHIN_S)


@app.task(name=queue.EMIT_LINEAGE)
def emit_lineage() -> int:
    """Put events of plans that were enacted into the outbox; how many."""
    return emitting.emit_finished()
