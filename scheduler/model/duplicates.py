"""Equivalent tasks within one dataflow, and the dataflow without them (paper [1], 3.2: submissions have none)."""

from __future__ import annotations

from dataclasses import replace
from graphlib import TopologicalSorter

from .canonical import canonical_json, identity_config
from .dataflow import Dataflow
from .task_types import TaskTypes


def equivalent_tasks(dataflow: Dataflow, *, task_types: TaskTypes) -> dict[str, str]:
    """Each task that is equivalent to an earlier one, with the earliest such task; empty where there is none.

    Tasks are numbered by class, upstream first: two are of one class when type, canonical config and the multiset of
    their parents' classes are equal.
    """
    tasks = {task.id: task for task in dataflow.tasks}
    parents = dataflow.parents()
    classes: dict[tuple[str, str, tuple[int, ...]], int] = {}
    class_of: dict[str, int] = {}
    for task_id in TopologicalSorter(parents).static_order():
        task = tasks[task_id]
        config = canonical_json(identity_config(dataflow, task, task_types[task.type]))
        identity = (task.type, config, tuple(sorted(class_of[parent] for parent in parents[task_id])))
        class_of[task_id] = classes.setdefault(identity, len(classes))
    first: dict[int, str] = {}
    return {
        task.id: first[class_of[task.id]]
        for task in dataflow.tasks
        if first.setdefault(class_of[task.id], task.id) != task.id
    }


def deduplicate(dataflow: Dataflow, *, task_types: TaskTypes) -> Dataflow:
    """The dataflow with one task for each set of equivalent ones, and one stream for each set between them.

    Tasks that become equivalent because their parents became one are made one in turn.
    """
    while same := equivalent_tasks(dataflow, task_types=task_types):
        streams = {}
        for stream in dataflow.streams:
            ends = same.get(stream.source, stream.source), same.get(stream.target, stream.target)
            streams.setdefault(ends, replace(stream, source=ends[0], target=ends[1]))
        dataflow = replace(
            dataflow,
            tasks=tuple(task for task in dataflow.tasks if task.id not in same),
            streams=tuple(streams.values()),
            rates_per_s={task_id: rate for task_id, rate in dataflow.rates_per_s.items() if task_id not in same},
        )
    return dataflow
