"""Simulations: worked off part by part, one at a time on the whole site."""

from __future__ import annotations

from uuid import uuid4

from django.utils import timezone

from dashboard import jobs, queue
from dashboard.queue import app
from dashboard.simulations import simulation_driver

TURN, HELD_MS = "simulations", 1000 * queue.LONGEST_TASK_S


@app.task(name=queue.ADVANCE_SIMULATIONS)
def advance_simulations() -> int:
    """Work at open simulations for some seconds; how many parts were done. What one worker does no other begins."""
    owner = uuid4().hex
    try:
        if not jobs.hold_turn(TURN, owner, for_ms=HELD_MS):
            return 0
    except jobs.BrokerAway:
        return 0
    try:
        return simulation_driver.advance_simulations(at=timezone.now())
    finally:
        jobs.give_turn_back(TURN, owner)
