"""Ways of events through queries: what a limit covers on the queries that run a dataflow, and its slowest path there.

A way may hold very many paths. They are not listed: the slowest one is found by dynamic programming.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter

from scheduler.model.estate import Estate
from scheduler.model.latency import LatencyLimit

Step = Callable[[str | None, str], float]  # from a query, or from outside, into a query: what that takes, in seconds


@dataclass(frozen=True)
class Way:
    """Queries, which of them read which, where events come in, and where they are at the end."""

    writers: Mapping[str, tuple[str, ...]]  # of each query of the way: those of the way that it reads
    starts: frozenset[str] = field(default_factory=frozenset)
    ends: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def upstream_first(self) -> tuple[str, ...]:
        """Its queries, each after those that it reads."""
        return tuple(TopologicalSorter(self.writers).static_order())

    def slowest(self, step: Step) -> tuple[tuple[str, ...], float]:
        """The path from a start to an end that takes longest, and how long; nothing where there is none."""
        until_s: dict[str, float] = {}
        before: dict[str, str | None] = {}
        for query in self.upstream_first:
            ways_in = [(until_s[writer] + step(writer, query), writer) for writer in self.writers[query]
                       if writer in until_s]
            if query in self.starts:
                ways_in.append((step(None, query), ""))
            if ways_in:
                until_s[query], writer = max(ways_in)
                before[query] = writer or None
        last = max((query for query in self.ends if query in until_s), key=lambda query: (until_s[query], query),
                   default=None)
        if last is None:
            return (), 0.0
        path, query = [], last
        while query is not None:
            path.append(query)
            query = before[query]
        return tuple(reversed(path)), until_s[last]


def way_of(estate: Estate, dataflow_id: str, limit: LatencyLimit) -> Way | None:
    """The queries (by fragment id) that a limit of a dataflow covers; None where none of them works.

    A limit along some tasks covers the queries that these run in, each as a whole.
    """
    submitted = estate.submitted[dataflow_id]
    if limit.along:
        return _along(estate, [submitted.running[task] for task in limit.along if task in submitted.running])
    tasks = set(submitted.running.values())
    working = {task for task in tasks if _works(estate, task)}
    queries = {estate.places[task][0] for task in working}
    writers: dict[str, set[str]] = {query: set() for query in queries}
    starts = set()
    for task in working:
        query = estate.places[task][0]
        parents = estate.tasks[task].parents
        if not parents:
            starts.add(query)
        writers[query] |= {estate.places[parent][0] for parent in parents if parent in working} - {query}
    ends = {estate.places[task][0] for task in (submitted.running[sink] for sink in submitted.sinks) if task in working}
    return _way(writers, starts, ends)


def _along(estate: Estate, tasks: Iterable[str]) -> Way | None:
    path: list[str] = []
    for task in tasks:
        if not _works(estate, task):
            return None
        query = estate.places[task][0]
        if not path or path[-1] != query:
            path.append(query)
    writers = {query: {before} for before, query in itertools.pairwise(path)}
    return _way({path[0]: set(), **writers}, {path[0]}, {path[-1]}) if path else None


def _way(writers: Mapping[str, Collection[str]], starts: Collection[str], ends: Collection[str]) -> Way | None:
    if not starts or not ends:
        return None
    return Way({query: tuple(sorted(of)) for query, of in writers.items()}, frozenset(starts), frozenset(ends))


def _works(estate: Estate, task: str) -> bool:
    place = estate.places.get(task)
    return place is not None and place[1] < estate.fragments[place[0]].active
