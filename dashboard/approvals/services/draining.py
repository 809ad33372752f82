"""Moving queries off nodes that are drained, one after the other: each move is a plan of Weir's own, with its reason.

It waits for no approval, for it changes no output, and who drains a node is about to stop it: what stands still for
some seconds now would stand longer then. What cannot go stays, and is told where the drain is.
"""

from __future__ import annotations

from collections.abc import Iterable

from dashboard.approvals.lifecycle import STALE, UNPLANNABLE
from dashboard.approvals.models import Proposal
from dashboard.approvals.services.submission import open_proposal, plan_anew
from dashboard.audit.trail import audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.draining import queries_there
from dashboard.operations.estate import current_estate
from dashboard.operations.generation import lock_generation
from dashboard.operations.models import NodeRow
from dashboard.operations.offered_slots import offered_slots
from scheduler.model.estate import Estate
from scheduler.model.plan_kinds import MOVE


def empty_nodes() -> Proposal | None:
    """Propose the next move off a node that is drained, unless something is being enacted; the proposal."""
    nodes = list(NodeRow.objects.exclude(draining_since=None).order_by("draining_since").values_list("name", flat=True))
    if not nodes or Proposal.objects.under_way().exists():
        return None
    estate = current_estate()
    for node in nodes:
        for fragment, bundle, why_not in queries_there(estate, node):
            if why_not:
                continue
            record, slot = _asker(estate, fragment.active_tasks), _target(node)
            proposal = record and slot and _propose(record, query=bundle.id, slot=slot, node=node)
            if proposal:
                return proposal
    return None


def _asker(estate: Estate, tasks: Iterable[str]) -> DataflowRecord | None:
    """A running dataflow that works in the query with these tasks: not each of them has one."""
    return DataflowRecord.objects.select_related("team").filter(
        pk__in={user for task in tasks for user in estate.users[task]}, status=dataflows.RUNNING).order_by("pk").first()


def _target(node: str) -> str:
    """The slot of another node that has least to do."""
    slots = offered_slots().exclude(node=node).order_by("task_nanocores", "queries", "node_id", "index")
    return slots.values_list("name", flat=True).first() or ""


def _propose(record: DataflowRecord, *, query: str, slot: str, node: str) -> Proposal | None:
    """A move that is carried out as soon as it is planned; None where a proposal to move is open already."""
    options = {"query": query, "slot": slot, "why": f"{node} is drained. No output changes."}
    with audited(actor=None, verb="dataflow.move_off", team=record.team) as audit:
        lock_generation()
        audit.subject = record
        already = Proposal.objects.open().filter(dataflow=record, plan__kind=MOVE.name).select_related(
            "plan", "dataflow__team").first()
        if already is None:
            proposal = open_proposal(audit, record, MOVE.name, options=options)
            audit.details = {"proposal": str(proposal.pk), "query": query, "slot": slot}
            return proposal
        audit.nothing_changed()
        if already.author_id is None and already.round_id is None and already.status in {STALE, UNPLANNABLE}:
            plan_anew(actor=None, proposal=already, options=options)
            return already
        return None
