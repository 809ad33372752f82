"""Siblings of running tasks, looked up by an indexed column (`scheduler.reuse.siblings.Siblings`)."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.operations.models import RunningTaskRow
from dashboard.operations.stored import task_of
from scheduler.model.estate import RunningTask
from scheduler.reuse.siblings import MOST_SIBLINGS


class StoredSiblings:
    """The siblings that are in the database; each kin is read once."""

    def __init__(self) -> None:
        self._known: dict[str, Sequence[RunningTask]] = {}

    def siblings(self, kin: str) -> Sequence[RunningTask]:
        """The running tasks of this kin in the order of their ids, `MOST_SIBLINGS` at most."""
        if kin not in self._known:
            rows = RunningTaskRow.objects.filter(kin=kin).order_by("pk")[:MOST_SIBLINGS]
            self._known[kin] = [task_of(row) for row in rows]
        return self._known[kin]
