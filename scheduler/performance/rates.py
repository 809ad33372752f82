"""Rates along a dataflow (GetRate, paper [2]): what each task receives when its sources run at their rates."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import TopologicalSorter
from math import sqrt

from scheduler.model.alternates import selectivity_at_work
from scheduler.model.canonical import source_rate_per_s
from scheduler.model.dataflow import Dataflow
from scheduler.model.task_types import TaskTypes

MICROSECONDS_PER_S = 1_000_000
MOST_PER_S = 1e12  # events/s: selectivities along a path multiply, and what follows from a rate has to be finite
KEEPS_UP = 0.95  # of a rate: who does so much of it keeps up with it
CHANCE = 3.0  # standard deviations of how many events come at random (Poisson): so many fewer may be chance


def input_rates_per_s(
    dataflow: Dataflow,
    *,
    task_types: TaskTypes,
    source_rate: float | None = None,
    measured: Mapping[tuple[str, str], float] | None = None,
) -> dict[str, float]:
    """The rate at which each task works, in events per second; upstream tasks first.

    A source works at its own rate, or at ``source_rate`` (Ω) where that is given; another task at the sum, over its
    parents, of the parent's rate times the stream's selectivity: the ``measured`` one by (source, target), else the one
    that the document states, else the one that the parent's type declares. No rate is above ``MOST_PER_S``.

    Parameters
    ----------
    source_rate : float, optional
        Events per second of every source; without it each has its own.
    measured : Mapping[tuple[str, str], float], optional
        Selectivities that were measured, by stream; what a type declares counts elsewhere.

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, section 6.
    """
    tasks = {task.id: task for task in dataflow.tasks}
    of_stream = selectivities(dataflow, task_types=task_types, measured=measured)
    parents = dataflow.parents()
    rates: dict[str, float] = {}
    for task_id in TopologicalSorter(parents).static_order():
        task_type = task_types[tasks[task_id].type]
        if task_type.kind == "source":
            rate_per_s = source_rate_per_s(dataflow, tasks[task_id], task_type) if source_rate is None else source_rate
            rates[task_id] = rate_per_s
            continue
        rates[task_id] = 0.0
        for parent in parents[task_id]:
            rates[task_id] = min(MOST_PER_S, rates[task_id] + rates[parent] * of_stream[parent, task_id])
    return rates


def selectivities(
    dataflow: Dataflow, *, task_types: TaskTypes, measured: Mapping[tuple[str, str], float] | None = None
) -> dict[tuple[str, str], float]:
    """Each stream's selectivity, by (source, target): measured, else stated, else declared by the source's type."""
    of_task = {task.id: selectivity_at_work(task.type, task.config, task_types) for task in dataflow.tasks}
    pairs_found: dict[tuple[str, str], float] = {}
    for stream in dataflow.streams:
        selectivity = (measured or {}).get((stream.source, stream.target), stream.selectivity)
        pairs_found[stream.source, stream.target] = of_task[stream.source] if selectivity is None else selectivity
    return pairs_found


def falls_short(measured_per_s: float, due_per_s: float, *, over_s: float | None = None) -> bool:
    """True if a rate that was counted for so long is less than was due, and by more than chance."""
    return measured_per_s < min(KEEPS_UP * due_per_s, due_per_s - by_chance(due_per_s, over_s=over_s))


def by_chance(rate_per_s: float, *, over_s: float | None) -> float:
    """Part of a rate that may be missing by chance where it was counted for so long; nothing where nobody noted it."""
    return CHANCE * sqrt(rate_per_s / over_s) if over_s else 0.0
