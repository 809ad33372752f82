"""Batches that take unusually long: of these a query's listener hears nothing until they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from workers.engine.spark import queries
from workers.engine.spark.listener import Progress

from .fragment_run import FragmentRun
from .reconcile import State


@dataclass(frozen=True, slots=True)
class Batching:
    """A query's run at one look: its newest batch that ended, and how to ask whether one is under way."""

    fragment_id: str
    run_id: str
    newest: int
    is_in_a_batch: Callable[[], bool]


class LongBatches:
    """Since when a batch of a query has been under way, by looks a few seconds apart.

    A query is asked only where no batch of it has ended since the last look.
    """

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}  # by run
        self._looked_at_ms = 0
        self._since_ms: dict[str, int] = {}  # by fragment

    def look(self, running: Iterable[Batching], *, now_ms: int) -> None:
        """Look at the queries that run; what is not among them is forgotten."""
        seen = list(running)
        self._since_ms = {
            query.fragment_id: self._since_ms.get(query.fragment_id, self._looked_at_ms) for query in seen
            if self._newest.get(query.run_id) == query.newest and query.is_in_a_batch()}
        self._newest = {query.run_id: query.newest for query in seen}
        self._looked_at_ms = now_ms

    def for_ms(self, fragment_id: str, *, now_ms: int) -> int | None:
        """For how long a batch of this fragment's query has been under way; None where none was at the last look."""
        since_ms = self._since_ms.get(fragment_id)
        return None if since_ms is None else now_ms - since_ms


def batching(runs: Iterable[FragmentRun], progress_of: Callable[[Any], Progress | None]) -> Iterator[Batching]:
    """The queries that have done a batch of their present run."""
    for run in runs:
        query = run.query
        if query is None or run.state is not State.RUNNING:
            continue
        progress = progress_of(query)
        if progress is not None:
            yield Batching(run.id, query.runId, progress.batch, partial(queries.is_in_a_batch, query))
