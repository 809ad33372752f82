"""When each task is due, and the process that sends them: Celery's beat.

    python -m dashboard.tasks.clock

It sends names and reads no database, so that it needs neither Django's models nor the tasks. Nothing is kept on disk,
which may be full: everything is due again within minutes.
"""

from __future__ import annotations

import os

from celery.beat import Scheduler, Service

from dashboard import queue

REPUBLISH_EVERY_S = 10.0
OBSERVE_EVERY_S = 10.0
CHARGE_EVERY_S = 15.0
ADVANCE_EVERY_S = 1.0
MEASURE_EVERY_S = 2.0
OBSERVE_PROFILES_EVERY_S = 60.0
FIT_COSTS_EVERY_S = 300.0
GUARD_EVERY_S = 3.0
SWEEP_EVERY_S = 15.0
CARRY_OVER_EVERY_S = 5.0  # what a change of the estate asks for at once, where that was not heard
ENACT_HELD_EVERY_S = 15.0
CONTROL_EVERY_S = 10.0  # rounds in flight are followed so often; each controller says how often it decides
EVALUATE_ALERTS_EVERY_S = 10.0
DELIVER_EVERY_S = 5.0
EMIT_LINEAGE_EVERY_S = 15.0
TIDY_EVERY_S = 600.0  # the clock begins anew with its process: what is due seldom must still come


def _every(seconds: float, task: str, **kwargs: object) -> dict[str, object]:
    # An overdue beat is worth nothing once the next one is due: without a worker they must not pile up.
    return {"task": task, "schedule": seconds, "kwargs": kwargs, "options": {"expires": max(seconds, 2.0)}}


SCHEDULE = {
    "advance_proposals": _every(ADVANCE_EVERY_S, queue.ADVANCE_PROPOSALS),
    "republish_desired": _every(REPUBLISH_EVERY_S, queue.REPUBLISH_DESIRED, in_full=False),
    "record_observations": _every(OBSERVE_EVERY_S, queue.RECORD_OBSERVATIONS),
    "record_usage": _every(CHARGE_EVERY_S, queue.RECORD_USAGE),
    "advance_sweeps": _every(MEASURE_EVERY_S, queue.ADVANCE_SWEEPS),
    "observe_profiles": _every(OBSERVE_PROFILES_EVERY_S, queue.OBSERVE_PROFILES),
    "fit_costs": _every(FIT_COSTS_EVERY_S, queue.FIT_COSTS),
    "guard": _every(GUARD_EVERY_S, queue.GUARD),
    "enact_held": _every(ENACT_HELD_EVERY_S, queue.ENACT_HELD),
    "carry_over": _every(CARRY_OVER_EVERY_S, queue.CARRY_OVER),
    "sweep": _every(SWEEP_EVERY_S, queue.SWEEP),
    "evaluate_alerts": _every(EVALUATE_ALERTS_EVERY_S, queue.EVALUATE_ALERTS),
    "deliver": _every(DELIVER_EVERY_S, queue.DELIVER),
    "emit_lineage": _every(EMIT_LINEAGE_EVERY_S, queue.EMIT_LINEAGE),
    "tidy": _every(TIDY_EVERY_S, queue.TIDY),
    "run_controllers": _every(CONTROL_EVERY_S, queue.RUN_CONTROLLERS),
}


def main() -> None:
    """Send what is due, until the process is ended."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    queue.app.conf.beat_schedule = SCHEDULE
    Service(queue.app, scheduler_cls=Scheduler).start()


if __name__ == "__main__":
    main()
