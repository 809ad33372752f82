"""Unmerging a removed dataflow from what runs (paper [1], 4.2): stop what nobody else needs; pausing it likewise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from scheduler.model.ports import EstateView

from .activity import Activity, is_working


@dataclass(frozen=True, slots=True)
class Unmerge:
    """The activity of each running task after a removal or a pause of a dataflow; upstream first."""

    activities: Mapping[str, Activity]

    @property
    def staying(self) -> tuple[str, ...]:
        """The tasks that stay in the estate, working or not."""
        return tuple(task_id for task_id, stands in self.activities.items() if stands != "leaves")

    @property
    def stopped(self) -> tuple[str, ...]:
        """The tasks that leave the estate."""
        return tuple(task_id for task_id, stands in self.activities.items() if stands == "leaves")

    def rested(self, estate: EstateView) -> tuple[str, ...]:
        """The tasks that cease to work and stay."""
        return tuple(
            task_id for task_id, stands in self.activities.items() if stands == "rests" and is_working(estate, task_id))


def unmerge(estate: EstateView, dataflow_id: str, *, paused: bool = False) -> Unmerge:
    """Decide what stops when a submitted dataflow is removed, or what rests when it is paused.

    A running task stays exactly when it is in the ancestor graph of a sink of a dataflow that remains. Every task of a
    valid dataflow is in the ancestor graph of one of its sinks, so that is: when another submitted dataflow uses it.
    Likewise it works on exactly when another one uses it that is not paused. Which streams and running dataflows that
    leaves follows from the tasks.

    References
    ----------
    .. [1] Chaturvedi, Tyagi and Simmhan, "Collaborative Reuse of Streaming Dataflows in IoT Applications", 2017, 4.2.
    """
    submitted = estate.submitted[dataflow_id]
    parents = {task_id: estate.tasks[task_id].parents for task_id in sorted(set(submitted.running.values()))}
    activities: dict[str, Activity] = {}
    for task_id in TopologicalSorter(parents).static_order():
        users = estate.users_of(task_id)
        others = users.count - 1  # the one is the dataflow itself
        working = others - (users.paused - submitted.paused)
        activities[task_id] = "works" if working else "rests" if others or paused else "leaves"
    return Unmerge(activities)
