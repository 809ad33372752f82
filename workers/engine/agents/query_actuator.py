"""Does with a fragment's query what instructions say, and keeps what its slot shows of it."""

from __future__ import annotations

import time
from collections.abc import Callable

from workers.engine.spark.compile import Beginning

from .context import SlotContext
from .delays import ACTIVATE_AFTER_MS
from .fragment_run import FragmentRun
from .instructions import (
    Compile,
    HoldQuery,
    InForce,
    KillQuery,
    Launch,
    LookAtRoutes,
    QueryInstruction,
    RetryAt,
    Show,
    Stopped,
    StopQuery,
    Wait,
)
from .logs import logger


class QueryActuator:
    """Follows instructions on queries."""

    def __init__(self, around: SlotContext, *, clock_ms: Callable[[], int]) -> None:
        self._around = around
        self._clock_ms = clock_ms
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
            case Launch():
                self._launch(run, instruction)
            case StopQuery(kept):
                drained = self._around.engine.stop(run.query, run.id)
                run.query = None
                if kept is not None:
                    self._log.info("fragment stopped", fragment=run.id, drained=drained, kept=kept)
            case KillQuery():
                self._around.engine.kill(run.query)
                run.query = None
            case HoldQuery():
                run.is_held = False  # it may be paused from here on, whatever comes of it
                run.is_held = self._around.engine.hold(run.query, run.id)
            case InForce(outlets, routes, active, trigger_ms):
                at_ms = None if routes is None else now_ms + ACTIVATE_AFTER_MS
                run.changed(outlets=outlets, routes=routes, activate_at_ms=at_ms, active=active, trigger_ms=trigger_ms)
            case LookAtRoutes(at_ms):
                run.settles(at_ms=at_ms)

    def _compile(self, run: FragmentRun, compile: Compile) -> None:
        store, whole = self._around.store, compile.whole
        began_s = time.monotonic()
        store.record(whole)
        compiled = self._around.engine.compile(whole, self._beginning(whole.id))
        store.record_folds(whole.id, compiled.folds)
        run.fragment, run.schemas, run.compiled = whole, compiled.schemas, compiled
        took_ms = round(1000 * (time.monotonic() - began_s))
        self._log.info("fragment compiled", fragment=run.id, took_ms=took_ms)

    def _beginning(self, fragment_id: str) -> Beginning:
        begun = self._around.store.begun(fragment_id)
        if begun is None:
            return Beginning()
        states = self._around.store.begun_path(fragment_id) if begun.states else None
        return Beginning(
            source_offset=begun.source_offset, offsets=begun.offsets, batch_bases=begun.batch_bases, states=states)

    def _launch(self, run: FragmentRun, launch: Launch) -> None:
        began_s = time.monotonic()
        query = self._around.engine.start(run.compiled, run.id, trigger_ms=launch.poll_ms)
        now_ms = self._clock_ms()
        run.runs(
            query, query.runId, outlets=launch.outlets, routes=launch.routes, active=launch.active, now_ms=now_ms,
            activate_at_ms=now_ms + ACTIVATE_AFTER_MS if launch.routes else None,
        )
        took_ms = round(1000 * (time.monotonic() - began_s))
        self._log.info("fragment started", fragment=run.id, resumed=launch.is_resumed, took_ms=took_ms)
