"""Batches that take unusually long: a query's listener hears of them only when they end.

An open batch is long by nature, so its time counts from its last activity: it takes events, or looks for some once a
second.

A late look counts only as one in time: the driver did not run meanwhile, which tells nothing about its batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from workers.engine.spark import queries
from workers.engine.spark.listener import BatchProgress

from .fragment_run import FragmentRun
from .reconcile import FragmentState

LOOK_MS = 5_000  # from one look to the next
COMES_MS = 30_000  # so long after its start a query is watched for its first batch
STILL_MS = 5_000  # an open batch that has not moved for so long hangs


@dataclass(frozen=True, slots=True)
class BatchState:
    """A query's run at one look: its newest batch that ended, and how to ask whether one is under way; where its
    batches stay open, instead, for how long the one that is has not moved."""

    fragment_id: str
    run_id: str
    newest: int
    is_in_a_batch: Callable[[], bool]
    still_ms: Callable[[], int] | None = None


class LongBatches:
    """The time for which a batch of each query has been under way, by looks a few seconds apart.

    A query is asked only where no batch of it has ended since the last look, or where its batches stay open.
    """

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}  # by run
        self._looked_at_ms = 0
        self._since_ms: dict[str, int] = {}  # by fragment

    def look(self, running: Iterable[BatchState], *, now_ms: int) -> None:
        """Look at the queries that run; what is not among them is forgotten."""
        queries = list(running)
        late_ms = max(0, now_ms - self._looked_at_ms - LOOK_MS) if self._looked_at_ms else 0
        since_ms = {
            query.fragment_id: self._since_ms.get(query.fragment_id, self._looked_at_ms) + late_ms for query in queries
            if query.still_ms is None and self._newest.get(query.run_id) == query.newest and query.is_in_a_batch()}
        for query in queries:
            still_ms = 0 if query.still_ms is None else query.still_ms() - late_ms
            if still_ms >= STILL_MS:
                since_ms[query.fragment_id] = now_ms - still_ms
        self._since_ms = since_ms
        self._newest = {query.run_id: query.newest for query in queries}
        self._looked_at_ms = now_ms

    def for_ms(self, fragment_id: str, *, now_ms: int) -> int | None:
        """For how long a batch of this fragment's query has been under way, or an open one has not moved; None where
        neither was so at the last look."""
        since_ms = self._since_ms.get(fragment_id)
        return None if since_ms is None else min(now_ms, self._looked_at_ms + LOOK_MS) - since_ms


def batching(runs: Iterable[FragmentRun], progress_of: Callable[[Any], BatchProgress | None]) -> Iterator[BatchState]:
    """The queries that have done a batch of their present run, and those whose batches stay open."""
    for run in runs:
        query = run.query
        if query is None or run.state is not FragmentState.RUNNING:
            continue
        progress = progress_of(query)
        if isinstance(query, queries.OpenQuery):
            newest = -1 if progress is None else progress.batch
            yield BatchState(run.id, query.runId, newest, lambda: False, query.still_ms)
        elif progress is not None:
            yield BatchState(run.id, query.runId, progress.batch, partial(queries.is_in_a_batch, query))


def in_first_batch(
    runs: Iterable[FragmentRun], progress_of: Callable[[Any], BatchProgress | None], *, now_ms: int
) -> list[str]:
    """Fragments that begin, and those whose query has begun just now and is in its first batch."""
    return [run.id for run in runs if run.state is FragmentState.STARTING or (
        run.state is FragmentState.RUNNING and run.query is not None and now_ms - run.since_ms < COMES_MS
        and progress_of(run.query) is None and queries.is_in_a_batch(run.query))]
