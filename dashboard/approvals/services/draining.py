"""Moving queries off nodes that are drained, one after the other: each move is a plan of Weir's own, with its reason.
Those of lost nodes go on from copies, all by one plan.

It waits for no approval, for it changes no output, and who drains a node is about to stop it: what stands still for
some seconds now would stand longer then. What cannot go stays, and what does not go now is tried again later; both are
told where the drain is (`dashboard.approvals.drains`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from dashboard import node_calls
from dashboard.approvals.drains import (
    ATTEMPT,
    BUNDLES,
    FROM_COPY,
    OTHERS,
    Outgoing,
    cause_of_failure,
    is_of_a_drain,
    outgoing_of,
)
from dashboard.approvals.lifecycle import FAILED
from dashboard.approvals.models import Proposal
from dashboard.approvals.services.enacting import take_back
from dashboard.approvals.services.rearrangement_proposals import open_move
from dashboard.approvals.services.submission import plan_anew
from dashboard.audit.trail import audited
from dashboard.jobs import BrokerAway
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.operations.estate_store.offered_slots import silent_nodes
from dashboard.operations.live_view.drained_nodes import queries_of_node
from dashboard.operations.live_view.going_on import copy_holders
from dashboard.operations.models import NodeRow
from scheduler.model.errors import WeirError
from scheduler.model.fragment import node_of


def empty_nodes(*, at: datetime) -> Proposal | None:
    """Propose the next move off a node that is drained, unless something is being enacted; the proposal.

    A move of that kind that does not end is taken back: the query works on where it is, and other plans
    have waited for it for long enough.
    """
    if take_back_failed() is not None:
        return None
    nodes = list(NodeRow.objects.exclude(draining_since=None).order_by("draining_since").values_list("name", flat=True))
    lost = _lost_nodes(at)
    nodes = list(dict.fromkeys((*lost, *nodes)))
    if not nodes or Proposal.objects.under_way().exists():
        return None
    for node in nodes:
        for outgoing in outgoing_of(current_estate(), node, at=at):
            proposal = _propose(outgoing, node=node, lost=lost, at=at) if outgoing.record is not None else None
            if proposal is not None:
                return proposal
    return None


def _lost_nodes(at: datetime) -> tuple[str, ...]:
    """The nodes of which nothing is heard and whose queries have copies of their state elsewhere: they go on there.

    While the broker is away there are none.
    """
    silent = tuple(silent_nodes().order_by("name").values_list("name", flat=True))
    if not silent:
        return ()
    with suppress(BrokerAway):
        lost = tuple(node for node in silent if copy_holders(queries_of_node(current_estate(), node)))
        node_calls.let_go_on(lost, at_ms=int(at.timestamp() * 1000))
        return lost
    return ()


def take_back_failed() -> Proposal | None:
    """Take back a move off a drained node that does not end; which it was, None where there is none.

    Not while nothing is heard of the node that it goes to: the query may be at work there. Nor where it goes on from a
    copy: what it left is lost.
    """
    failed = Proposal.objects.relocating().filter(
        status=FAILED, author=None, round=None).select_related("plan").first()
    if failed is None or failed.plan.options.get(FROM_COPY):
        return None
    if silent_nodes().filter(name=node_of(failed.plan.options["slot"])).exists():
        return None
    with suppress(WeirError):  # it is looked at again soon
        return _take_back(failed.pk)
    return None


def _take_back(proposal_id: UUID) -> Proposal | None:
    with audited(actor=None, verb="proposal.roll_back") as audit:
        generation = lock_generation()
        proposal = Proposal.objects.select_for_update(of=("self",)).select_related("plan", "dataflow__team").get(
            pk=proposal_id)
        audit.subject, audit.team = proposal, proposal.dataflow.team
        if proposal.status != FAILED or not is_of_a_drain(proposal):
            audit.nothing_changed()
            return None
        reason = cause_of_failure(proposal)
        take_back(audit, proposal, generation=generation, why=reason)
        audit.details["why"] = reason
        return proposal


def _propose(outgoing: Outgoing, *, node: str, lost: Collection[str], at: datetime) -> Proposal | None:
    """Propose a move that is enacted as soon as it is planned; None if the query has changed by now."""
    with audited(actor=None, verb="dataflow.move_off", team=outgoing.record.team) as audit:
        lock_generation()
        audit.subject = outgoing.record
        query = outgoing.bundle.id
        leaving = [now for name in dict.fromkeys((node, *(lost if node in lost else ())))
                   for now in outgoing_of(current_estate(), name, at=at)]
        outgoing = next((
            now for now in leaving if now.bundle.id == query and now.record == outgoing.record), None)
        if outgoing is None:
            audit.nothing_changed()
            return None
        options = {"query": query, "slot": outgoing.slot, "why": f"{node} is drained. No output changes."}
        if silent_nodes().filter(name=node).exists():
            options[FROM_COPY] = True
            options[OTHERS] = {query.bundle.id: query.slot for query in _fellows(outgoing, leaving)}
            options[BUNDLES] = {
                query.bundle.id: query.fragment.id for query in _fellows(outgoing, leaving) if query.fragment.divided}
            options["why"] = f"{node} does not report. " + (
                "Its queries continue from copies of their state. No output changes." if options[OTHERS] else
                f"The query continues from the copy of its state on {node_of(outgoing.slot)}. No output changes.")
        if outgoing.attempt > 1:
            options[ATTEMPT] = outgoing.attempt
        if outgoing.again is None:
            proposal = open_move(audit, outgoing.record, options)
        else:
            proposal = outgoing.again
            plan_anew(actor=None, proposal=proposal, options=options)
        audit.details = {"proposal": str(proposal.pk), **options}
        return proposal


def _fellows(first: Outgoing, leaving: Iterable[Outgoing]) -> list[Outgoing]:
    """The queries that go on from copies by the same plan as one of them; where teams are apart, of its team alone."""
    team = first.fragment.team if current_estate().teams_apart else None
    return [
        query for query in leaving
        if query.record is not None and query is not first and team in (None, query.fragment.team)]
