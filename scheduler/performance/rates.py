"""Rates along a dataflow (GetRate, paper [2]): what each task receives when its sources run at their rates."""

from __future__ import annotations

from graphlib import TopologicalSorter

from scheduler.model.canonical import source_rate_per_s
from scheduler.model.dataflow import Dataflow
from scheduler.model.task_types import TaskTypes

MICROSECONDS_PER_S = 1_000_000


def input_rates_per_s(dataflow: Dataflow, *, task_types: TaskTypes) -> dict[str, float]:
    """The rate at which each task works, in events per second.

    A source works at its own rate; another task at the sum, over its parents, of the parent's rate times the stream's
    selectivity: the one that the document states, else the one that the parent's type declares.

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, Algorithm 1.
    """
    tasks = {task.id: task for task in dataflow.tasks}
    stated = {(stream.source, stream.target): stream.selectivity for stream in dataflow.streams}
    parents = dataflow.parents()
    rates: dict[str, float] = {}
    for task_id in TopologicalSorter(parents).static_order():
        task_type = task_types[tasks[task_id].type]
        if task_type.kind == "source":
            rates[task_id] = source_rate_per_s(dataflow, tasks[task_id], task_type)
            continue
        rates[task_id] = 0.0
        for parent in parents[task_id]:
            selectivity = stated[parent, task_id]
            if selectivity is None:
                selectivity = task_types[tasks[parent].type].selectivity
            rates[task_id] += rates[parent] * selectivity
    return rates


def task_cores(dataflow: Dataflow, *, task_types: TaskTypes) -> dict[str, float]:
    """The CPU cores that each task is expected to take: its rate times its type's declared cost for an event."""
    rates = input_rates_per_s(dataflow, task_types=task_types)
    return {
        task.id: rates[task.id] * task_types[task.type].cost_us / MICROSECONDS_PER_S for task in dataflow.tasks
    }
