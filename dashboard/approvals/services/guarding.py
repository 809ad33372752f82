"""Pauses by Weir, so that no team slows another: of slow readers whose teams chose that, and of tasks that only fail.

No pause waits for an approval: either the dataflow's team chose it beforehand, or the dataflow produces nothing anyway.
Each is a proposal without an author, with its reason. Slow tasks within a query are noted here every few seconds, and
left to a controller (`scheduler.controllers.task_isolation`).
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services.rearrangement_proposals import open_pause
from dashboard.audit.trail import audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.diagnosis import slow_queries
from dashboard.operations.diagnosis.given_up import given_up_for_others
from dashboard.operations.estate_store import losses
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.operations.estate_store.reader_terms import head_of, working_users
from scheduler.contracts.reports import Reports
from scheduler.model import behind

WHY_PAUSED = (
    "It read a stream that others need more slowly than events arrived, and its team chose to pause it then. Resume "
    "it when it can keep up. Events that arrived meanwhile are not processed.")
WHY_FAILED_PAUSED = (
    "One of its tasks failed in the same way too often to be retried, and other dataflows wait for the same stream or "
    "query. Resume it when the cause is mended. Events that arrived meanwhile are not processed.")


def guard(*, at: datetime) -> list[Proposal]:
    """Look for readers and tasks that slow others, and pause those that are due; the proposals that were made."""
    reading = jobs.read_live([], {})
    if not reading.available:
        return []
    losses.record_losses(reading.reports)
    slow_queries.watch(reading.reports, at=at)
    proposals = [_pause(record, WHY_PAUSED) for record in _to_pause(reading.reports)]
    proposals += [_pause(record, WHY_FAILED_PAUSED, failed=failed) for record, failed in _to_rest(reading.reports)]
    return [proposal for proposal in proposals if proposal is not None]


def _to_pause(reports: Reports) -> list[DataflowRecord]:
    """The running dataflows that need a slow reader, if all of them chose to be paused then."""
    readers = [
        reader for node in reports.values() for reader, spill in node.spills.items()
        if spill.when_behind == behind.PAUSE]
    records = {
        record.pk: record for reader in sorted(readers) if (head := head_of(reader))
        for record in working_users(head, choice=behind.PAUSE)}
    return [record for record in records.values() if record.status == dataflows.RUNNING]


def _to_rest(reports: Reports) -> list[tuple[DataflowRecord, str]]:
    """The dataflows whose failed tasks keep others waiting, each with its failed task.

    A query whose failed task rests by now is tried again.
    """
    given_up = given_up_for_others(reports)
    if again := [query.query for query in given_up if not query.failed]:
        with suppress(jobs.BrokerAway):  # it is looked at again soon
            jobs.try_again(again)
    due = {
        record.pk: (record, query.failed) for query in given_up for record in query.users
        if record.status == dataflows.RUNNING}
    return list(due.values())


def _pause(record: DataflowRecord, reason: str, *, failed: str = "") -> Proposal | None:
    """Propose a pause in Weir's name, which is enacted as soon as it is planned; None where one is under way already.

    ``reason`` is a sentence for the dataflow's users, ``failed`` the running task that failed.
    """
    with audited(actor=None, verb=f"dataflow.pause_{'failing' if failed else 'slow'}", team=record.team) as audit:
        lock_generation()
        audit.subject = record
        proposal = open_pause(audit, record, why=reason, failed=failed)
        if proposal is None:
            audit.nothing_changed()
        else:
            audit.details = {"proposal": str(proposal.pk), "why": reason}
        return proposal
