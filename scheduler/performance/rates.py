"""Rates along a dataflow (GetRate, paper [2]): what each task receives when its sources run at their rates."""

from __future__ import annotations

from graphlib import TopologicalSorter

from scheduler.model.canonical import source_rate_per_s
from scheduler.model.dataflow import Dataflow
from scheduler.model.task_types import TaskTypes

MICROSECONDS_PER_S = 1_000_000
# CPU seconds that a task adds to each batch of its query, whatever is in it: Spark plans every batch anew.
# Fitted to chains of 2, 5 and 9 tasks with 0, 1 and 2 states (docs/engine.md).
TASK_BATCH_S = 0.005
STATE_BATCH_S = 0.020  # what a stateful task adds to that


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


def task_cores(dataflow: Dataflow, *, task_types: TaskTypes, trigger_ms: int) -> dict[str, float]:
    """The CPU cores that each task is expected to take, for its events and for its part in every batch.

    Events are its rate times its type's declared cost for one; a query runs a batch every ``trigger_ms``.
    """
    rates = input_rates_per_s(dataflow, task_types=task_types)
    batches_per_s = 1000 / trigger_ms
    expected: dict[str, float] = {}
    for task in dataflow.tasks:
        task_type = task_types[task.type]
        batch_s = TASK_BATCH_S + (STATE_BATCH_S if task_type.stateful else 0.0)
        expected[task.id] = rates[task.id] * task_type.cost_us / MICROSECONDS_PER_S + batches_per_s * batch_s
    return expected
