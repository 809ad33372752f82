"""Proposals for what runs already: pause a dataflow, resume it, defragment it, move queries of it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from dashboard.approvals.models import Proposal
from dashboard.approvals.services.enacting import require_calm
from dashboard.approvals.services.submission import asked_again, open_proposal, require_at_rest
from dashboard.audit.trail import audited
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.generation import lock_generation
from dashboard.plans.kinds import SITE_PLAN_KINDS
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role, viewer_of
from scheduler.model.plan_kinds import DEFRAGMENT, MOVE, PAUSE, RESUME, PlanKind


def pause_dataflow(*, actor: User, dataflow_id: UUID | str) -> Proposal:
    """Propose that a running dataflow rests; an open proposal to do so is returned as it is."""
    return _propose(actor, dataflow_id, kind=PAUSE)


def resume_dataflow(*, actor: User, dataflow_id: UUID | str) -> Proposal:
    """Propose that a paused dataflow goes on; an open proposal to do so is returned as it is."""
    return _propose(actor, dataflow_id, kind=RESUME)


def defragment_dataflow(*, actor: User, dataflow_id: UUID | str) -> Proposal:
    """Propose a step of defragmentation; an open proposal to do so is returned as it is."""
    return _propose(actor, dataflow_id, kind=DEFRAGMENT)


def move_query(
    *, actor: User, dataflow_id: UUID | str, query: str, slot: str, along: Sequence[str] = ()
) -> Proposal:
    """Propose that one of a dataflow's queries, or several, go on in another slot; an open proposal of just that is
    returned as it is.

    Parameters
    ----------
    actor : User
        Who asks.
    dataflow_id : UUID or str
        A dataflow that runs in each of the queries.
    query, slot : str
        The query's id, and the slot's name.
    along : sequence of str, optional
        Queries that go there with it.
    """
    others = {"along": list(along)} if along else {}
    return _propose(actor, dataflow_id, kind=MOVE, query=query, slot=slot, **others)


def _propose(actor: User, dataflow_id: UUID | str, *, kind: PlanKind, **options: str | list[str]) -> Proposal:
    viewer = viewer_of(actor)
    with audited(actor=actor, verb=f"dataflow.propose_{kind.name}") as audit:
        lock_generation()
        record = dataflow_for(viewer, dataflow_id)
        require_role(viewer, record.team, Role.ENGINEER)
        same = {"plan__options": options} if options else {}
        already = Proposal.objects.open().filter(dataflow=record, plan__kind=kind.name, **same).first()
        if already is not None:
            return asked_again(audit, already, actor=actor)
        require_at_rest(record, SITE_PLAN_KINDS[kind.name].proposed_from, kind.name)
        if kind.moves_queries:
            require_calm(actor)
        proposal = open_proposal(audit, record, kind.name, options=options)
        audit.subject, audit.team = record, record.team
        audit.details = {"proposal": str(proposal.pk), **options}
        return proposal
