"""Losses of dataflows whose teams chose that their slow readers lose the oldest events.

Counts are measurements; that a dataflow begins to lose is in the audit trail.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import Sum

from dashboard.audit.trail import audited
from dashboard.operations.estate_store.reader_terms import head_of, working_users
from dashboard.operations.models import Loss
from scheduler.contracts.reports import LossReport, Reports
from scheduler.model.behind import LOSE_OLDEST


def record_losses(reports: Reports) -> int:
    """Note what nodes report as lost, for each dataflow that needs the reader; how many counts grew."""
    return sum(_record(loss) for node in reports.values() for loss in node.losses)


def lost_by(dataflow_id: UUID | str) -> dict[str, int]:
    """The number of blocks and events that a dataflow has lost since it began to, over all of its readers."""
    sums = Loss.objects.filter(dataflow=dataflow_id).aggregate(blocks=Sum("blocks"), events=Sum("events"))
    return {name: value or 0 for name, value in sums.items()}


def _record(loss: LossReport) -> int:
    rows = Loss.objects.filter(reader=loss.reader, channel=loss.channel)
    stored = list(rows)
    if stored and all(row.events >= loss.events for row in stored):
        return 0
    if stored:
        rows.filter(events__lt=loss.events).update(blocks=loss.blocks, events=loss.events)
        return 1
    head = head_of(loss.reader)
    # A team may have chosen otherwise by now.
    users = (working_users(head, choice=LOSE_OLDEST) or working_users(head)) if head else []
    for record in users:
        with audited(actor=None, verb="dataflow.lose_events", subject=record, team=record.team) as audit:
            Loss.objects.create(
                dataflow=record, reader=loss.reader, channel=loss.channel, blocks=loss.blocks, events=loss.events)
            audit.details = {"reader": loss.reader, "events": loss.events}
    return 1
