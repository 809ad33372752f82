"""Unmerging a removed dataflow from what runs (paper [1], 4.2): stop what nobody else needs."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model.estate import Estate


@dataclass(frozen=True, slots=True)
class Unmerge:
    """Which running tasks of a removed dataflow stay for others, and which stop; in the dataflow's own order."""

    kept: tuple[str, ...]
    stopped: tuple[str, ...]


def unmerge(estate: Estate, dataflow_id: str) -> Unmerge:
    """Decide what stops when a submitted dataflow is removed.

    A running task stays exactly when it is in the ancestor graph of a sink of a dataflow that remains. Every task of a
    valid dataflow is in the ancestor graph of one of its sinks, so that is: when another submitted dataflow uses it.
    Which streams and running dataflows that leaves follows from the tasks (`running.running_dataflows`).

    References
    ----------
    .. [1] Chaturvedi, Tyagi and Simmhan, "Collaborative Reuse of Streaming Dataflows in IoT Applications", 2017, 4.2.
    """
    own = dict.fromkeys(estate.submitted[dataflow_id].running.values())
    kept = tuple(task_id for task_id in own if any(user != dataflow_id for user in estate.users[task_id]))
    staying = set(kept)
    return Unmerge(kept=kept, stopped=tuple(task_id for task_id in own if task_id not in staying))
