"""Unmerging a removed dataflow from what runs (paper [1], 4.2): stop what nobody else needs."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter

from scheduler.model.ports import EstateView


@dataclass(frozen=True, slots=True)
class Unmerge:
    """Which running tasks of a removed dataflow stay for others, and which stop; upstream first."""

    kept: tuple[str, ...]
    stopped: tuple[str, ...]


def unmerge(estate: EstateView, dataflow_id: str) -> Unmerge:
    """Decide what stops when a submitted dataflow is removed.

    A running task stays exactly when it is in the ancestor graph of a sink of a dataflow that remains. Every task of a
    valid dataflow is in the ancestor graph of one of its sinks, so that is: when another submitted dataflow uses it.
    Which streams and running dataflows that leaves follows from the tasks (`running.running_dataflows`).

    References
    ----------
    .. [1] Chaturvedi, Tyagi and Simmhan, "Collaborative Reuse of Streaming Dataflows in IoT Applications", 2017, 4.2.
    """
    own = sorted(set(estate.submitted[dataflow_id].running.values()))
    kept, stopped = [], []
    for task_id in TopologicalSorter({task_id: estate.tasks[task_id].parents for task_id in own}).static_order():
        needed = estate.users_of(task_id).count > 1  # the one is the dataflow itself
        (kept if needed else stopped).append(task_id)
    return Unmerge(kept=tuple(kept), stopped=tuple(stopped))
