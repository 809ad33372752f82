"""Feeding: the chain of tasks whose output a task is measured with, so that it gets events of the shape it will get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scheduler.model.canonical import identity_config
from scheduler.model.dataflow import Dataflow, Task
from scheduler.model.task_types import TaskTypes

from .rates import input_rates_per_s, selectivities


def feed_of(dataflow: Dataflow, task_id: str, *, task_types: TaskTypes) -> tuple[Task, ...]:
    """The tasks upstream of one, a source first, each with its canonical config.

    Where several streams enter a task the chain goes on along the one with the most events, the first of equals: what
    comes along the others is missing, which matters to a task whose events differ much by where they come from.

    Returns
    -------
    tuple of Task
        Empty for a source.
    """
    rates = input_rates_per_s(dataflow, task_types=task_types)
    along = selectivities(dataflow, task_types=task_types)
    parents: Mapping[str, tuple[str, ...]] = dataflow.parents()
    chain: list[Task] = []
    at = task_id
    while parents[at]:
        at = max(parents[at], key=lambda parent, to=at: rates[parent] * along[parent, to])
        task = dataflow.task(at)
        chain.append(replace(task, config=identity_config(dataflow, task, task_types[task.type])))
    return tuple(reversed(chain))
