"""What Weir does by itself so that no team slows another: it pauses what its team chose to have paused, or what can
only fail again, and cuts slow tasks out of queries that others need.

None waits for an approval. A pause is what the dataflow's team chose beforehand, or of a dataflow that gives nothing as
it is; a cut changes no output, restarts nothing of anybody's but for some seconds, and can be taken back. Each is a
proposal without an author, with its reason.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from dashboard import jobs
from dashboard.approvals.lifecycle import STALE, UNPLANNABLE
from dashboard.approvals.models import Proposal
from dashboard.approvals.services.submission import open_proposal, plan_anew
from dashboard.audit.trail import audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.models import DataflowRecord
from dashboard.operations import losses
from dashboard.operations.estate import current_estate
from dashboard.operations.generation import lock_generation
from dashboard.operations.given_up import given_up_for_others
from dashboard.operations.models import CutTask
from dashboard.operations.reader_terms import head_of, working_users
from dashboard.operations.slow_queries import SlowTask, cut_tasks, note_why_not, slow_tasks
from scheduler.contracts.reports import Reports
from scheduler.model import behind
from scheduler.model.plan_kinds import ISOLATE, PAUSE, PlanKind
from scheduler.reuse.isolation import cut_for_others

WHY_PAUSED = (
    "It read a stream more slowly than events came, and others need that stream: its team chose that it is paused "
    "then. Resume it when it can keep up; what came meanwhile is not made up for.")
WHY_FAILED_PAUSED = (
    "A task of it failed in the same way too often to be tried again, and others wait for what it reads or for tasks "
    "of the same query. Resume it when the cause is mended; what came meanwhile is not made up for.")


@dataclass(frozen=True, slots=True)
class _Due:
    """A slow running task of a dataflow that is to be cut out of its query, which then begins with ``head``."""

    record: DataflowRecord
    slow: str
    head: str
    why: str


def guard(*, at: datetime) -> list[Proposal]:
    """Look for readers and tasks that slow others, and propose what is due; which proposals were made."""
    reading = jobs.read_live([], {})
    if not reading.available:
        return []
    losses.record_losses(reading.reports)
    proposals = [_propose(record, PAUSE, WHY_PAUSED) for record in _to_pause(reading.reports)]
    proposals += [
        _propose(record, PAUSE, WHY_FAILED_PAUSED, failed=failed) for record, failed in _to_rest(reading.reports)]
    due = _to_cut(slow_tasks(at=at)) if settings.ISOLATES else None
    if due is not None:
        proposals.append(_propose(due.record, ISOLATE, due.why, slow=due.slow, head=due.head))
    return [proposal for proposal in proposals if proposal is not None]


def _to_pause(reports: Reports) -> list[DataflowRecord]:
    """The running dataflows that need a reader which is behind, where they all chose to be paused then."""
    readers = [
        reader for node in reports.values() for reader, spill in node.spills.items()
        if spill.when_behind == behind.PAUSE]
    records = {
        record.pk: record for reader in sorted(readers) if (head := head_of(reader))
        for record in working_users(head, choice=behind.PAUSE)}
    return [record for record in records.values() if record.status == dataflows.RUNNING]


def _to_rest(reports: Reports) -> list[tuple[DataflowRecord, str]]:
    """The dataflows whose failed tasks keep others waiting, and these tasks.

    A query whose failed task rests already is tried again.
    """
    given_up = given_up_for_others(reports)
    if again := [query.query for query in given_up if not query.failed]:
        with suppress(jobs.BrokerAway):  # it is looked at again soon
            jobs.try_again(again)
    due = {
        record.pk: (record, query.failed) for query in given_up for record in query.users
        if record.status == dataflows.RUNNING}
    return list(due.values())


def _to_cut(slow_ones: list[SlowTask]) -> _Due | None:
    """The first of these that can be cut out of its query; one at a time in the whole estate, as queries hand over."""
    estate, apart = current_estate(), cut_tasks()
    for slow in slow_ones:
        cut = cut_for_others(estate, slow.fragment, slow=slow.position, task_types=jobs.task_types())
        note_why_not(slow, "" if cut is None else cut.why_not)
        if cut is None:
            continue
        head = slow.fragment.tasks[cut.position]
        if cut.why_not or head in apart or Proposal.objects.under_way().exists():
            continue
        users = DataflowRecord.objects.select_related("team").filter(
            pk__in=estate.users[slow.task], status=dataflows.RUNNING).order_by("pk")
        record = users.first()
        if record is not None:
            return _Due(record, slow.task, head, _why_cut(slow, estate.tasks[slow.task].type))
    return None


def _why_cut(slow: SlowTask, task_type: str) -> str:
    return (
        f"A task of type {task_type} adds {slow.added_ms / 1000:.1f} s to an event's {slow.latency_ms / 1000:.1f} s in "
        f"{slow.fragment.id}, whose other tasks dataflows need that do not need this one. It gets a query of its own, "
        "so that they go on at their rate. No output changes.")


def _propose(
    record: DataflowRecord, kind: PlanKind, why: str, *, slow: str = "", head: str = "", failed: str = ""
) -> Proposal | None:
    """A proposal of Weir's own that is carried out as soon as it is planned; None where one is under way already.

    Parameters
    ----------
    record : DataflowRecord
        What is paused or cut.
    kind : PlanKind
        Pause or isolate.
    why : str
        In a sentence, for its users.
    slow, head : str, optional
        The slow running task, and the one with which its own query begins.
    failed : str, optional
        The running task that failed.
    """
    verb = f"dataflow.{kind.name}_{'failing' if failed else 'slow'}"
    with audited(actor=None, verb=verb, team=record.team) as audit:
        lock_generation()
        audit.subject = record
        mine = Proposal.objects.filter(dataflow=record)
        already = mine.open().filter(plan__kind=kind.name).select_related("plan", "dataflow__team").first()
        if already is not None and already.author_id is None and already.status in {STALE, UNPLANNABLE}:
            plan_anew(actor=None, proposal=already, options=already.plan.options)
            audit.nothing_changed()
            return None
        if already is not None or mine.under_way().exists():
            audit.nothing_changed()
            return None
        given = {"slow": slow, "failed": failed}
        options = {"why": why} | {name: task for name, task in given.items() if task}
        proposal = open_proposal(audit, record, kind.name, options=options)
        if head:
            CutTask.objects.get_or_create(task_id=head)
        audit.details = {"proposal": str(proposal.pk), "why": why}
        return proposal
