"""Siblings of running tasks, looked up by an indexed column (`scheduler.reuse.siblings.Siblings`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from dashboard.operations.estate_store.estate_reader import task_of
from dashboard.operations.models import RunningTaskRow
from scheduler.model.fragment import RunningTask
from scheduler.reuse.siblings import MOST_SIBLINGS


class StoredSiblings:
    """The siblings that are in the database; each kin is read once, with all that are expected to be looked up next."""

    def __init__(self) -> None:
        self._siblings: dict[str, list[RunningTask]] = {}
        self._expected_kins: set[str] = set()

    def expect(self, kins: Iterable[str]) -> None:
        """Read these in the same statement as the first one that is looked up."""
        self._expected_kins.update(kin for kin in kins if kin not in self._siblings)

    def siblings(self, kin: str) -> Sequence[RunningTask]:
        """The running tasks of this kin in the order of their ids, `MOST_SIBLINGS` at most."""
        if kin not in self._siblings:
            wanted_kins = {kin, *self._expected_kins}
            self._expected_kins.clear()
            self._siblings.update({wanted_id: [] for wanted_id in wanted_kins})
            row_number = Window(RowNumber(), partition_by=F("kin"), order_by="fingerprint")
            rows = RunningTaskRow.objects.filter(kin__in=wanted_kins).annotate(place=row_number)
            for row in rows.filter(place__lte=MOST_SIBLINGS).order_by("pk"):
                self._siblings[row.kin].append(task_of(row))
        return self._siblings[kin]
