"""When each task is due, and who sends them: Celery's beat, in a thread of the worker.

What is due often is sent where there is something to do: taking a job from the queue costs more than looking for one.
Of several workers one sends: it holds a lease in the broker, which lapses seconds after that worker is gone. Nothing is
kept on disk, which may be full: everything is due again within minutes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from celery.beat import EmbeddedService, ScheduleEntry, Scheduler
from celery.signals import worker_ready, worker_shutdown
from django.db import Error

from dashboard import jobs, queue
from dashboard.approvals import selectors
from dashboard.approvals.services import machine_ordering, plan_holds, waiting_plans
from dashboard.core.database import keep_connection
from dashboard.lineage import emitting
from dashboard.operations.live_view.missed_nodes import MissedNodes
from dashboard.outbox import sending
from dashboard.profiles.services import sweep_driver
from dashboard.simulations import simulation_driver
from dashboard.tasks import planning

log = structlog.get_logger(__name__)

TURN = "clock"
LEASE_MS = 6_000
WAITS_S = 1.0
STOPS_WITHIN_S = 1.5

REPUBLISH_EVERY_S = 10.0
OBSERVE_EVERY_S = 10.0
CHARGE_EVERY_S = 15.0
ADVANCE_EVERY_S = 1.0
MEASURE_EVERY_S = 2.0
SIMULATE_EVERY_S = 2.0
OBSERVE_PROFILES_EVERY_S = 60.0
FIT_COSTS_EVERY_S = 300.0
GUARD_EVERY_S = 3.0
WATCH_NODES_EVERY_S = 0.5
SWEEP_EVERY_S = 15.0
CARRY_OVER_EVERY_S = 5.0  # what a change of the estate asks for at once, where that was not heard
ENACT_HELD_EVERY_S = 15.0
MACHINES_EVERY_S = 15.0
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
    "advance_simulations": _every(SIMULATE_EVERY_S, queue.ADVANCE_SIMULATIONS),
    "observe_profiles": _every(OBSERVE_PROFILES_EVERY_S, queue.OBSERVE_PROFILES),
    "fit_costs": _every(FIT_COSTS_EVERY_S, queue.FIT_COSTS),
    "guard": _every(GUARD_EVERY_S, queue.GUARD),
    "go_on": _every(WATCH_NODES_EVERY_S, queue.GO_ON),
    "enact_held": _every(ENACT_HELD_EVERY_S, queue.ENACT_HELD),
    "carry_over": _every(CARRY_OVER_EVERY_S, queue.CARRY_OVER),
    "sweep": _every(SWEEP_EVERY_S, queue.SWEEP),
    "evaluate_alerts": _every(EVALUATE_ALERTS_EVERY_S, queue.EVALUATE_ALERTS),
    "deliver": _every(DELIVER_EVERY_S, queue.DELIVER),
    "emit_lineage": _every(EMIT_LINEAGE_EVERY_S, queue.EMIT_LINEAGE),
    "tidy": _every(TIDY_EVERY_S, queue.TIDY),
    "advance_machines": _every(MACHINES_EVERY_S, queue.ADVANCE_MACHINES),
    "run_controllers": _every(CONTROL_EVERY_S, queue.RUN_CONTROLLERS),
}


# Whether there is anything to do, of jobs that are due often.
IS_WANTED: Mapping[str, Callable[[], object]] = {
    queue.GO_ON: MissedNodes().look,
    queue.ADVANCE_PROPOSALS: selectors.is_any_under_way, queue.ADVANCE_SWEEPS: sweep_driver.is_any_open,
    queue.ADVANCE_SIMULATIONS: simulation_driver.is_any_open,
    queue.ADVANCE_MACHINES: machine_ordering.is_wanted, queue.DELIVER: sending.is_any_due,
    queue.CARRY_OVER: waiting_plans.is_any_behind, queue.ENACT_HELD: plan_holds.is_any_held,
    queue.SWEEP: planning.overdue_plans, queue.EMIT_LINEAGE: emitting.is_wanted}


class TurnScheduler(Scheduler):
    """Sends what is due while it is this process's turn."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self._owner = secrets.token_hex(16)
        self._held_until_s = 0.0  # it is asked again then: several times as often as the lease lapses
        super().__init__(*given, **named)

    def tick(self, *given: Any, **named: Any) -> float:
        """Send what is due; after how many seconds to look again."""
        now_s = time.monotonic()
        try:
            if now_s >= self._held_until_s:
                if not jobs.hold_turn(TURN, self._owner, for_ms=LEASE_MS):
                    return WAITS_S
                self._held_until_s = now_s + WAITS_S
        except jobs.BrokerAway:  # nothing can be sent either
            return WAITS_S
        try:
            return super().tick(*given, **named)
        except Exception as error:  # the thread must live on: without it no job is sent
            self._heap = None  # the entry was taken out: all are put in line again
            log.warning("nothing_sent", error=f"{type(error).__name__}: {error}")
            return WAITS_S

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Send the entry's job, where there is anything to do."""
        is_wanted = IS_WANTED.get(entry.task)
        try:
            keep_connection()
            if is_wanted is not None and not is_wanted():
                return
        except Error:  # whoever does the job meets it too, and says so
            pass
        super().apply_entry(entry, producer=producer)

    def close(self) -> None:
        """Let another process send."""
        self._held_until_s = 0.0
        jobs.give_turn_back(TURN, self._owner)
        super().close()


_clocks: list[Any] = []


@worker_ready.connect
def _start(**_: object) -> None:
    queue.app.conf.beat_schedule = SCHEDULE
    clock = EmbeddedService(queue.app, thread=True, scheduler_cls=TurnScheduler)
    _clocks.append(clock)
    clock.start()


@worker_shutdown.connect
def _stop(**_: object) -> None:
    while _clocks:
        clock = _clocks.pop()
        clock.service.stop()
        clock.join(STOPS_WITHIN_S)
