"""The schedule of periodic jobs. A thread of one worker does those that are due and have something to do.

The queue is for what people ask for: taking a job from it costs more than most of these jobs take. Of several workers
one has the clock, by a lease in the broker that lapses seconds after this worker is gone. Nothing is kept on disk,
which may be full: everything is due again within minutes.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import structlog
from celery import Task
from celery.signals import worker_ready, worker_shutdown
from django.conf import settings
from django.db import Error, close_old_connections

from dashboard import jobs
from dashboard.approvals import selectors
from dashboard.approvals.services import machine_ordering, plan_holds, waiting_plans
from dashboard.core.database import keep_connection
from dashboard.lineage import emitting
from dashboard.operations.live_view.missed_nodes import MissedNodes
from dashboard.outbox import sending
from dashboard.profiles.services import sweep_driver
from dashboard.simulations import simulation_driver
from dashboard.tasks import alerting, controlling, execution, measuring, planning, simulating, telemetry, tidying

log = structlog.get_logger(__name__)

TURN = "clock"
LEASE_MS = 6_000
AT_ONCE = 4  # jobs
TICK_S = min(0.5, settings.NODE_LOST_S / 4)  # missed nodes are looked for so often
STOPS_WITHIN_S = 1.5


@dataclass(frozen=True, slots=True)
class DueJob:
    """A job that is due every so many seconds of the time of day, so that jobs due together use one reading.

    Attributes
    ----------
    is_wanted : callable, optional
        True if there is anything to do; without it there always is.
    is_queued : bool
        True if it goes to the queue, for any worker.
    given : tuple
        Names and values of the job's arguments.
    """

    task: Task
    every_s: float
    is_wanted: Callable[[], object] | None = None
    is_queued: bool = False
    given: tuple[tuple[str, object], ...] = ()


SCHEDULE: Sequence[DueJob] = (
    DueJob(execution.advance_proposals, 1, selectors.is_any_under_way),
    DueJob(planning.go_on, TICK_S, MissedNodes().look),
    DueJob(measuring.advance_sweeps, 2, sweep_driver.is_any_open),
    # Long, and each part is done by one worker: all of them may help.
    DueJob(simulating.advance_simulations, 2, simulation_driver.is_any_open, is_queued=True),
    DueJob(planning.guard, 3),
    # Each change of the estate asks for it at once: this is for a request that was lost.
    DueJob(planning.carry_over, 5, waiting_plans.is_any_behind),
    DueJob(alerting.deliver, 5, sending.is_any_due),
    DueJob(execution.republish_desired, 10, given=(("in_full", False),)),
    DueJob(telemetry.record_observations, 10, is_queued=True),  # it says that workers take jobs
    DueJob(controlling.run_controllers, 10),  # rounds in flight are followed so often; each says how often it decides
    DueJob(alerting.evaluate_alerts, 10),
    DueJob(telemetry.record_usage, 30),
    DueJob(planning.enact_held, 15, plan_holds.is_any_held),
    DueJob(planning.sweep, 15, planning.overdue_plans),
    DueJob(alerting.emit_lineage, 15, emitting.is_wanted),
    DueJob(controlling.advance_machines, 15, machine_ordering.is_wanted),
    DueJob(measuring.observe_profiles, 60),
    DueJob(measuring.fit_costs, 300),
    DueJob(tidying.tidy, 600),
)


class JobClock(threading.Thread):
    """Does due jobs while this process has the lease. A job that still runs is not begun again."""

    def __init__(self, schedule: Sequence[DueJob] = SCHEDULE) -> None:
        super().__init__(name="clock", daemon=True)
        self._schedule = schedule
        self._owner = secrets.token_hex(16)
        self._rounds: dict[str, int] = {}  # by job, the one that it was last looked at in
        self._futures: dict[str, Future[None]] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="due")
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(TICK_S - time.time() % TICK_S):
            self.tick(time.time())

    def tick(self, now_s: float) -> None:
        """Begin what is due by now, if this process has the lease."""
        try:
            if not jobs.hold_turn(TURN, self._owner, for_ms=LEASE_MS):
                return
        except jobs.BrokerAway:
            return
        for job in self._schedule:
            number = int(now_s // job.every_s)
            if self._rounds.setdefault(job.task.name, number) == number:
                continue
            self._rounds[job.task.name] = number
            try:
                self._begin(job)
            except Exception as error:  # the thread must live on: without it nothing is done
                log.warning("job_not_begun", job=job.task.name, error=f"{type(error).__name__}: {error}")

    def stop(self) -> None:
        """Begin nothing more, wait a moment for what is under way, and let another process go on."""
        end_s = time.monotonic() + STOPS_WITHIN_S
        self._stopping.set()
        if self.is_alive():
            self.join(STOPS_WITHIN_S)
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait([begun for begun in self._futures.values() if not begun.done()], max(0.0, end_s - time.monotonic()))
        jobs.give_turn_back(TURN, self._owner)

    def _begin(self, job: DueJob) -> None:
        if job.task.name in self._futures and not self._futures[job.task.name].done():
            return
        if not _is_wanted(job):
            return
        if job.is_queued:
            # A job is worthless once the next is due: without a worker they must not pile up.
            job.task.apply_async(kwargs=dict(job.given), expires=max(job.every_s, 2), retry=False)
        else:
            self._futures[job.task.name] = self._pool.submit(_do, job)


def _is_wanted(job: DueJob) -> bool:
    if job.is_wanted is None:
        return True
    try:
        _use_connection()
        return bool(job.is_wanted())
    except Error:  # the job meets it too, and reports it
        return True


def _do(job: DueJob) -> None:
    try:
        _use_connection()
        job.task(**dict(job.given))
    except Exception:  # such as a database that is away: it is due again
        log.exception("job_failed", job=job.task.name)


def _use_connection() -> None:
    """Go on with this thread's connection, or with a new one where that broke or is old."""
    close_old_connections()
    keep_connection()


_clocks: list[JobClock] = []


@worker_ready.connect
def _start(**_: object) -> None:
    clock = JobClock()
    _clocks.append(clock)
    clock.start()


@worker_shutdown.connect
def _stop(**_: object) -> None:
    while _clocks:
        _clocks.pop().stop()
