"""The loop of controllers: one step of each, every few seconds, by whichever worker comes."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils import timezone

from dashboard import queue
from dashboard.approvals.services import adapting
from dashboard.controllers import loop_runner
from dashboard.controllers.loop_runner import Actuator
from dashboard.controllers.sweeping import SweepActuator
from dashboard.queue import app

ACTUATORS: Mapping[str, Actuator] = {
    "adaptation": adapting.ADAPTATION,
    "chaining": adapting.CHAINING,
    "defragmentation": adapting.DEFRAGMENTATION,
    "deployment": adapting.DEPLOYMENT,
    "isolation": adapting.ISOLATION,
    "open_batches": adapting.OPEN_BATCHES,
    "remeasuring": SweepActuator()}


@app.task(name=queue.RUN_CONTROLLERS)
def run_controllers() -> int:
    """Follow what controllers have begun, and let them decide where it is time; how many rounds are in flight."""
    return loop_runner.run(ACTUATORS, at=timezone.now())
