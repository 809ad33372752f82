"""The loop of controllers: one step of each, every few seconds, by whichever worker comes; and machines on order."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from django.utils import timezone

from dashboard import jobs, queue
from dashboard.approvals.services import adapting, machine_ordering
from dashboard.controllers import loop_runner
from dashboard.controllers.loop_runner import Actuator
from dashboard.controllers.sweeping import SWEEP_ACTUATORS
from dashboard.queue import app

MACHINES_TURN, MACHINES_HELD_MS = "machines", 1000 * queue.LONGEST_TASK_S
ACTUATORS: Mapping[str, Actuator] = {**adapting.PLAN_ACTUATORS, **SWEEP_ACTUATORS}


@app.task(name=queue.RUN_CONTROLLERS)
def run_controllers() -> int:
    """Follow what controllers have begun, and let them decide where it is time; how many rounds are in flight."""
    return loop_runner.run(ACTUATORS, at=timezone.now())


@app.task(name=queue.ADVANCE_MACHINES)
def advance_machines() -> int:
    """Start and give back machines for adaptation; how many are there or on their way. One worker at a time does it."""
    owner = uuid4().hex
    try:
        if not jobs.hold_turn(MACHINES_TURN, owner, for_ms=MACHINES_HELD_MS):
            return 0
    except jobs.BrokerAway:
        return 0
    try:
        return machine_ordering.advance_machines(at=timezone.now())
    finally:
        jobs.give_turn_back(MACHINES_TURN, owner)
