"""Does with a fragment's query what instructions say, and keeps what its slot shows of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.savepoints import RestorePoint
from workers.engine.spark.compile import StartPosition
from workers.engine.spark.failure_messages import FragmentFailed
from workers.engine.spark.queries import causes_of

from ..agent_logs import logger
from .context import SlotContext
from .delays import ACTIVATE_AFTER_MS
from .fragment_run import FragmentRun
from .instructions import (
    Adopt,
    Compile,
    DropStandby,
    HoldQuery,
    InForce,
    KillQuery,
    Launch,
    LookAtRoutes,
    NoteEnds,
    QueryInstruction,
    ReadChannels,
    RetryAt,
    Show,
    StandBy,
    StayPaused,
    Stopped,
    StopQuery,
    Wait,
)
from .standby import Standby


class QueryActuator:
    """Follows instructions on queries."""

    def __init__(
        self, context: SlotContext, *, clock_ms: Callable[[], int], on_event: Callable[..., None]
    ) -> None:
        self._context = context
        self._clock_ms = clock_ms
        self._on_event = on_event
        self._log = logger()

    def do(self, run: FragmentRun, instruction: QueryInstruction) -> None:
        now_ms = self._clock_ms()
        match instruction:
            case Show(state):
                run.begin(state, now_ms=now_ms)
            case Wait(retry_at_ms):
                run.waits(retry_at_ms=retry_at_ms, now_ms=now_ms)
            case RetryAt(at_ms):
                run.retries(at_ms=at_ms)
            case Stopped(retry_at_ms):
                run.stopped(retry_at_ms=retry_at_ms, now_ms=now_ms)
            case Compile():
                self._compile(run, instruction)
            case StandBy():
                self._stand_by(run, instruction)
            case Adopt(whole):
                self._adopt(run, whole)
            case DropStandby(failed):
                self._drop_standby(run, failed=failed)
            case StayPaused():
                run.is_held = None
            case Launch():
                self._launch(run, instruction)
            case StopQuery(kept):
                drained = self._context.engine.stop(run.query, run.id)
                run.query = None
                if kept is not None:
                    self._log.info("fragment stopped", fragment=run.id, drained=drained, kept=kept)
            case KillQuery():
                self._context.engine.kill(run.query)
                run.query = None
            case HoldQuery():
                run.is_held = False  # it may be paused from here on, whatever comes of it
                run.is_held = self._context.engine.hold(run.query, run.id)
            case ReadChannels(whole):
                self._context.store.record(whole)  # first: a batch is repeated with channels that are known
                self._context.engine.read(run.id, whole.streams)
                run.fragment = whole
                self._log.info("fragment reads other channels", fragment=run.id)
            case InForce(outlets, routes, active, trigger_ms, alternates):
                at_ms = None if routes is None else now_ms + ACTIVATE_AFTER_MS
                run.changed(
                    outlets=outlets, routes=routes, activate_at_ms=at_ms, active=active, trigger_ms=trigger_ms,
                    alternates=alternates)
            case LookAtRoutes(at_ms):
                run.settles(at_ms=at_ms)
            case NoteEnds(subject, ends):
                run.ends[subject] = ends

    def _compile(self, run: FragmentRun, compile: Compile) -> None:
        store, whole = self._context.store, compile.whole
        began_s = time.monotonic()
        store.record(whole)
        try:
            compiled = self._context.engine.compile(whole, self._beginning(whole.id))
        except FragmentFailed as failure:
            whole = self._without_refused(compile, failure)
            store.record(whole)
            compiled = self._context.engine.compile(whole, self._beginning(whole.id))
        store.record_folds(whole.id, compiled.folds)
        run.fragment, run.schemas, run.compiled, run.mode = whole, compiled.schemas, compiled, compiled.batch_mode
        took_ms = round(1000 * (time.monotonic() - began_s))
        self._log.info("fragment compiled", fragment=run.id, took_ms=took_ms)

    def _without_refused(self, compile: Compile, failure: FragmentFailed) -> WantedFragment:
        """The chain without its unwanted last tasks, from a task on that this version refuses.

        Unwanted tasks stay for their state in the checkpoint, and can go if they have none.

        Raises
        ------
        FragmentFailed
            Another task is refused, or a task that would be left out has state.
        """
        tasks, types = compile.whole.tasks, self._context.task_types
        remaining_tasks = len(tasks) - compile.unwanted
        refused = next((index for index, task in enumerate(tasks) if task.id in failure.tasks), 0)
        counts = dict(self._context.store.folds(compile.whole.id))
        if not failure.is_final or refused < remaining_tasks or any(
                task.type not in types or types[task.type].stateful or counts.get(task.id)
                for task in tasks[refused:]):
            raise failure
        self._log.warning("refused tasks are left out", fragment=compile.whole.id, error=str(failure))
        return replace(compile.whole, tasks=tasks[:refused])

    def _stand_by(self, run: FragmentRun, stand_by: StandBy) -> None:
        began_s, whole = time.monotonic(), stand_by.whole
        engine, gate = self._context.engine, uuid4().hex
        beginning = StartPosition(states=self._context.store.begun_path(run.id), gate=gate)
        compiled = engine.compile(whole, beginning)
        query = engine.start(compiled, run.id, trigger_ms=stand_by.poll_ms)
        run.standby, run.schemas = Standby(whole, compiled, query, gate), compiled.schemas
        self._log.info("fragment stands by", fragment=run.id, took_ms=round(1000 * (time.monotonic() - began_s)))

    def _adopt(self, run: FragmentRun, whole: WantedFragment) -> None:
        store, standby = self._context.store, run.standby
        store.record(whole)
        store.record_folds(run.id, standby.compiled.folds)
        compiled = standby.compiled
        run.fragment, run.schemas, run.compiled, run.mode = whole, compiled.schemas, compiled, compiled.batch_mode

    def _drop_standby(self, run: FragmentRun, *, failed: bool) -> None:
        if failed:
            run.standby_failed(now_ms=self._clock_ms())
            causes = causes_of(run.standby.query)
            self._log.warning("standing by failed", fragment=run.id, error="; ".join(map(str, causes)) or None)
        if run.standby is not None:
            self._context.engine.kill(run.standby.query)
            run.standby = None

    def _beginning(self, fragment_id: str) -> StartPosition:
        begun = self._context.store.begun(fragment_id)
        if begun is None:
            return StartPosition()
        states = self._context.store.begun_path(fragment_id) if begun.states else None
        return StartPosition(
            source_offset=begun.source_offset, offsets=begun.offsets, batch_bases=begun.batch_bases, states=states,
            repeats=begun.repeats and bool(begun.offsets), gone=begun.gone)

    def _launch(self, run: FragmentRun, launch: Launch) -> None:
        began_s, stood_by = time.monotonic(), run.standby is not None
        if run.standby is not None:
            query = self._open_gate(run, run.standby)
        else:
            query = self._context.engine.start(run.compiled, run.id, trigger_ms=launch.poll_ms)
        now_ms = self._clock_ms()
        run.runs(
            query, query.runId, outlets=launch.outlets, routes=launch.routes, active=launch.active, now_ms=now_ms,
            activate_at_ms=now_ms + ACTIVATE_AFTER_MS if launch.routes else None,
        )
        took_ms = round(1000 * (time.monotonic() - began_s))
        self._log.info("fragment started", fragment=run.id, resumed=launch.is_resumed, took_ms=took_ms)
        if run.left_ms is not None:
            gap_ms, run.left_ms = max(0, now_ms - run.left_ms), None
            is_moved = self._context.desired().is_from_elsewhere(run.fragment)
            self._on_event(
                "handed_over", at_ms=now_ms, fragment=run.id, from_=list(run.fragment.inherits), stood_by=stood_by,
                gap_ms=gap_ms, between_nodes=is_moved or bool(run.fragment.remote_givers))

    def _open_gate(self, run: FragmentRun, standby: Standby) -> Any:
        begun = self._context.store.begun(run.id) or RestorePoint()
        self._context.channels.open_gate(
            run.id, standby.gate, written=standby.whole.written, offsets=begun.offsets,
            source_offset=begun.source_offset, batch_bases=begun.batch_bases)
        run.standby = None
        return standby.query
