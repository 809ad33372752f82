"""Equivalent tasks within one dataflow, and the dataflow without them (paper [1], 3.2: submissions have none)."""

from __future__ import annotations

from dataclasses import replace
from graphlib import TopologicalSorter

from .canonical import canonical_json, identity_config
from .dataflow import Dataflow, Stream
from .task_types import TaskTypes


def equivalent_tasks(dataflow: Dataflow, *, task_types: TaskTypes) -> dict[str, str]:
    """Each task that is equivalent to an earlier one, with the earliest such task; empty where there is none."""
    return _twins(dataflow, task_types, streams_too=False)


def deduplicate(dataflow: Dataflow, *, task_types: TaskTypes) -> Dataflow:
    """The dataflow with one task for each set of equivalent ones, and one stream for each set between them.

    Tasks that become equivalent because their parents became one are made one in turn.
    """
    twins = _twins(dataflow, task_types, streams_too=True)
    streams: dict[tuple[str, str], Stream] = {}
    for stream in dataflow.streams:
        source, target = twins.get(stream.source, stream.source), twins.get(stream.target, stream.target)
        streams.setdefault((source, target), replace(stream, source=source, target=target))
    unchained = {twins.get(task_id, task_id) for task_id in dataflow.unchained}  # the strictest of equals counts
    return replace(
        dataflow,
        tasks=tuple(
            replace(task, chain="never") if task.id in unchained else task
            for task in dataflow.tasks if task.id not in twins),
        streams=tuple(streams.values()),
        rates_per_s={task_id: rate for task_id, rate in dataflow.rates_per_s.items() if task_id not in twins},
    )


def _twins(dataflow: Dataflow, task_types: TaskTypes, *, streams_too: bool) -> dict[str, str]:
    """Number the tasks by class, upstream first, and pair each with the first of its class.

    Two are of one class when type, canonical config and the multiset of their parents' classes are equal; or the set,
    where the streams from parents of one class become one too.
    """
    tasks = {task.id: task for task in dataflow.tasks}
    parents = dataflow.parents()
    classes: dict[tuple[str, str, tuple[int, ...]], int] = {}
    class_of: dict[str, int] = {}
    for task_id in TopologicalSorter(parents).static_order():
        task = tasks[task_id]
        config = canonical_json(identity_config(dataflow, task, task_types[task.type]))
        above = [class_of[parent] for parent in parents[task_id]]
        identity = (task.type, config, tuple(sorted(set(above) if streams_too else above)))
        class_of[task_id] = classes.setdefault(identity, len(classes))
    first: dict[int, str] = {}
    return {
        task.id: first[class_of[task.id]]
        for task in dataflow.tasks
        if first.setdefault(class_of[task.id], task.id) != task.id
    }
