"""The executor of a slot: looks at a fragment, has it decided what to do, and does it, until there is no more to see.

It decides nothing itself. ``observation.py`` looks, ``decisions.py`` decides, the actuators do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import redis

from scheduler.contracts.desired import DesiredState, WantedFragment
from workers.engine.spark.failure_messages import FragmentFailed, explain_error

from ..agent_logs import logger
from .broker_actuator import BrokerActuator
from .broker_instructions import BrokerInstruction
from .context import SlotContext
from .decisions import decide, state_meanwhile
from .delays import FAILED_ACTION_MS
from .fragment_run import FragmentRun
from .instructions import Again, Gone, Instructions, QueryInstruction, RecordInstruction, Release
from .observation import Observer
from .query_actuator import QueryActuator
from .reconcile import Action, End, FragmentState, Leave, Pause, Start
from .record_actuator import RecordActuator
from .snapshot import Snapshot
from .started_fragments import FileLock
from .state_checks import validate_state

DRAIN_S = 2.0
MOST_LOOKS = 20  # at one action: more would mean that deciding goes in a circle


class Superseded(Exception):
    """A newer desired state has come: decisions by an older one are void."""


class FragmentExecutor:
    """Performs actions, each fragment's in order; different fragments on different threads.

    Parameters
    ----------
    on_violation : callable, optional
        Told of each invariant that a snapshot violates, by fragment and sentence, once; by default it is logged.
    """

    def __init__(
        self, context: SlotContext, *, clock_ms: Callable[[], int], on_event: Callable[..., None],
        on_violation: Callable[[str, str], None] | None = None,
    ) -> None:
        self._context = context
        self._clock_ms = clock_ms
        self._on_event = on_event
        self._on_violation = on_violation or self._log_violation
        self._violated: set[tuple[str, str]] = set()
        self._locks: dict[str, FileLock] = {}
        self._observer = Observer(context, clock_ms=clock_ms)
        self._queries = QueryActuator(context, clock_ms=clock_ms, on_event=on_event)
        self._records = RecordActuator(context)
        self._broker = BrokerActuator(context, clock_ms=clock_ms, on_event=on_event)
        self._log = logger()

    def perform(self, run: FragmentRun, desired: DesiredState, actions: Sequence[Action]) -> bool:
        """Perform a fragment's actions in order. True where the fragment is gone from this slot afterwards.

        The first action that fails ends the sequence, and so does a newer desired state than the one that they come
        from: reconciliation decides what is left anew.
        """
        try:
            return any(self._perform(run, desired, action) for action in actions)
        except Superseded:
            self._superseded(run)
        except Exception as error:
            self._action_failed(run, error)
        finally:
            run.compiled = None
            run.end()
        return False

    def drain(self, run: FragmentRun) -> None:
        """Stop a query because the slot ends; the fragment goes on from its checkpoint the next time."""
        self._context.engine.stop(run.query, run.id, drain_s=DRAIN_S)

    def _perform(self, run: FragmentRun, desired: DesiredState, action: Action) -> bool:
        next_action: Action | None = action
        try:
            for look in range(MOST_LOOKS):
                desired = self._newest(run, desired, next_action)
                if look == 0 or type(next_action) is not type(action):
                    action = next_action
                    run.begin(state_meanwhile(run.state, action), now_ms=self._clock_ms())
                instructions = self._look_and_do(run, desired, next_action)
                last = instructions[-1] if instructions else None
                if not isinstance(last, Again):
                    return isinstance(last, Gone)
                next_action = last.action
        finally:
            if run.is_held is not None:
                run.is_held = None
                self._let_go_on(run)
        raise RuntimeError(f"deciding about {run.id} goes in a circle at {action}")

    def _let_go_on(self, run: FragmentRun) -> None:
        """Resume a query that was held. Where the broker is away by now it is let go on with the next look at its
        routes, or it would rest for good."""
        try:
            self._context.channels.resume(run.id)
        except redis.RedisError:
            run.settles(at_ms=self._clock_ms())
            raise

    def _look_and_do(self, run: FragmentRun, desired: DesiredState, action: Action) -> Instructions:
        """One look, one decision, and its instructions. A takeover excludes all others on the node meanwhile."""
        handover = self._context.store.handover_lock() if self._takes_over(run, action) else None
        try:
            has_handover_lock = handover is not None and handover.acquire()
            if has_handover_lock:  # two that want the same fragment's work must not both begin
                desired = self._newest(run, desired, action)
            snapshot = self._observer.look(
                run, desired, action, has_lock=self._has_lock(run, action), has_handover_lock=has_handover_lock)
            self._check(snapshot)
            instructions = decide(snapshot, action)
            for instruction in instructions:
                self._do(run, instruction)
            return instructions
        finally:
            if handover is not None:
                handover.release()

    def _do(self, run: FragmentRun, instruction: object) -> None:
        match instruction:
            case Again() | Gone():
                pass  # for who looks at the fragment
            case Release():
                self._release(run.id)
            case _ if isinstance(instruction, QueryInstruction):
                self._queries.do(run, instruction)
            case _ if isinstance(instruction, RecordInstruction):
                self._records.do(run, instruction)
            case _ if isinstance(instruction, BrokerInstruction):
                self._broker.do(run, instruction)

    # -- locks, and what else is seen to ------------------------------------------------------------------------------

    def _has_lock(self, run: FragmentRun, action: Action) -> bool:
        """Whether this slot may run the fragment; asked for where it is to be started."""
        if not isinstance(action, Start):
            return run.id in self._locks
        lock = self._locks.setdefault(run.id, self._context.store.lock(run.id))
        return lock.acquire()

    def _release(self, fragment_id: str) -> None:
        lock = self._locks.pop(fragment_id, None)
        if lock is not None:
            lock.release()

    def _takes_over(self, run: FragmentRun, action: Action) -> bool:
        if not isinstance(action, Start | End | Pause | Leave) or not action.fragment.inherits:
            return False
        store = self._context.store
        return not store.has(run.id, "begun") and (store.has(run.id, "standby") or not store.has_begun(run.id))

    def _newest(self, run: FragmentRun, desired: DesiredState, action: Action) -> DesiredState:
        """The newest desired state, where the action holds by it as well: a start that others' plans do not touch.

        Raises
        ------
        Superseded
            A newer one has come by which something else may be due.
        """
        newest = self._context.desired()
        if newest is desired or newest == desired:
            return newest
        if isinstance(action, Start) and _where_wanted(newest, run.id) == _where_wanted(desired, run.id) is not None:
            return newest  # else a compiled chain would be thrown away with each plan, and each choice of intervals
        raise Superseded

    def _check(self, snapshot: Snapshot) -> None:
        for violation in validate_state(snapshot):
            if (snapshot.id, violation) not in self._violated:
                self._violated.add((snapshot.id, violation))
                self._on_violation(snapshot.id, violation)

    def _log_violation(self, fragment_id: str, violation: str) -> None:
        self._log.error("state violated", fragment=fragment_id, violation=violation)

    # -- what goes wrong -----------------------------------------------------------------------------------------------

    def _superseded(self, run: FragmentRun) -> None:
        now_ms = self._clock_ms()
        if run.state is FragmentState.STARTING:
            run.waits(retry_at_ms=now_ms, now_ms=now_ms)
        elif run.state is FragmentState.DRAINING and run.query is None:
            run.stopped(retry_at_ms=None, now_ms=now_ms)

    def _action_failed(self, run: FragmentRun, error: Exception) -> None:
        failure = explain_error(error)
        now_ms = self._clock_ms()
        if run.state is FragmentState.STARTING:
            self.failed(run, failure)
        elif run.state is FragmentState.DRAINING:
            run.stopped(retry_at_ms=now_ms + FAILED_ACTION_MS, now_ms=now_ms)
        else:
            run.action_failed(str(failure), retry_at_ms=now_ms + FAILED_ACTION_MS)
        if not failure.broker_is_away and not isinstance(error, FragmentFailed):
            self._log.warning("action failed", fragment=run.id, exc_info=error)

    def give_up(self, run: FragmentRun, failure: FragmentFailed) -> None:
        """The fragment is not to be started: tell why."""
        run.begin(FragmentState.STARTING, now_ms=self._clock_ms())
        self.failed(run, failure)
        run.end()

    def failed(self, run: FragmentRun, failure: FragmentFailed) -> None:
        """The fragment's start or its query failed: tell, and let it wait."""
        now_ms = self._clock_ms()
        retry_at_ms = run.failed(failure, now_ms=now_ms)
        retry_in_ms = None if retry_at_ms is None else retry_at_ms - now_ms
        self._log.warning("fragment failed", fragment=run.id, error=str(failure), retry_in_ms=retry_in_ms)
        self._on_event("fragment_failed", at_ms=now_ms, fragment=run.id, error=str(failure), retry_at_ms=retry_at_ms)


def _where_wanted(desired: DesiredState, fragment_id: str) -> tuple[str, WantedFragment] | None:
    """The slot that is to run a fragment, and the wanted fragment; None without a slot, or if the fragment hands over.

    Another interval counts as equal: a running query takes it between two batches.
    """
    if fragment_id in desired.outgoing:
        return None
    return next(
        ((name, replace(fragment, trigger_ms=0)) for name, slot in desired.slots.items() for fragment in slot.fragments
         if fragment.id == fragment_id), None)
