"""Draining a node as tests do it: one look of Weir after the other, until nothing more can go."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from dashboard.approvals.lifecycle import DONE, EXECUTING
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import empty_nodes, prepare_proposal
from dashboard.operations.estate_store.estate_loader import load_estate
from scheduler.model.fragment import node_of
from tests.dashboard.building import World


def on(node: str) -> set[str]:
    return {name for name, fragment in load_estate().fragments.items() if node_of(fragment.slot) == node}


def turn(**later: float) -> Proposal | None:
    """Weir sees to nodes that are drained, so much later."""
    return empty_nodes(at=timezone.now() + timedelta(**later))


def done(proposal: Proposal) -> Proposal:
    """As if the nodes had reported it to be in force."""
    proposal.refresh_from_db()
    assert proposal.status == EXECUTING, proposal.plan.error
    Proposal.objects.filter(pk=proposal.pk).update(status=DONE)
    return proposal


def drained(world: World) -> list[Proposal]:
    """Every move that Weir makes until there is none left to make."""
    proposals = []
    while (proposal := turn()) is not None:
        prepare_proposal(proposal_id=proposal.pk)
        proposals.append(done(proposal))
        assert len(proposals) < 20
    return proposals
