"""Users of running tasks over time, kept in step with the states of dataflows. Bookkeeping, so nothing is audited."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from dashboard.bills.models import NeedRow
from dashboard.catalog.lifecycle import RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.models import Use

PAYS = frozenset({RUNNING})  # a dataflow in any other state needs nothing


def follow_dataflow(record: DataflowRecord) -> None:
    """Note a dataflow's needs in the transaction that moves it: from now on it needs its tasks, or no longer does."""
    note_needs(dataflow_id=record.pk, status=record.status, at=timezone.now())


def note_needs(*, dataflow_id: UUID | str, status: str, at: datetime) -> None:
    """Note the running tasks that a dataflow in this state needs from a moment on, and no others."""
    uses = Use.objects.filter(dataflow_id=dataflow_id, paused=False) if status in PAYS else Use.objects.none()
    _store(uses, NeedRow.objects.filter(dataflow_id=dataflow_id, until=None), at)


def note_needs_of(*, fingerprints: Collection[str], at: datetime) -> None:
    """The same for some running tasks and whoever uses them: puts right what no change of state has told."""
    uses = Use.objects.filter(running_task_id__in=fingerprints, dataflow__status__in=PAYS, paused=False)
    _store(uses, NeedRow.objects.filter(fingerprint__in=fingerprints, until=None), at)


def _store(uses: Iterable[Use], open_needs: Iterable[NeedRow], at: datetime) -> None:
    uses = uses.values_list("dataflow_id", "task_id", "running_task_id", "running_task__type")
    current_uses = {(dataflow, task, fingerprint): type_ for dataflow, task, fingerprint, type_ in uses}
    stored = {(need.dataflow_id, need.task_id, need.fingerprint): need.pk for need in open_needs}
    ended = [pk for key, pk in stored.items() if key not in current_uses]
    if ended:
        NeedRow.objects.filter(pk__in=ended).update(until=at)
    NeedRow.objects.bulk_create(
        NeedRow(dataflow_id=dataflow, task_id=task, fingerprint=fingerprint, type=type_, since=at)
        for (dataflow, task, fingerprint), type_ in current_uses.items() if (dataflow, task, fingerprint) not in stored
    )
