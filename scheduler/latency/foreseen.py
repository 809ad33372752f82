"""Statements about latency limits before anything runs: those that no batch can keep to."""

from __future__ import annotations

from graphlib import TopologicalSorter

from scheduler.model.costs import Costs
from scheduler.model.dataflow import Dataflow
from scheduler.model.latency_limits import LatencyLimit, Limits, figure_in_words
from scheduler.model.task_types import TaskTypes

from .offers import Alone
from .triggers import BUSY


def out_of_reach(
    dataflow: Dataflow, limits: Limits, *, task_types: TaskTypes, costs: Costs, alone: Alone | None = None
) -> tuple[str, ...]:
    """Notes on limits that are below the least time of micro-batches of the dataflow's tasks.

    That is a lower bound: one query for all tasks on the way, on a core of its own, whose batches take no longer than
    their CPU and follow one another as closely as may be. Events wait for them where the way begins with a source;
    else they may be written just as a batch begins. So a limit on a stream alone is never out of reach. Where batches
    would stay open, that counts as if they did.

    Parameters
    ----------
    costs : Costs
        CPU of batches on this class of machine, measured or declared.
    alone : Alone, optional
        Its queries, with those whose batches may stay open; without it none do.
    """
    notes, parents = [], dataflow.parents()
    for limit in limits:
        tasks = limit.tasks if limit.along else _slowest_way(dataflow, task_types, costs)
        if not tasks:
            continue
        batch_s = costs.query_batch_s + sum(_batch_s(dataflow, task, task_types, costs) for task in tasks)
        waits = not limit.begins_with_stream and not parents[tasks[0]]
        least_s = batch_s * (1 + limit.share / BUSY) if waits else batch_s
        if limit.limit_s < least_s:
            opened = None if alone is None else alone.with_open_batches(limit)
            notes.append(_note(limit, tasks, batch_s, least_s, opened))
    return tuple(notes)


def _note(
    limit: LatencyLimit, tasks: tuple[str, ...], batch_s: float, least_s: float, opened: tuple[float, bool] | None
) -> str:
    takes, at_least = (figure_in_words(seconds, most=2) for seconds in (batch_s, least_s))
    tasks_text = tasks[0] if len(tasks) == 1 else f"{tasks[0]} to {tasks[-1]}"
    micro = f"a batch of {tasks_text} takes about {takes} here, so events take at least {at_least}"
    if opened is None:
        return (f"Its latency limit ({limit.words}) is out of reach: {micro}. It would run as often as it can, and pay "
                "for that.")
    then = figure_in_words(opened[0], most=2)
    if opened[1]:
        return (f"Its latency limit ({limit.words}) rests on open batches, with which events take about {then}: "
                f"without them {micro}.")
    return (f"Its latency limit ({limit.words}) is out of reach: {micro}, and {then} with open batches. It would leave "
            "its batches open where it can, and pay for that.")


def _slowest_way(dataflow: Dataflow, task_types: TaskTypes, costs: Costs) -> tuple[str, ...]:
    """The tasks from a source to a sink whose batches take longest."""
    slowest_paths: dict[str, tuple[float, tuple[str, ...]]] = {}
    parents = dataflow.parents()
    for task in TopologicalSorter(parents).static_order():
        before_s, way = max((slowest_paths[parent] for parent in parents[task]), default=(0.0, ()))
        slowest_paths[task] = (before_s + _batch_s(dataflow, task, task_types, costs), (*way, task))
    return max(slowest_paths.values())[1]


def _batch_s(dataflow: Dataflow, task: str, task_types: TaskTypes, costs: Costs) -> float:
    task_type = task_types.get(dataflow.task(task).type)
    return 0.0 if task_type is None else costs.task_batch_s(task_type)
