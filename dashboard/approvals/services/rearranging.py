"""Proposals for what runs already: pause a dataflow, resume it, defragment it; and those that Weir makes by itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from dashboard.approvals.lifecycle import CANCELLED, OPEN, REJECTED, STALE, UNPLANNABLE
from dashboard.approvals.models import Proposal
from dashboard.approvals.moves import move_proposal
from dashboard.approvals.services.enacting import require_calm
from dashboard.approvals.services.submission import asked_again, open_proposal, require_at_rest
from dashboard.audit.trail import audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate import stored_estate
from dashboard.operations.generation import lock_generation
from dashboard.plans.computing import compute
from dashboard.plans.kinds import SITE_PLAN_KINDS
from dashboard.plans.models import PlanRecord
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role, viewer_of
from dashboard.teams.selectors import advised_teams
from scheduler.model.errors import WeirError
from scheduler.model.plan_kinds import DEFRAGMENT, PAUSE, RESUME, PlanKind

LOOKED_AT_ONCE = 50  # dataflows that one round of the controller looks at


def pause_dataflow(*, actor: User, dataflow_id: UUID | str) -> Proposal:
    """Propose that a running dataflow rests; an open proposal to do so is returned as it is."""
    return _propose(actor, dataflow_id, kind=PAUSE)


def resume_dataflow(*, actor: User, dataflow_id: UUID | str) -> Proposal:
    """Propose that a paused dataflow goes on; an open proposal to do so is returned as it is."""
    return _propose(actor, dataflow_id, kind=RESUME)


def defragment_dataflow(*, actor: User, dataflow_id: UUID | str) -> Proposal:
    """Propose a step of defragmentation; an open proposal to do so is returned as it is."""
    return _propose(actor, dataflow_id, kind=DEFRAGMENT)


def recommend_defragmentation(*, number: int = 0) -> Proposal | None:
    """Propose the next step that is worth it, for a team that wants it; None where there is none, or one is open.

    ``number`` is that of the round: each looks at other dataflows, where there are more than one round looks at.

    One step at a time in the whole estate: each makes a new generation, and the figures that the next one is weighed
    by. A team that has turned a proposal of Weir's down is left in peace for a day for that dataflow.
    """
    _withdraw_overtaken()
    made_by_weir = Proposal.objects.filter(author=None, plan__kind=DEFRAGMENT.name)
    if Proposal.objects.under_way().exists() or made_by_weir.filter(status__in=OPEN).exists():
        return None
    refused = made_by_weir.filter(
        status__in=[REJECTED, CANCELLED], reviews__verdict="reject", changed__gte=timezone.now() - timedelta(days=1))
    running = DataflowRecord.objects.filter(status=dataflows.RUNNING, team__in=advised_teams()).exclude(
        pk__in=refused.values("dataflow_id")).exclude(proposals__status__in=OPEN)
    for record in _next_of(list(running.order_by("pk").values_list("pk", flat=True)), number=number):
        if _is_worth_it(record):
            with audited(actor=None, verb="dataflow.recommend_defragmentation", team=record.team) as audit:
                lock_generation()
                proposal = open_proposal(audit, record, DEFRAGMENT.name)
                audit.subject, audit.details = record, {"proposal": str(proposal.pk)}
                return proposal
    return None


def _propose(actor: User, dataflow_id: UUID | str, *, kind: PlanKind) -> Proposal:
    viewer = viewer_of(actor)
    with audited(actor=actor, verb=f"dataflow.propose_{kind.name}") as audit:
        lock_generation()
        record = dataflow_for(viewer, dataflow_id)
        require_role(viewer, record.team, Role.ENGINEER)
        already = Proposal.objects.open().filter(dataflow=record, plan__kind=kind.name).first()
        if already is not None:
            return asked_again(audit, already, actor=actor)
        require_at_rest(record, SITE_PLAN_KINDS[kind.name].proposed_from, kind.name)
        if kind.moves_queries:
            require_calm(actor)
        proposal = open_proposal(audit, record, kind.name)
        audit.subject, audit.team, audit.details = record, record.team, {"proposal": str(proposal.pk)}
        return proposal


def _next_of(dataflow_ids: list[UUID], *, number: int) -> Iterator[DataflowRecord]:
    start = number * LOOKED_AT_ONCE % len(dataflow_ids) if dataflow_ids else 0
    for dataflow_id in (dataflow_ids[start:] + dataflow_ids[:start])[:LOOKED_AT_ONCE]:
        yield DataflowRecord.objects.select_related("team").get(pk=dataflow_id)


def _withdraw_overtaken() -> None:
    """Take back proposals of Weir's own that the estate has moved past: the next one is planned for it as it is."""
    overtaken = Proposal.objects.filter(author=None, plan__kind=DEFRAGMENT.name, status__in=[STALE, UNPLANNABLE])
    for proposal in overtaken.select_related("dataflow__team"):
        with audited(actor=None, verb="proposal.cancel", subject=proposal, team=proposal.dataflow.team):
            move_proposal(proposal, CANCELLED)


def _is_worth_it(record: DataflowRecord) -> bool:
    try:
        compute(PlanRecord(kind=DEFRAGMENT.name, dataflow=record, version=record.version), stored_estate())
    except WeirError:
        return False
    return True
