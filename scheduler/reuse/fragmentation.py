"""Fragmentation: how many queries and channels a dataflow runs through, against what it would need cut from scratch.

Incremental merges leave small fragments joined by channels, and unmerges leave tasks that nobody needs (paper [1],
4.3). Each query costs a batch whatever it carries, each channel the wait for its reader's next batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from scheduler.model.ports import EstateView
from scheduler.model.task_types import TaskTypes

from .activity import is_working
from .defragment import fusions


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """The fragmentation of a running dataflow. Queries that it shares with others count whole."""

    queries: int
    fewest: int  # that steps of defragmentation lead to; those that a schedule asked for are as many as they should be
    steps: int  # of defragmentation that are possible now
    longest_hops: int  # channels on the way that crosses most of them
    total_hops: int  # streams that a channel carries
    latency_ms: float | None  # that channels add on the slowest way, as measured; None where nothing is measured
    idle_cores: float  # CPU that its queries take for running batches at all
    dead_tasks: int  # tasks that nobody needs and that still stand in its queries


def fragmentation(
    estate: EstateView,
    dataflow_id: str,
    *,
    task_types: TaskTypes,
    query_cores: float,
    latency_ms: Mapping[tuple[str, str], float] | None = None,
    apart: Collection[str] = (),
) -> Fragmentation:
    """Measure how a submitted dataflow is cut into queries; tasks that rest count nothing.

    Parameters
    ----------
    query_cores : float
        CPU cores that one query takes for its batches.
    latency_ms : mapping of (str, str) to float, optional
        The latency that a channel adds to a stream, by parent and task, where it is measured.
    """
    measured = latency_ms or {}
    tasks = {task_id: estate.tasks[task_id] for task_id in sorted(set(estate.submitted[dataflow_id].running.values()))}
    working = {task_id: task for task_id, task in tasks.items() if is_working(estate, task_id)}
    hops: dict[str, int] = {}
    added: dict[str, float] = {}
    total = 0
    order = TopologicalSorter({task_id: task.parents for task_id, task in working.items()}).static_order()
    for task_id in order:
        crosses = estate.places[task_id][1] == 0
        parents = working[task_id].parents
        total += len(parents) * crosses
        hops[task_id] = max((hops[parent] + crosses for parent in parents), default=0)
        added[task_id] = max(
            (added[parent] + crosses * measured.get((parent, task_id), 0.0) for parent in parents), default=0.0
        )
    fragments = [
        estate.fragments[fragment_id] for fragment_id in sorted({estate.places[task_id][0] for task_id in working})
    ]
    queries = sum(len(fragment.queries) for fragment in fragments)
    possible = fusions(
        estate, {estate.places[task_id][0] for task_id in tasks}, task_types=task_types, query_cores=query_cores,
        apart=apart)
    return Fragmentation(
        queries=queries,
        # Of the readers of one fragment's last task, one can go on in its query.
        fewest=queries - len({fusion.path[0] for fusion in possible if len(fusion.path) > 1}),
        steps=len(possible),
        longest_hops=max(hops.values(), default=0),
        total_hops=total,
        latency_ms=max(added.values(), default=0.0) if measured else None,
        idle_cores=queries * query_cores,
        dead_tasks=sum(len(fragment.tasks) - len(fragment.kept_tasks) for fragment in fragments),
    )
