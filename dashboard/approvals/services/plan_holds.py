"""Holding an approved plan until no team's freeze or windows stand in the way of enacting it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import structlog
from django.db.models import QuerySet

from dashboard.approvals.demands import closure_of, demands_of, missing_teams, moment_of
from dashboard.approvals.lifecycle import PENDING
from dashboard.approvals.models import Ask, Proposal
from dashboard.approvals.services.enacting import execute
from dashboard.approvals.services.waiting_plans import bring_up_to_date
from dashboard.audit.trail import Audit, audited
from dashboard.operations.estate_store.generation import lock_generation
from scheduler.approving import DemandStatus
from scheduler.model.errors import InvalidTransition

log = structlog.get_logger(__name__)


def enact_if_open(
    audit: Audit, proposal: Proposal, demands: Mapping[Ask, DemandStatus], *, generation: int, at: datetime
) -> None:
    """Execute a plan that all have approved, or hold it until no team's freeze or windows stand in the way.

    Roles are those of now: where an approval counts no more, the plan waits for another, and the trail says so.

    Parameters
    ----------
    audit : Audit
        The audit row of the caller's command, which holds the estate's lock.
    """
    if missing := missing_teams(demands):
        proposal.held = None
        proposal.save(update_fields=["held", "changed"])
        audit.details["why"] = (
            "approvals have expired, their authors may no longer approve, or further teams are asked: "
            f"{', '.join(team.slug for team in missing)}")
        return
    closed = closure_of((ask.team for ask in demands), at=at)
    if closed is None:
        proposal.held = None
        execute(audit, proposal, generation=generation)
        return
    team, closure = closed
    until = moment_of(closure.until_ms)
    proposal.held = {"team": team.name, "reason": closure.reason, "until": until and until.isoformat()}
    proposal.save(update_fields=["held", "changed"])
    audit.details["held"] = proposal.held


def is_any_held() -> bool:
    """True if a plan was approved and held."""
    return _held_proposals().exists()


def enact_held(*, at: datetime) -> list[UUID]:
    """Execute approved plans that were held and are no longer hindered; the ids of their proposals.

    A plan waits for new approvals if some have expired meanwhile, if their authors may no longer approve, or if other
    teams share it by now.
    """
    enacted = []
    for proposal_id in _held_proposals().values_list("pk", flat=True):
        try:
            if _enact_one_held(proposal_id, at=at):
                enacted.append(proposal_id)
        except InvalidTransition as busy:  # another plan is under way: it is tried again
            log.info("held_plan_waits", proposal=str(proposal_id), why=busy.message)
        except Exception:  # a defect that one plan shows must not hold those of others
            log.exception("held_plan_not_enacted", proposal=str(proposal_id))
    return enacted


def _held_proposals() -> QuerySet[Proposal]:
    return Proposal.objects.filter(status=PENDING, held__isnull=False)


def _enact_one_held(proposal_id: UUID, *, at: datetime) -> bool:
    with audited(actor=None, verb="proposal.enact_held") as audit:
        generation = lock_generation()
        proposal = Proposal.objects.select_for_update(of=("self",)).select_related("plan", "dataflow__team").get(
            pk=proposal_id)
        audit.subject, audit.team = proposal, proposal.dataflow.team
        if proposal.status != PENDING or proposal.held is None:
            audit.nothing_changed()
            return False
        before = proposal.held
        if bring_up_to_date(proposal, generation=generation) is not None:
            audit.nothing_changed()  # but that it stands no more, which has a row of its own
            return False
        demands = demands_of(proposal, at=at)  # roles are looked at when a plan is enacted
        enact_if_open(audit, proposal, demands, generation=generation, at=at)
        if proposal.held == before:
            audit.nothing_changed()
        return proposal.status != PENDING
