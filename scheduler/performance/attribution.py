"""The use of each running task: the slot's measured CPU and memory, divided by what its queries and tasks did.

A slot's CPU and memory are measured over its whole process tree, and so is how long each query was busy; bytes are
counted for each task. What a query took is apportioned among its tasks by a model, because one thread runs all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.model.amounts import Amounts, share_out
from scheduler.model.costs import QUERY_BATCH_S, TASK_BATCH_S

NOBODY = ""  # stands for a running task where a slot worked for none


@dataclass(frozen=True, slots=True)
class TaskWork:
    """A task's work over a time: events that it took in and gave, bytes that it wrote and read; CPU declared for an
    event; what was on disk for it, because it read too slowly."""

    id: str
    events: int = 0
    traffic_bytes: int = 0
    cost_us: float = 0.0
    disk_kb_s: int = 0
    events_out: int = 0


@dataclass(frozen=True, slots=True)
class QueryWork:
    """A query's work over a time: how long it was busy with batches, how many those were, its tasks, and, where its
    batches stay open, what the groups took in which its events came."""

    busy_ms: int
    batches: int
    tasks: tuple[TaskWork, ...]
    groups_cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Counters:
    """A slot's counters at one moment; they grow as long as the slot's process lives, which began at ``since_ms``.

    ``queries`` holds counters by fragment id: ``busy_ms`` and ``batches``, which begin with the process; and the
    broker's, which go on wherever the query runs: ``in:n`` and ``<position>:n`` events, ``in:bytes`` read, and
    ``ch:<channel>`` bytes written, which are the channel's, whichever query writes it; of a stream that is divided,
    ``ch:<channel>@<reader>`` for each part. ``spilled_kb_s`` is the node's: what was on disk for the query.
    ``apart_ms`` counts nothing: of a query whose batches stay open it is how far apart their groups begin.
    """

    since_ms: int
    cpu_ms: int
    memory_mb_s: int
    queries: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


OF_THE_SLOT = frozenset({"busy_ms", "batches"})
APART = "apart_ms"
CHANNEL = "ch:"


def grown(before: Mapping[str, Counters], after: Mapping[str, Counters]) -> dict[str, Counters]:
    """The growth of the counters of slots between two readings.

    Parameters
    ----------
    before, after : mapping
        Counters by slot. ``before`` holds every slot's newest, also of slots that ``after`` lacks.

    Returns
    -------
    dict
        Growth by slot of ``after``. Counters of a slot that is new or was started anew, and any that went backwards,
        count from zero: what an old process used after its last reading is not known and is charged to nobody.
    """
    by_query: dict[str, Mapping[str, int]] = {}
    channels: dict[str, int] = {}
    for counters in before.values():
        for query, counts in counters.queries.items():
            by_query[query] = {**by_query.get(query, {}), **counts}
            for name, count in counts.items():
                if name.startswith(CHANNEL):
                    channels[name] = max(count, channels.get(name, 0))
    return {slot: _slot_growth(before.get(slot), counters, by_query, channels) for slot, counters in after.items()}


def _slot_growth(
    before: Counters | None, after: Counters, by_query: Mapping[str, Mapping[str, int]], channels: Mapping[str, int]
) -> Counters:
    old = before if before is not None and before.since_ms == after.since_ms else Counters(after.since_ms, 0, 0)

    def last(query: str, name: str) -> int:
        if name in OF_THE_SLOT:
            return old.queries.get(query, {}).get(name, 0)
        return channels.get(name, 0) if name.startswith(CHANNEL) else by_query.get(query, {}).get(name, 0)

    return Counters(
        since_ms=after.since_ms,
        cpu_ms=_growth(old.cpu_ms, after.cpu_ms),
        memory_mb_s=_growth(old.memory_mb_s, after.memory_mb_s),
        queries={
            query: {
                name: count if name == APART else _growth(last(query, name), count) for name, count in counts.items()}
            for query, counts in after.queries.items()
        },
    )


def query_work(counts: Mapping[str, int], tasks: Iterable[tuple[str, float, str]]) -> QueryWork:
    """A query's work from the growth of its counters.

    Parameters
    ----------
    counts : mapping
        As in `Counters`.
    tasks : iterable
        The query's working tasks, upstream first: running task id, the CPU microseconds declared for an event, and
        the channel of its stream.
    """
    windows = []
    arriving = counts.get("in:n")
    for position, (task_id, cost_us, channel) in enumerate(tasks):
        leaving = counts.get(f"{position}:n", 0)
        read = counts.get("in:bytes", 0) if position == 0 else 0
        windows.append(TaskWork(
            id=task_id, events=leaving if arriving is None else arriving, cost_us=cost_us, events_out=leaving,
            disk_kb_s=counts.get("spilled_kb_s", 0) if position == 0 else 0,
            traffic_bytes=read + sum(
                count for name, count in counts.items()
                if name == CHANNEL + channel or name.startswith(f"{CHANNEL}{channel}@"))))
        arriving = leaving
    return QueryWork(counts.get("busy_ms", 0), counts.get("batches", 0), tuple(windows))


def attribute(*, cpu_us: int, memory_mb_s: int, queries: Iterable[QueryWork]) -> dict[str, Amounts]:
    """Divide what a slot used over a time among its running tasks.

    Parameters
    ----------
    cpu_us, memory_mb_s : int
        The use of the slot's process tree, idle overhead included.

    Returns
    -------
    dict
        Running task id to what it used; together exactly what the slot used, the traffic, and what was on disk. A query
        gets CPU and memory in proportion to the time that it was busy (evenly where none was). Of the query's CPU each
        task gets an even part of what batches take whatever is in them, and a part for its events, by the CPU that its
        type declares for one; where the query took more than both together, the rest goes with the events, where it
        took less, all parts shrink alike. What no query was there for is `NOBODY`'s.
    """
    queries = [query for query in queries if query.tasks]
    slot = Amounts(cpu_us=cpu_us, memory_mb_s=memory_mb_s)
    if not queries:
        return {NOBODY: slot} if slot else {}
    used: dict[str, Amounts] = {}
    for query, part in zip(queries, slot.share_out([query.busy_ms for query in queries]), strict=True):
        for task, amounts in zip(query.tasks, part.share_out(_weights(query, part.cpu_us)), strict=True):
            amounts_seen = amounts + Amounts(traffic_bytes=task.traffic_bytes, disk_kb_s=task.disk_kb_s)
            used[task.id] = used.get(task.id, Amounts()) + amounts_seen
    return used


def batch_shares(*, cpu_us: int, queries: Iterable[QueryWork]) -> dict[str, float]:
    """The part of each running task's CPU that batches took whatever was in them, from 0 to 1, by the same model.

    Of a query whose batches stay open, that is also what the groups take in which its events come: it is the price of
    not having to wait.
    """
    queries = [query for query in queries if query.tasks]
    if not queries:
        return {}
    shares: dict[str, float] = {}
    parts = Amounts(cpu_us=cpu_us).share_out([query.busy_ms for query in queries])
    for query, part in zip(queries, parts, strict=True):
        even_us = (query.batches * _batch_s(query) + query.groups_cpu_s) * 1_000_000 / len(query.tasks)
        for task, weight in zip(query.tasks, _weights(query, part.cpu_us), strict=True):
            shares[task.id] = min(1.0, even_us / weight) if weight else 0.0
    return shares


def _batch_s(query: QueryWork) -> float:
    return QUERY_BATCH_S + len(query.tasks) * TASK_BATCH_S


def _weights(query: QueryWork, cpu_us: int) -> list[int]:
    """The weight of each task in a query's CPU, by the model."""
    for_batches_us = round(query.batches * _batch_s(query) * 1_000_000)
    for_events_us = [round(task.events * task.cost_us) for task in query.tasks]
    left_us = cpu_us - for_batches_us
    if left_us > sum(for_events_us) > 0:
        for_events_us = list(share_out(left_us, for_events_us))
    even = share_out(for_batches_us, [1] * len(query.tasks))
    return [batches + events for batches, events in zip(even, for_events_us, strict=True)]


def _growth(before: int, after: int) -> int:
    return after - before if after >= before else after
