"""Simulations: worked off part by part, one at a time on the whole site."""

from __future__ import annotations

import threading
from uuid import uuid4

from django.utils import timezone

from dashboard import jobs, queue
from dashboard.queue import app
from dashboard.simulations import simulation_driver

TURN, HELD_MS = "simulations", 1000 * queue.LONGEST_TASK_S
_WORKING = threading.Lock()  # a part that outlives the turn keeps one thread of this process, and no second one


@app.task(name=queue.ADVANCE_SIMULATIONS)
def advance_simulations() -> int:
    """Work at open simulations for some seconds; how many parts were done. What one worker does no other begins."""
    if not _WORKING.acquire(blocking=False):
        return 0
    try:
        return _in_turn(uuid4().hex)
    finally:
        _WORKING.release()


def _in_turn(owner: str) -> int:
    try:
        if not jobs.hold_turn(TURN, owner, for_ms=HELD_MS):
            return 0
    except jobs.BrokerAway:
        return 0
    try:
        return simulation_driver.advance_simulations(at=timezone.now())
    finally:
        jobs.give_turn_back(TURN, owner)
