"""Siblings in memory, as a database finds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.model.fragment import RunningTask
from scheduler.reuse.siblings import MOST_SIBLINGS, kin_of


class SiblingIndex:
    """Running tasks by kin."""

    def __init__(self, tasks: Iterable[RunningTask] = ()) -> None:
        self._by_kin: dict[str, dict[str, RunningTask]] = {}
        for task in tasks:
            self.add(task)

    def add(self, task: RunningTask) -> None:
        """A task that has started."""
        self._by_kin.setdefault(kin_of(task), {})[task.id] = task

    def remove(self, task: RunningTask) -> None:
        """A task that has stopped."""
        alike = self._by_kin[kin_of(task)]
        del alike[task.id]
        if not alike:
            del self._by_kin[kin_of(task)]

    def siblings(self, kin: str) -> Sequence[RunningTask]:
        """The running tasks of this kin in the order of their ids, `MOST_SIBLINGS` at most."""
        alike = self._by_kin.get(kin, {})
        return [alike[task_id] for task_id in sorted(alike)[:MOST_SIBLINGS]]
