"""Following named savepoints: by what nodes report of their parts they become whole, or fail."""

from __future__ import annotations

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.operations.estate_store.generation import lock_generation, revise
from dashboard.operations.models import FragmentRow
from dashboard.savepoint_records.lifecycle import FAILED, LIFECYCLE, TAKING, WHOLE
from dashboard.savepoint_records.models import SavepointRow
from scheduler.contracts.reports import NodeReport, Reports, SavedPartReport

# A report that is older than this after a part may have been made before its file was there.
CERTAIN_MS = 60_000


def follow_savepoints(reports: Reports) -> int:
    """Hold every savepoint to what its node reports; how many are another now. Safe to call twice."""
    return sum(_follow(row.pk, reports) for row in SavepointRow.objects.all() if _outcome(row, reports.node(row.node)))


def _follow(savepoint_id: str, reports: Reports) -> bool:
    with audited(actor=None, verb="savepoint.follow") as audit:
        lock_generation()
        row = SavepointRow.objects.select_for_update(of=("self",)).select_related("team").filter(
            pk=savepoint_id).first()
        outcome = None if row is None else _outcome(row, reports.node(row.node))
        if row is None or outcome is None:  # it was deleted, or somebody else followed it meanwhile
            audit.nothing_changed()
            return False
        to, part, row.cause = outcome
        LIFECYCLE.check(row.state, to)
        row.state = to
        if part is not None:
            row.size_bytes, row.saved_at_ms, row.next_event = part.size_bytes, part.at_ms, part.next_event
        row.save()
        revise()  # its query is told no more to leave its part: another one would be of another moment
        jobs.republish()
        audit.subject, audit.team, audit.details = row, row.team, {"name": row.name, "state": to} | (
            {"cause": row.cause} if row.cause else {})
        return True


def _outcome(row: SavepointRow, report: NodeReport | None) -> tuple[str, SavedPartReport | None, str] | None:
    """The new state of a savepoint, the part that its node reports, and the cause of a failure; None where it stays as
    it is."""
    parts = None if report is None else report.savepoints
    part = (parts or {}).get(row.pk)
    if part is not None:
        return None if row.state == WHOLE else (WHOLE, part, "")
    if row.state == TAKING and not FragmentRow.objects.filter(pk=row.fragment).exists():
        return FAILED, None, (
            f"Query {row.fragment} ended before it left its states: its dataflow was moved, changed or removed "
            "meanwhile. Take it again.")
    if row.state == WHOLE and report is not None and parts is not None and (
            report.at_ms > (row.saved_at_ms or 0) + CERTAIN_MS):
        return FAILED, None, (
            f"Node {row.node} has lost the file of query {row.fragment}. Take another savepoint while the dataflow "
            "runs.")
    return None
