"""Ways of events through queries: what a limit covers on the queries that run a dataflow, and its slowest path there.

A way may hold very many paths. They are not listed: the slowest one is found by dynamic programming.

A limit along a part is on the elements of paper [5], 3.2: a task takes events when a batch of its query does, and gives
them when the batch is done; so tasks of one query that follow one another have its batch in common, and a stream
between them takes no time. A stream between queries takes from when a block is written until a batch takes it. What
events of a source wait for a batch belongs to the source, for there is no stream before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import TopologicalSorter

from scheduler.model.estate import Estate
from scheduler.model.latency_limits import LatencyLimit

from .triggers import WHOLE, Counted

Step = Callable[[str | None, str], float]  # from a query, or from outside, into a query: what that takes, in seconds


@dataclass(frozen=True)
class Way:
    """Queries, which of them read which, where events come in, where they are at the end, and what of it counts."""

    writers: Mapping[str, tuple[str, ...]]  # of each query of the way: those of the way that it reads
    starts: frozenset[str] = field(default_factory=frozenset)
    ends: frozenset[str] = field(default_factory=frozenset)
    counted: Counted = WHOLE

    @property
    def written_by(self) -> frozenset[str]:
        """Its first queries where nothing of them counts: how long their batches take says nothing of the way."""
        return self.starts & self.counted.passed

    @cached_property
    def ground(self) -> Hashable:
        """All of it as a value that can be hashed: ways with the same one are equal."""
        return tuple(sorted(self.writers.items())), self.starts, self.ends, self.counted

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

    A limit along a part covers the queries that its tasks run in, each as a whole; before and after them those that
    write its first stream and read its last one.
    """
    submitted = estate.submitted[dataflow_id]
    if limit.along:
        part = part_of(estate, dataflow_id, limit)
        return None if part is None else part.way
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


def reads_among(estate: Estate, queries: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The queries that each of some queries of an estate reads."""
    return {
        name: tuple(sorted({estate.places[parent][0] for parent in estate.tasks[
            estate.fragments[name].tasks[0]].parents}.intersection(queries))) for name in queries}


def upstream_of(reads: Mapping[str, Collection[str]], queries: Iterable[str]) -> set[str]:
    """Queries, with all that is upstream of them: how long their batches take depends on how far apart those are."""
    waiting = list(queries)
    upstream = set(waiting)
    while waiting:
        new = [writer for writer in reads.get(waiting.pop(), ()) if writer not in upstream]
        upstream.update(new)
        waiting += new
    return upstream


def working_reads(estate: Estate) -> dict[str, tuple[str, ...]]:
    """The result of `reads_among` for the queries that work."""
    return reads_among(estate, [name for name, fragment in estate.fragments.items() if fragment.active_tasks])


@dataclass(frozen=True)
class Part:
    """The subject of a limit along a part: queries one after the other, each with the task by which events leave it,
    and what of them counts."""

    path: tuple[tuple[str, str], ...]
    counted: Counted

    @property
    def queries(self) -> tuple[str, ...]:
        """Its queries, from the first to the last."""
        return tuple(query for query, _ in self.path)

    @property
    def way(self) -> Way:
        """Its queries as a way."""
        queries = self.queries
        writers = {query: queries[max(0, at - 1): at] for at, query in enumerate(queries)}
        return Way(writers, frozenset(queries[:1]), frozenset(queries[-1:]), self.counted)


def part_along(limit: LatencyLimit, home: Mapping[str, str], *, sources: Collection[str]) -> Part:
    """The part that a limit along it is on.

    Parameters
    ----------
    home : mapping of str to str
        The query of each of the limit's tasks, and of those at the far ends of its streams.
    sources : collection of str
        The dataflow's tasks that have no input.
    """
    tasks = list(limit.path)
    homes, passed = [home[task] for task in tasks], set()
    if limit.begins_with_stream and homes[0] != homes[1]:
        passed.add(homes[0])
    if limit.ends_with_stream and homes[-1] != homes[-2]:
        passed.add(homes[-1])
    elif limit.ends_with_stream:  # within a query, events are where the stream begins
        del tasks[-1], homes[-1]
        passed |= set() if limit.tasks else {homes[0]}
    waits = not limit.begins_with_stream and tasks[0] in sources
    leaving = dict(zip(homes, tasks, strict=True))  # of several tasks of a query the last one
    return Part(tuple(leaving.items()), Counted(waits, frozenset(passed)))


def part_of(estate: Estate, dataflow_id: str, limit: LatencyLimit) -> Part | None:
    """The part of a running dataflow that a limit covers; None if a task on it is inactive."""
    running = estate.submitted[dataflow_id].running
    if not all(task in running and _works(estate, running[task]) for task in limit.path):
        return None
    part = part_along(
        limit, {task: estate.places[running[task]][0] for task in limit.path},
        sources=[task for task in limit.path if not estate.tasks[running[task]].parents])
    return replace(part, path=tuple((query, running[task]) for query, task in part.path))


def _way(writers: Mapping[str, Collection[str]], starts: Collection[str], ends: Collection[str]) -> Way | None:
    if not starts or not ends:
        return None
    return Way({query: tuple(sorted(of)) for query, of in writers.items()}, frozenset(starts), frozenset(ends))


def _works(estate: Estate, task: str) -> bool:
    place = estate.places.get(task)
    return place is not None and place[1] < estate.fragments[place[0]].active
