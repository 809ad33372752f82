"""Telemetry of queries: progress and ends, through a listener in the JVM, or by polling where it cannot be had.

PySpark's own listener converts every field of an event by a call of its own and falls behind at ten events a second.
This one asks the JVM for the event's JSON, once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from .queries import OpenQuery


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A query's newest batch that carried events."""

    batch: int
    batch_ms: int
    rows_per_s: float
    phases_ms: dict[str, int] = field(default_factory=dict)
    committed_at_ms: int | None = None  # when it was done, since the epoch


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a query so far, restarts included: batches with events, and the time that it was busy with them.

    Busy is a batch's whole duration but for what it spent asking its sources, most of which is waiting for events; of
    one that stays open, but for what its source waited.
    """

    batches: int = 0
    busy_ms: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.batches + other.batches, self.busy_ms + other.busy_ms)


def parse_work(document: dict[str, Any]) -> Work:
    """The work of the batch of a StreamingQueryProgress."""
    durations = document.get("durationMs", {})
    waited_ms = durations.get("latestOffset", 0) + _waited_ms(document)
    return Work(1, max(0, durations.get("triggerExecution", 0) - waited_ms))


def _waited_ms(document: dict[str, Any]) -> int:
    """For how long a batch that stayed open had nothing to do."""
    return sum(int((source.get("metrics") or {}).get("waited_ms", 0)) for source in document.get("sources", ()))


# What a batch spends its time on, by what Spark calls it.
PHASES = {
    "asking": ("latestOffset",), "planning": ("queryPlanning", "getBatch"), "working": ("addBatch",),
    "logging": ("walCommit", "commitOffsets")}


def parse_phases(document: dict[str, Any]) -> dict[str, int]:
    """The duration in ms of each phase of the batch of a StreamingQueryProgress that it tells of."""
    durations = dict(document.get("durationMs", {}))
    if "addBatch" in durations:
        durations["addBatch"] = max(0, durations["addBatch"] - _waited_ms(document))
    phases = {
        phase: sum(durations.get(name, 0) for name in names)
        for phase, names in PHASES.items() if any(name in durations for name in names)}
    states = [int(state.get("commitTimeMs") or 0) for state in document.get("stateOperators") or ()]
    return {**phases, "committing": sum(states)} if states else phases  # within “working”


def _committed_at_ms(document: dict[str, Any]) -> int | None:
    """When the batch was done: its offsets and its state are in the checkpoint since then."""
    try:
        began = datetime.fromisoformat(document["timestamp"])
    except (KeyError, TypeError, ValueError):
        return None
    return round(began.timestamp() * 1000) + document.get("durationMs", {}).get("triggerExecution", 0)


def parse_progress(document: dict[str, Any]) -> BatchProgress:
    """The progress in the JSON of a StreamingQueryProgress."""
    rows_per_s = document.get("inputRowsPerSecond") or 0.0
    batch_ms = document.get("batchDuration") or document["durationMs"].get("triggerExecution", 0)
    return BatchProgress(
        batch=document["batchId"],
        batch_ms=max(0, batch_ms - _waited_ms(document)),
        rows_per_s=round(float(rows_per_s), 1),
        phases_ms=parse_phases(document),
        committed_at_ms=_committed_at_ms(document),
    )


class QueryListener:
    """Keeps the newest progress of every run of a query and tells when one has ended.

    ``on_end`` is called with a run id when a query has ended, ``on_batch`` with a query's name when a batch of it has.
    Both are called on a thread of the listener bus, and must return at once; ``on_batch`` not where it is polled.
    """

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]

    def __init__(
        self, on_end: Callable[[str], None], on_batch: Callable[[str], object] = lambda name: None
    ) -> None:
        self._on_end, self._on_batch = on_end, on_batch
        self._progress: dict[str, BatchProgress] = {}
        self._work: dict[str, Work] = {}
        self._told_ms: dict[str, int] = {}  # by name, for how long it was said to have been busy
        self._watched: dict[str, list[dict[str, Any]]] = {}
        self._lock = threading.Lock()
        self.listening = False

    def attach(self, spark: SparkSession) -> None:
        """Listen to the session's queries; where py4j's callback server cannot be started, ``poll`` remains."""
        from pyspark.java_gateway import ensure_callback_server_started

        gateway = spark.sparkContext._gateway
        try:
            ensure_callback_server_started(gateway)
            wrapper = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self)
            spark._jsparkSession.streams().addListener(wrapper)
        except Exception:
            self.listening = False
        else:
            self.listening = True

    def progress(self, query: StreamingQuery) -> BatchProgress | None:
        """The newest progress of this run, or None before its first batch."""
        if not self.listening:
            self._poll(query)
        with self._lock:
            return self._progress.get(query.runId)

    def work(self, name: str, query: StreamingQuery | None = None) -> Work:
        """The work of the queries of this name so far in this process.

        Parameters
        ----------
        query : StreamingQuery, optional
            The one that runs: what its open batch has done counts. When that has ended, Spark says so a moment later:
            until then the time is as it was.
        """
        open_ms = query.busy_ms() if isinstance(query, OpenQuery) else 0
        with self._lock:
            done = self._work.get(name, Work())
            told_ms = self._told_ms[name] = max(self._told_ms.get(name, 0), done.busy_ms + open_ms)
            return replace(done, busy_ms=told_ms)

    def watch(self, name: str) -> None:
        """Keep all that the queries of this name say of their batches from now on."""
        with self._lock:
            self._watched[name] = []

    def watched(self, name: str, query: StreamingQuery | None = None) -> list[dict[str, Any]]:
        """Reports of progress by Spark since the last call, each batch once."""
        if query is not None and not self.listening:
            self._poll(query)
        with self._lock:
            earlier = self._watched.get(name, [])
            if earlier:
                self._watched[name] = []
        return earlier

    def unwatch(self, name: str) -> None:
        """Keep no more of it."""
        with self._lock:
            self._watched.pop(name, None)

    def forget(self, run_ids: Iterable[str]) -> None:
        """Drop all data of ended runs."""
        with self._lock:
            for run_id in run_ids:
                self._progress.pop(run_id, None)

    def _poll(self, query: StreamingQuery) -> None:
        last = query._jsq.lastProgress()
        if last is not None:
            self._keep(json.loads(last.json()))

    def _keep(self, document: dict[str, Any]) -> None:
        name, run_id = document.get("name") or "", document["runId"]
        with self._lock:
            newest = self._progress.get(run_id)
            if newest is None or newest.batch != document["batchId"]:  # polling meets a batch more than once
                self._work[name] = self._work.get(name, Work()) + parse_work(document)
                if name in self._watched:
                    self._watched[name].append(document)
            self._progress[run_id] = parse_progress(document)

    # The methods of the Java interface, by their Java names.

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        document = json.loads(event.progress().json())
        self._keep(document)
        self._on_batch(document.get("name") or "")

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self._on_end(event.runId().toString())
