"""Alerts, the messages that come of them, and lineage: each a short run of what is due."""

from __future__ import annotations

import time

from dashboard import queue
from dashboard.alerts import evaluating
from dashboard.lineage import emitting
from dashboard.outbox import sending
from dashboard.queue import app


@app.task(name=queue.EVALUATE_ALERTS)
def evaluate_alerts() -> int:
    """Hold what is known to the rules; how many alerts changed."""
    return evaluating.evaluate_round(now_s=int(time.time()))


@app.task(name=queue.DELIVER)
def deliver() -> int:
    """Send what waits; how many messages arrived."""
    return sending.send_due()


@app.task(name=queue.EMIT_LINEAGE)
def emit_lineage() -> int:
    """Put events of plans that were enacted into the outbox; how many."""
    return emitting.emit_finished()
