"""The recorder: takes what is observed of the estate and keeps it, and paces queries by it. One at a time.

It is a thread of the worker, not a task: a second is short for a queue, and whoever writes has the last seconds at
hand. It evaluates the guards of dynamic tasks, too. A lease in the broker says which worker's thread records; it lapses
seconds after that worker is gone.

It looks each second while that takes less than `SHARE` of a core, and every five seconds in a larger estate. Rates are
of some seconds, so the seconds between two looks get the values of the later one. Where guards wait for figures it
looks each second all the same.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog
from celery.signals import worker_ready, worker_shutdown
from django.db import InterfaceError, OperationalError, close_old_connections, transaction
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.services.source_switches import propose_switches
from dashboard.controllers.adaptation_recording import AdaptationRecorder
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.diagnosis.health import findings
from dashboard.operations.latency_control.pacer import Pacer
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.findings import Finding
from dashboard.operations.live_view.handover_pauses import note_pauses
from dashboard.operations.live_view.recording import annotations_of_events, annotations_of_findings, values_of
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.policies.policy_choosers import CHOOSERS, PolicyChoosers
from dashboard.tasks.learned_choices import LearnedChoices
from dashboard.tasks.warm_ups import WarmUps
from scheduler.guards.policy_sources import MODELS
from scheduler.history.port import History
from scheduler.model.warm_up import WARM

log = structlog.get_logger(__name__)
ALL_CHOOSERS = {**CHOOSERS, MODELS: LearnedChoices, WARM: WarmUps}  # the latter two use the broker by themselves

TURN = "history"
FLUSH_EVERY_S = 5  # so many seconds a kill may cost
ANNOTATE_EVERY_S = 5
TIDY_EVERY_S = 60
RAREST_S = 5  # all that is due every so many seconds is due at a multiple of it
LEASE_MS = 12_000
WARN_EVERY_S = 60.0
SHARE = 0.03  # of a core: what looks each second may take
BACK = 0.6  # of it: they are each second again below that
WEIGHT = 0.1  # of the newest look in what one takes


class LookPace:
    """The pace of looks, by the CPU that looks took."""

    def __init__(self) -> None:
        self._mean_s: float | None = None
        self.every_s = 1

    def note(self, spent_s: float, *, each_second: bool = False) -> None:
        """Take in what a look took, in CPU seconds; ``each_second`` says that somebody needs them so often."""
        before_s = spent_s if self._mean_s is None else self._mean_s
        self._mean_s = before_s + WEIGHT * (spent_s - before_s)
        is_dear = self._mean_s > (SHARE if self.every_s == 1 else BACK * SHARE)
        self.every_s = RAREST_S if is_dear and not each_second else 1


class Recorder:
    """Records at each ``tick``, where it is this process's turn.

    Parameters
    ----------
    history : callable
        Makes the history that is written to; a new one at the beginning of each turn.
    """

    def __init__(self, history: Callable[[], History] = DatabaseHistory) -> None:
        self._make_history = history
        self._owner = secrets.token_hex(16)
        self._history: History | None = None
        self._event = ""
        self._findings: dict[str, Finding] | None = None
        self._pacer = Pacer(timezone.now)
        self._policies = PolicyChoosers(ALL_CHOOSERS)
        self._adaptation = AdaptationRecorder()
        self._recorded_s = 0

    @property
    def is_asked_each_second(self) -> bool:
        """True if a policy source decides about any task: those want figures of each second."""
        return self._policies.are_there

    def tick(self, now_s: int, *, every_s: int = 1) -> int:
        """Record this second, and those since the last look where looks are so many seconds apart.

        Gives how many values there were, 0 where another process records.
        """
        if not jobs.hold_turn(TURN, self._owner, for_ms=LEASE_MS):
            self._end_turn()
            return 0
        if self._history is None:
            self._history, self._event, self._findings = self._make_history(), "", None
            self._recorded_s = now_s - 1
            self._pacer = Pacer(timezone.now)  # what was seen before this turn is long ago
            self._policies = PolicyChoosers(ALL_CHOOSERS)
        view = view_for(EVERYTHING)
        values = values_of(view)
        if values:
            values |= self._pacer.values_of(view)
        if values:
            values |= self._adaptation.values_of(view, now_s)
            for second in range(max(self._recorded_s, now_s - every_s) + 1, now_s + 1):
                self._history.append(second, values)
            self._recorded_s = now_s
        if repaced := self._pacer.look(view, now_s):
            self._history.annotate(repaced)
        if now_s % FLUSH_EVERY_S == 0:
            self._history.flush()
        if now_s % ANNOTATE_EVERY_S == 0 and view.reading.available:
            # As whoever is in no team is told: an annotation is read by all who may know of its subject.
            wrong = findings(replace(view, own_ids=frozenset()))
            self._annotate(now_s, {finding.key: finding for finding in wrong}, view.team_of_errors)
        if now_s % TIDY_EVERY_S == 0:
            self._history.tidy(now_s)
        wanted_switches = self._policies.look(view.estate, values, now_s)
        if now_s % FLUSH_EVERY_S == 0:
            self._policies.store()
        propose_switches(wanted_switches, view.estate, at=timezone.now())
        return len(values)

    def stop(self) -> None:
        """Write what waits and let another process record."""
        self._end_turn()
        jobs.give_turn_back(TURN, self._owner)

    def _end_turn(self) -> None:
        if self._history is not None:
            history, self._history = self._history, None
            history.flush()

    def _annotate(self, now_s: int, wrong: dict[str, Finding], team_of: Callable[[str], str]) -> None:
        newest, events = jobs.notable_events_after(self._event)
        self._keep(events, team_of)
        self._event = newest
        if self._findings is not None:  # of what was wrong already nobody knows since when
            self._history.annotate(annotations_of_findings(self._findings, wrong, at_s=now_s))
        self._findings = wrong

    def _keep(self, events: list[dict[str, Any]], team_of: Callable[[str], str]) -> None:
        """Keep what nodes told. An event that cannot be kept is left out: it would keep those after it out for good."""
        try:
            with transaction.atomic():
                note_pauses(events)
                self._history.annotate(annotations_of_events(events, team_of=team_of))
        except (OperationalError, InterfaceError):  # of the database, not of an event: it is tried again
            raise
        except Exception as error:
            if len(events) > 1:
                for event in events:
                    self._keep([event], team_of)
            else:
                log.warning("event_not_recorded", told=str(events)[:500], error=f"{type(error).__name__}: {error}")


class RecorderThread(threading.Thread):
    """Ticks at the beginning of each second, or of each fifth, until it is stopped; an error costs that second."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(name="history-recorder", daemon=True)
        self._recorder = recorder
        self._stopping = threading.Event()
        self._warned_s = float("-inf")

    def run(self) -> None:
        pace = LookPace()
        while not self._stopping.wait(pace.every_s - time.time() % pace.every_s):
            began_s = time.thread_time()
            self._guarded(lambda: self._recorder.tick(int(time.time()), every_s=pace.every_s))
            pace.note(time.thread_time() - began_s, each_second=self._recorder.is_asked_each_second)
        self._guarded(self._recorder.stop)

    def stop(self, *, within_s: float = 1.5) -> None:
        """End the thread, after it has written what waits."""
        self._stopping.set()
        self.join(within_s)

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:  # a database or broker that is away, a full disk: the next second tries again
            close_old_connections()
            if time.monotonic() - self._warned_s > WARN_EVERY_S:
                self._warned_s = time.monotonic()
                log.warning("not_recorded", error=f"{type(error).__name__}: {error}")


_threads: list[RecorderThread] = []


@worker_ready.connect
def _start(**_: object) -> None:
    thread = RecorderThread(Recorder())
    _threads.append(thread)
    thread.start()


@worker_shutdown.connect
def _stop(**_: object) -> None:
    while _threads:
        _threads.pop().stop()
