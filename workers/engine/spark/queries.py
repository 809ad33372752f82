"""Streaming queries of a slot: start, stop cleanly, look at, and learn why one ended."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from scheduler.model.settings_of_fragments import LONGEST_OPEN_S
from workers.engine.files.staging import Staging

from . import fold_files
from .failure_messages import Cause
from .file_sink import staged

DRAIN_S = 5.0
LOOK_S = 0.01
STILL_LOOKS = 3


class StartedQuery(StreamingQuery):
    """A query that knows the id of its run: Spark's own asks the JVM for it each time."""

    @cached_property
    def runId(self) -> str:
        return super().runId


class OpenQuery(StartedQuery):
    """A query in real-time mode. Its status does not say whether it rests, with no batch open after a pause, for how
    long the batch that is open has not moved, nor for how long it has been at work."""

    def __init__(
        self, query: StreamingQuery, rests: Callable[[], bool], still_ms: Callable[[], int], busy_ms: Callable[[], int]
    ) -> None:
        super().__init__(query._jsq)
        self.rests = rests
        self.still_ms = still_ms
        self.busy_ms = busy_ms


def start(
    frame: DataFrame, *, name: str, checkpoint: Path, trigger_ms: int, file_sink: Staging | None = None,
    rests: Callable[[], bool] | None = None, still_ms: Callable[[], int] = lambda: 0,
    busy_ms: Callable[[], int] = lambda: 0,
) -> StreamingQuery:
    """Start a fragment's query, from its checkpoint where there is one. Valves have written all channels already.

    Parameters
    ----------
    rests : callable, optional
        Only for a chain that was compiled for real-time mode: whether the fragment rests, once it was paused.
    still_ms : callable, optional
        Of such a chain: for how long its open batch has not moved, in ms.
    busy_ms : callable, optional
        Of such a chain: for how long its open batch has been at work so far, in ms.
    """
    if file_sink is not None:
        frame = staged(frame, file_sink)
    fold_files.forget_copies(checkpoint)
    # The query's thread takes it along, and the threads of its tasks: what they log says whose it is.
    frame.sparkSession.sparkContext.setLocalProperty("mdc.fragment", name)
    writer = frame.writeStream.queryName(name).option("checkpointLocation", str(checkpoint)).format("noop")
    if rests is not None:  # Spark calls it an update; without an aggregation it is the same
        query = writer.outputMode("update").trigger(realTime=f"{LONGEST_OPEN_S:.0f} seconds").start()
        return OpenQuery(query, rests, still_ms, busy_ms)
    interval = f"{staggered_ms(trigger_ms, name)} milliseconds"
    return StartedQuery(writer.outputMode("append").trigger(processingTime=interval).start()._jsq)


def staggered_ms(trigger_ms: int, name: str) -> int:
    """The interval of a query's own: up to a tenth longer, so that the queries of a driver don't all wake at once.

    Spark aligns triggers to multiples of their interval.
    """
    return trigger_ms + zlib.crc32(name.encode()) % (trigger_ms // 10 + 1)


def stop(query: StreamingQuery, *, pause: Callable[[], None], drain_s: float = DRAIN_S) -> bool:
    """Stop a query between two batches; False where a batch was still under way after ``drain_s``.

    ``pause`` freezes what the query's sources say is newest, so that the batch under way is the last. A query that is
    stopped in the middle of a batch leaves tasks behind that go on writing for seconds; a fencing token holds those
    off, but nothing is as clean as not having them.
    """
    pause()
    drained = _is_over(query, time.monotonic() + drain_s)
    query.stop()
    return drained


def rest(query: StreamingQuery, *, pause: Callable[[], None], drain_s: float = DRAIN_S) -> bool:
    """Bring a query to rest between two batches, until it is resumed; False where one is still under way.

    It rests for certain from the first moment after the pause on in which no trigger is active: whatever was planned
    before is done, and the next trigger's sources hear of the pause.
    """
    pause()
    deadline = time.monotonic() + drain_s
    if isinstance(query, OpenQuery):
        return _is_over(query, deadline)
    while query.isActive and time.monotonic() < deadline:
        if not query._jsq.status().isTriggerActive():
            return True
        time.sleep(LOOK_S)
    return False


def _is_over(query: StreamingQuery, deadline: float) -> bool:
    """Whether the batch of a query that was paused is over in time; its trigger need not be, which merely waits for
    events then, and does not find any."""
    if isinstance(query, OpenQuery):
        while not (is_at_rest := query.rests()) and time.monotonic() < deadline and query.isActive:
            time.sleep(LOOK_S)
        return is_at_rest
    still = 0
    while still < STILL_LOOKS and time.monotonic() < deadline and query.isActive:
        # More than one look: a batch that was planned just before the pause shows a moment later.
        still = 0 if is_in_a_batch(query) else still + 1
        time.sleep(LOOK_S)
    return still >= STILL_LOOKS


def is_in_a_batch(query: StreamingQuery) -> bool:
    """True where a batch with events is under way; one that stays open is not counted (`OpenQuery.still_ms`)."""
    if isinstance(query, OpenQuery):
        return False
    status = query._jsq.status()
    return bool(status.isTriggerActive() and status.isDataAvailable())


def left_at_work(spark: SparkSession) -> list[str]:
    """The tasks that still work though what they are of is over; always none on a cluster, which ends its own."""
    if not spark.sparkContext.master.startswith("local"):
        return []
    return spark._jvm.weir.Leftovers.of(spark.sparkContext._jsc.sc()).splitlines()


def causes_of(query: StreamingQuery) -> list[Cause]:
    """The chain of causes that ended a query, outermost first; empty where nothing went wrong."""
    option = query._jsq.exception()
    if not option.isDefined():
        return []
    causes: list[Cause] = []
    error = option.get()
    while error is not None and len(causes) < 20:
        causes.append(Cause(kind=error.getClass().getName(), message=error.getMessage() or ""))
        error = error.getCause()
    return causes
