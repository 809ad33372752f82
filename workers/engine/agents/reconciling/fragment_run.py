"""A fragment as a slot knows it: its state, what is in force, what went wrong. Shared by the slot's threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.contracts.desired import Outlets, Routes, WantedFragment
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import States
from scheduler.model.errors import InvalidTransition
from workers.engine.channels.open_streams import QueryMode

from .. import backoff
from .reconcile import Actual, FragmentState

if TYPE_CHECKING:
    from workers.engine.spark.compile import CompiledQuery
    from workers.engine.spark.failure_messages import FragmentFailed

    from .standby import Standby

MOST_ROUNDS = 8  # that are remembered: more than are waited for
BROKER_AWAY_LONGEST_MS = 4_000  # the broker's absence is nobody's fault: look often whether it is back


TRANSITIONS: Mapping[FragmentState, frozenset[FragmentState]] = {
    FragmentState.STOPPED: frozenset({FragmentState.STARTING, FragmentState.DRAINING}),
    FragmentState.STARTING: frozenset({FragmentState.WAITING, FragmentState.RUNNING, FragmentState.BACKOFF}),
    FragmentState.WAITING: frozenset({FragmentState.STARTING, FragmentState.DRAINING}),
    FragmentState.RUNNING: frozenset({FragmentState.DRAINING, FragmentState.BACKOFF}),
    FragmentState.BACKOFF: frozenset({FragmentState.STARTING, FragmentState.DRAINING}),
    FragmentState.DRAINING: frozenset({FragmentState.STOPPED}),
}


def check_transition(fragment_id: str, before: FragmentState, after: FragmentState) -> None:
    """Raise InvalidTransition where the table has no such move."""
    if after not in TRANSITIONS[before]:
        message = f"Fragment {fragment_id} cannot go from {before} to {after}."
        raise InvalidTransition(message, fragment=fragment_id, before=before, after=after)


class FragmentRun:
    """One fragment on this slot.

    One thread at a time performs actions on it (``busy``); others may read it at any time.
    """

    def __init__(self, fragment_id: str, *, now_ms: int, state: FragmentState = FragmentState.STOPPED) -> None:
        self.id = fragment_id
        self.query: Any = None
        self.run_id: str | None = None
        self.fragment = WantedFragment(id=fragment_id, tasks=())
        self.schemas: tuple[str, ...] = ()
        self.compiled: CompiledQuery | None = None  # its query is to be started next
        self.mode = QueryMode()  # of its query, or of that which is to be started
        self.standby: Standby | None = None  # its query that waits for its turn
        self._standbys_failed, self._stands_by_from_ms = 0, 0
        self.is_held: bool | None = None  # whether its query rests for the action under way; None: that was not asked
        self._lock = threading.Lock()
        self._state = state
        self._busy = False
        self._outlets: Outlets = {}
        self._routes: Routes = {}
        self._settle_at_ms: int | None = None
        self._active = 1
        self._trigger_ms: int | None = None
        self._alternates: Mapping[int, str] = {}
        self._since_ms = now_ms
        self._failures = 0
        self._failed_alike = 0  # of these, how many were the last one's like, without a break
        self._gave_up = False
        self._restarts = 0
        self._error: str | None = None
        self._failure: FragmentFailed | None = None  # the last one, until the query has run for a while
        self._last_failure = ""  # in words, with which the next one is compared
        self._has_done_a_batch = False  # since its query began
        self._retry_at_ms: int | None = None
        self._has_run = False
        self.ends: dict[str, Mapping[str, Offset]] = {}  # last entries that were noted, by what they are for
        self.rounds: tuple[int, ...] = ()  # how much the last rounds of rows brought of the keys that it takes
        self.brought_ms = 0  # when the last of them began
        self.copied: States = {}  # its state as it was read last, until it is recorded
        self.left_ms: int | None = None  # since when nothing works at its tasks, from when it takes over until it runs

    @property
    def state(self) -> FragmentState:
        """The state of the fragment."""
        with self._lock:
            return self._state

    @property
    def since_ms(self) -> int:
        """The time since which it is in this state, in ms since the epoch."""
        with self._lock:
            return self._since_ms

    @property
    def has_done_a_batch(self) -> bool:
        """True where its query has, since it began, as far as was reported."""
        with self._lock:
            return self._has_done_a_batch

    @property
    def outlets(self) -> Outlets:
        """The outlets in force."""
        with self._lock:
            return self._outlets

    @property
    def routes(self) -> Routes:
        """Routes of streams to divided readers."""
        with self._lock:
            return self._routes

    def actual(self) -> Actual:
        """The value that reconciliation judges."""
        with self._lock:
            return Actual(
                self.id, self._state, busy=self._busy, outlets=self._outlets, active=self._active,
                retry_at_ms=self._retry_at_ms, inputs=self.fragment.inputs, threads=self.fragment.threads,
                routes=self._routes, real_time=self.fragment.real_time, activate_at_ms=self._settle_at_ms,
                trigger_ms=self._trigger_ms, alternates=self._alternates,
                has_failed=self._failures > 0, gave_up=self._gave_up,
            )

    def begin(self, state: FragmentState | None, *, now_ms: int) -> None:
        """An action begins; with ``state`` it takes the fragment there."""
        with self._lock:
            self._busy = True
            if state is not None:
                self._move(state, now_ms)

    def end(self) -> None:
        """The action is over, however it went."""
        with self._lock:
            self._busy = False

    def runs(
        self, query: Any, run_id: str, *, outlets: Outlets, routes: Routes, active: int, now_ms: int,
        activate_at_ms: int | None = None,
    ) -> None:
        """Its query has started with these outlets, routes and tails; whether routes are in force is to be seen.

        Parameters
        ----------
        activate_at_ms : int, optional
            The time of the next look at whether routes are in force, in ms since the epoch.
        """
        with self._lock:
            self._move(FragmentState.RUNNING, now_ms)
            self._restarts += 1 if self._has_run else 0
            self._has_run = True
            self._outlets, self._routes, self._active = dict(outlets), dict(routes), active
            self._settle_at_ms = activate_at_ms
            self._retry_at_ms = None
            self._has_done_a_batch = False
            self.query, self.run_id, self.compiled = query, run_id, None

    def waits(self, *, retry_at_ms: int, now_ms: int) -> None:
        """Note that its input is not there yet."""
        with self._lock:
            self._move(FragmentState.WAITING, now_ms)
            self._retry_at_ms = retry_at_ms

    def looks_now(self) -> None:
        """Look again now: its input may have come."""
        with self._lock:
            if self._state is FragmentState.WAITING:
                self._retry_at_ms = None

    def failed(self, failure: FragmentFailed, *, now_ms: int) -> int | None:
        """Its start or its query failed; returns when it is tried again, or None if only a person does that.

        None is for failures that can only repeat, and have done so often enough; a fragment that others wait for is
        still retried, seldom. A query that ran for a minute and finished a batch has recovered, so this counts as its
        first failure. A query without a finished batch has not recovered, however long it ran.
        """
        with self._lock:
            has_come_further = self._state is FragmentState.RUNNING and self._has_done_a_batch
            ran_ms = now_ms - self._since_ms if has_come_further else 0
            self._failures = backoff.failures_after(self._failures, ran_ms=ran_ms)
            is_alike = self._failures > 1 and backoff.is_alike(str(failure), self._last_failure)
            self._failed_alike = self._failed_alike + 1 if is_alike else 1
            self._gave_up = failure.is_final or (not failure.may_pass and self._failed_alike > backoff.RETRIES)
            longest_ms = BROKER_AWAY_LONGEST_MS if failure.broker_is_away else backoff.LONGEST_MS
            self._move(FragmentState.BACKOFF, now_ms)
            self._error, self._failure, self._last_failure = str(failure), failure, str(failure)
            self._retry_at_ms = now_ms + (
                backoff.LONGEST_MS if self._gave_up else backoff.delay_ms(self._failures, longest_ms=longest_ms))
            self.query = self.run_id = None
            return None if self._gave_up else self._retry_at_ms

    def may_stand_by(self, *, now_ms: int) -> bool:
        """True where no query that stood by has failed just now."""
        return now_ms >= self._stands_by_from_ms

    def standby_failed(self, *, now_ms: int) -> None:
        """A query that stood by has failed; the next one comes later, for who ends on another node waits for it."""
        self._standbys_failed += 1
        self._stands_by_from_ms = now_ms + backoff.delay_ms(self._standbys_failed)

    def try_again(self) -> None:
        """Somebody wants it tried now, however often it failed."""
        with self._lock:
            if self._state is FragmentState.BACKOFF:
                self._gave_up, self._failures, self._failed_alike, self._retry_at_ms = False, 0, 0, None

    def brought(self, length: int, *, now_ms: int) -> None:
        """A round of rows of the keys that it takes has come, which began then."""
        self.rounds, self.brought_ms = (*self.rounds, length)[-MOST_ROUNDS:], now_ms

    def stopped(self, *, retry_at_ms: int | None, now_ms: int) -> None:
        """Its query is gone, or as good as; what it left is still to be removed."""
        with self._lock:
            self._move(FragmentState.STOPPED, now_ms)
            self._retry_at_ms = retry_at_ms
            self.run_id = None

    def changed(
        self, *, outlets: Outlets | None = None, routes: Routes | None = None, activate_at_ms: int | None = None,
        active: int | None = None, trigger_ms: int | None = None, alternates: Mapping[int, str] | None = None,
    ) -> None:
        """Other outlets, routes or alternates, or another tail or pace are in force from now on; or routes are to be
        looked at then.

        Parameters
        ----------
        trigger_ms : int, optional
            The interval that its batches were asked to have, in ms.
        """
        with self._lock:
            if trigger_ms is not None:
                self._trigger_ms = trigger_ms
            if alternates is not None:
                self._alternates = dict(alternates)
            if outlets is not None:
                self._outlets = {position: readers for position, readers in outlets.items() if readers}
            if routes is not None:
                self._routes = {position: readers for position, readers in routes.items() if readers}
                self._settle_at_ms = activate_at_ms
            if active is not None:
                self._active = active
            self._retry_at_ms = None

    def settles(self, *, at_ms: int | None) -> None:
        """All routes are in force; or not yet, and it is looked at again then."""
        with self._lock:
            self._settle_at_ms = at_ms

    def retries(self, *, at_ms: int) -> None:
        """Nothing can be done yet; it is tried again then."""
        with self._lock:
            self._retry_at_ms = at_ms

    def action_failed(self, message: str, *, retry_at_ms: int) -> None:
        """A change did not work; the query runs on and the change is tried again."""
        with self._lock:
            self._error = message
            self._retry_at_ms = retry_at_ms

    def report(
        self, progress: Mapping[str, Any], *, throttled_by: str | None, now_ms: int, is_behind: bool = False
    ) -> dict[str, Any]:
        """Its part of the node's report.

        Parameters
        ----------
        is_behind : bool, optional
            True if events wait for it: without a finished batch it has not recovered then, however long it has run.
        """
        with self._lock:
            self._has_done_a_batch = self._has_done_a_batch or progress.get("batch") is not None
            if self._state is FragmentState.RUNNING and now_ms - self._since_ms >= backoff.HEALTHY_MS and (
                    self._has_done_a_batch or not is_behind):
                self._error, self._failure = None, None
                self._failures = 0 if self._has_done_a_batch else self._failures
            failed = self._failure if self._state is not FragmentState.RUNNING else None
            return {
                "state": str(self._state),
                **progress,
                "since_ms": self._since_ms,
                "restarts": self._restarts,
                "failures": self._failures,
                "trigger_ms": self._trigger_ms,
                "error": self._error,
                "gave_up": self._gave_up,
                **({"failed_tasks": failed.tasks, "traceback": failed.traceback} if failed else {}),
                "retry_at_ms": None if self._gave_up or self._state is not FragmentState.BACKOFF else self._retry_at_ms,
                "throttled_by": throttled_by,
                "run_id": self.run_id,
                "outlets": {str(position): sorted(readers) for position, readers in sorted(self._outlets.items())},
                "active": self._active,
                "threads": self.fragment.threads,
                **self.mode.document(),
                **({"alternates": {str(position): name for position, name in sorted(self._alternates.items())}}
                   if self._alternates else {}),
                **({"routes": _document(self._routes)} if self._routes else {}),
            }

    def _move(self, state: FragmentState, now_ms: int) -> None:
        if state is self._state:
            return
        check_transition(self.id, self._state, state)
        self._state = state
        self._since_ms = now_ms
        if state is not FragmentState.BACKOFF:
            self._gave_up = False
        if state is FragmentState.STOPPED:
            self._failures = self._failed_alike = 0


def _document(routes: Routes) -> dict[str, dict[str, dict[str, Any]]]:
    return {
        str(position): {reader: how.document() for reader, how in readers.items()}
        for position, readers in sorted(routes.items())
    }
