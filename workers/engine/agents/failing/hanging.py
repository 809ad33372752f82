"""Queries that hang: events wait for them, no batch of theirs ends, and no job of theirs runs.

A batch that merely takes long has a job under way, and is left alone (``long_batches.py``). A query that hangs has
none: its thread waits for something that never happens. Its stack is reported, and it is started again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import redis
from py4j.protocol import Py4JError

from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.slot_values import UNREADABLE
from workers.engine.spark import queries
from workers.engine.spark.failure_messages import FragmentFailed
from workers.engine.spark.listener import QueryListener

from ..reconciling.fragment_run import FragmentRun
from ..reconciling.long_batches import LOOK_MS
from ..reconciling.reconcile import FragmentState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

HANGS_MS = 60_000  # so long in one place
WANDERS_MS = 3 * HANGS_MS  # so long wherever its thread is
INTERVALS = 3  # of its own that must have passed as well


@dataclass(frozen=True, slots=True)
class Doing:
    """The activity of a query at one look: its run, its newest batch that ended (-1: none), how far apart its batches
    are to begin, and how to ask whether events wait that it could read, whether a job of it is under way, and where its
    thread is. What costs more is asked later."""

    run_id: str
    newest: int
    interval_ms: int
    has_unread: Callable[[], bool]
    works: Callable[[], bool]
    place: Callable[[], str]


@dataclass(frozen=True, slots=True)
class _Still:
    """Since when a run has stood still by all looks, and since when its thread has been in one place."""

    run_id: str
    newest: int
    since_ms: int
    place: str = ""
    there_since_ms: int = 0


class HangingQueries:
    """Detects queries that stand still, by looks a few seconds apart. A look that comes late counts for no longer than
    one in time: the driver had no turn meanwhile."""

    def __init__(self) -> None:
        self._standstills: dict[str, _Still] = {}  # by fragment
        self._looked_at_ms = 0

    def look(self, doing: Mapping[str, Doing], *, now_ms: int) -> dict[str, str]:
        """Look at the queries that run, by fragment; those that hang, with the stack of their thread."""
        late_ms = max(0, now_ms - self._looked_at_ms - LOOK_MS) if self._looked_at_ms else 0
        self._looked_at_ms = now_ms
        before, self._standstills = self._standstills, {}
        hang: dict[str, str] = {}
        for name, query in doing.items():
            last = before.get(name)
            if last is None or (last.run_id, last.newest) != (query.run_id, query.newest):
                self._standstills[name] = _Still(query.run_id, query.newest, now_ms)
                continue
            if not query.has_unread() or query.works():
                self._standstills[name] = replace(last, since_ms=now_ms, place="")
                continue
            still = replace(last, since_ms=last.since_ms + late_ms, there_since_ms=last.there_since_ms + late_ms)
            if now_ms - still.since_ms >= HANGS_MS // 2:
                stack_place = query.place()
                there_since_ms = still.there_since_ms if stack_place == still.place else now_ms
                still = replace(still, place=stack_place, there_since_ms=there_since_ms)
            self._standstills[name] = still
            for_ms = now_ms - still.since_ms
            if for_ms < max(HANGS_MS, INTERVALS * query.interval_ms):
                continue
            if for_ms >= WANDERS_MS or now_ms - still.there_since_ms >= HANGS_MS // 2:
                hang[name] = still.place
        return hang

    def is_behind(self, fragment_id: str, *, now_ms: int) -> bool:
        """True where events have waited for a query of this fragment for more than a few looks, as was seen last."""
        still = self._standstills.get(fragment_id)
        return still is not None and now_ms - still.since_ms > 2 * LOOK_MS


def hangs(stack: str) -> FragmentFailed:
    """The failure of a query that hangs, with a message for people."""
    at = next((line for line in stack.splitlines() if not line.startswith(("java.", "jdk."))), "a place unknown")
    return FragmentFailed(
        f"The query hangs: events wait for it, and for a minute it has worked on none. Its thread waits in {at}.",
        traceback=stack)


class HangingWatch:
    """Watches the queries of a slot, and ends those that hang."""

    def __init__(self, broker: redis.Redis, listener: QueryListener) -> None:
        self._broker, self._channels, self._listener = broker, Channels(broker), listener
        self._queries = HangingQueries()
        self.is_behind = self._queries.is_behind

    def look(
        self, spark: SparkSession, runs: Iterable[FragmentRun], *, throttled: Mapping[str, str], now_ms: int,
        on_hang: Callable[[FragmentRun, FragmentFailed], None],
    ) -> None:
        """Look at the queries that run, but for those that wait for room, are being changed, or stay open; at
        none while the broker is nearly full, for which all of them may wait.

        Parameters
        ----------
        throttled : mapping of str to str
            By fragment, the full channel that it waits for.
        on_hang : callable
            Told of each that hangs, once its query is being stopped. Its thread may not end: Spark gives up waiting.
        """
        watched = {
            run.id: run for run in (() if self._is_crowded() else runs)
            if run.query is not None and run.state is FragmentState.RUNNING and not run.actual().busy
            and run.id not in throttled and not isinstance(run.query, queries.OpenQuery)}
        doing = {name: self._doing(spark, run) for name, run in watched.items()}
        for name, stack in self._queries.look(doing, now_ms=now_ms).items():
            run = watched[name]
            self._listener.forget([run.run_id or ""])
            threading.Thread(target=_stop, args=(run.query,), name="stop", daemon=True).start()
            run.query = None
            on_hang(run, hangs(stack))

    def _is_crowded(self) -> bool:
        try:
            return bool(self._broker.exists(keys.CROWDED))
        except redis.RedisError:  # one that is away: queries wait for that one, too
            return True

    def _doing(self, spark: SparkSession, run: FragmentRun) -> Doing:
        progress, run_id = self._listener.progress(run.query), run.query.runId
        return Doing(
            run_id, -1 if progress is None else progress.batch, run.actual().trigger_ms or 0,
            partial(_has_unread, run, self._channels), partial(_works, spark, run_id), partial(_place, spark, run_id))


def _stop(query: StreamingQuery) -> None:
    with suppress(Exception):
        query.stop()


def _has_unread(run: FragmentRun, channels: Channels) -> bool:
    """Whether its source says that there is something, or a channel has blocks behind its place."""
    query = run.query
    if query is None or queries.is_in_a_batch(query):
        return query is not None
    try:
        infos, _ = channels.look([item.channel for item in run.fragment.inputs])
    except (redis.RedisError, *UNREADABLE):  # who writes them may have forged them: it is that query's affair alone
        return False
    return any(
        info.reads_on_after(run.id, info.readers[run.id]) < info.last for info in infos.values()
        if run.id in info.readers and run.id not in info.limits)


def _works(spark: SparkSession, run_id: str) -> bool:
    tracker = spark.sparkContext.statusTracker()
    return not set(tracker.getActiveJobsIds()).isdisjoint(tracker.getJobIdsForGroup(run_id))


def _place(spark: SparkSession, run_id: str) -> str:
    """The stack of the thread that executes a run, innermost frame first; empty where it is gone."""
    with suppress(Py4JError):
        stacks = spark.sparkContext._jvm.java.lang.Thread.getAllStackTraces()
        for thread in stacks.keySet():
            if run_id in thread.getName():
                return "\n".join(frame.toString() for frame in stacks[thread])
    return ""
