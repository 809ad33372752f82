"""Reviewing a proposal: approve this plan and no other, reject it, or take it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from dashboard.approvals import permissions
from dashboard.approvals.demands import ROLES, asks_of, demands_of, missing_teams
from dashboard.approvals.lifecycle import CANCELLED, PENDING, REJECTED, STALE
from dashboard.approvals.models import Ask, Proposal, Review
from dashboard.approvals.proposal_states import move_proposal
from dashboard.approvals.services.plan_holds import enact_if_open
from dashboard.approvals.services.waiting_plans import bring_up_to_date
from dashboard.audit.trail import Audit, audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.dataflow_states import move_dataflow
from dashboard.core.http_errors import BadInput
from dashboard.core.state_words import words
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import Viewer
from scheduler.approving import ApproverRole, DemandStatus
from scheduler.model.errors import InvalidTransition, PermissionDenied, StalePlan, WeirError
from scheduler.model.plan_kinds import PLAN_KINDS


class DigestMismatch(WeirError):
    """The reviewer looked at another plan than the one that stands now."""

    code = "digest_mismatch"


class AlreadyReviewed(WeirError):
    """Every team that the reviewer speaks for has its approval."""

    code = "already_reviewed"


def approve_proposal(*, actor: User, proposal_id: UUID | str, digest: str, comment: str = "") -> Proposal:
    """Approve a proposal's plan for every asked team that the actor speaks for; the last approval executes it.

    Parameters
    ----------
    actor : User
        One whose approval an asked team still demands, and neither the author nor who chose its schedule (see
        ``permissions.may_approve_for``).

    Returns
    -------
    Proposal
        Pending where others are still to approve, or where a team's freeze or windows hold it; executing; or stale
        where a profile that the plan was made from is another by now.

    Raises
    ------
    DigestMismatch
        The plan is another one than the actor looked at; also where it was made anew only now, since the estate has
        changed.
    StalePlan, NoSlots
        The estate has changed, and the plan stands no more.
    AlreadyReviewed, PermissionDenied, InvalidTransition
    """
    with audited(actor=actor, verb="proposal.approve") as audit:
        generation = lock_generation()
        viewer, now = audit.viewer, timezone.now()
        proposal = permissions.proposal_for(viewer, proposal_id, for_update=True)
        _require_reviewable(proposal, digest)
        demands = demands_of(proposal, at=now)
        teams = _teams_to_approve_for(viewer, proposal, demands)  # or it is not the actor's to bring it up to date
        stood_at = proposal.plan.generation
        refusal = bring_up_to_date(proposal, generation=generation) or _made_anew(proposal, digest)
        if refusal is None:
            if proposal.plan.generation != stood_at:  # others may be asked by now
                demands = demands_of(proposal, at=now)
                teams = _teams_to_approve_for(viewer, proposal, demands)
            _approve(
                audit, proposal, viewer, teams, demands, digest=digest, comment=comment, generation=generation, at=now)
        else:
            audit.nothing_changed()  # by the actor
    if refusal is not None:  # once it is kept what became of the plan
        raise refusal
    return proposal


def _approve(
    audit: Audit, proposal: Proposal, viewer: Viewer, teams: Iterable[Team], asks: Iterable[Ask], *, digest: str,
    comment: str, generation: int, at: datetime,
) -> None:
    Review.objects.bulk_create(
        (Review(proposal=proposal, plan=proposal.plan, team=team, reviewer=audit.actor, verdict="approve",
                role=_role_in(viewer, team), comment=_clean(comment), at=at) for team in teams),
        update_conflicts=True, unique_fields=["plan", "team", "reviewer"],
        update_fields=["proposal", "verdict", "role", "comment", "at"])  # who rejected it before approves it now
    audit.subject, audit.team = proposal, proposal.dataflow.team
    audit.details = {"teams": [team.slug for team in teams], "digest": digest}
    demands = demands_of(proposal, at=at, asks=asks)
    if not missing_teams(demands):
        enact_if_open(audit, proposal, demands, generation=generation, at=at)


def _made_anew(proposal: Proposal, digest: str) -> DigestMismatch | None:
    if proposal.plan.digest == digest:
        return None
    return DigestMismatch(
        "The estate has changed since this plan was computed, so it was recomputed.",
        remedy="Reload the page and review the plan as it is now.", digest=proposal.plan.digest)


def reject_proposal(*, actor: User, proposal_id: UUID | str, comment: str) -> Proposal:
    """Reject a proposal, for a team that is asked and that the actor is an approver of; the author cancels instead."""
    with audited(actor=actor, verb="proposal.reject") as audit:
        lock_generation()
        viewer = audit.viewer
        proposal = permissions.proposal_for(viewer, proposal_id, for_update=True)
        if proposal.status not in {PENDING, STALE}:
            raise InvalidTransition(
                f"This proposal is {words(proposal.status)}: it cannot be rejected.", remedy="Reload the page.",
                status=proposal.status)
        if not _clean(comment):
            raise BadInput(
                "A rejection needs a comment.", remedy="Say what would have to change.", parameter="comment")
        team = next((team for team, role in _approvers(asks_of(proposal)) if permissions.may_approve_for(
            viewer, proposal, team, role=role)), None)
        if team is None:
            raise _not_a_reviewer(viewer, proposal)
        Review.objects.update_or_create(
            plan=proposal.plan, team=team, reviewer=actor,
            defaults={
                "proposal": proposal, "verdict": "reject", "role": _role_in(viewer, team), "comment": _clean(comment)})
        move_proposal(proposal, REJECTED)
        _put_at_rest(proposal, dataflows.REJECTED)
        audit.subject, audit.team = proposal, proposal.dataflow.team
        audit.details = {"team": team.slug, "comment": _clean(comment)}
        return proposal


def cancel_proposal(*, actor: User, proposal_id: UUID | str) -> Proposal:
    """Take a proposal back before it is executed: its author, who chose its schedule, or an admin of its team."""
    with audited(actor=actor, verb="proposal.cancel") as audit:
        lock_generation()
        viewer = audit.viewer
        proposal = permissions.proposal_for(viewer, proposal_id, for_update=True)
        permissions.require_author_or_admin(viewer, proposal)
        move_proposal(proposal, CANCELLED)
        _put_at_rest(proposal, dataflows.WITHDRAWN)
        audit.subject, audit.team = proposal, proposal.dataflow.team
        return proposal


def _require_reviewable(proposal: Proposal, digest: str) -> None:
    if proposal.status == STALE:
        error = proposal.plan.error or {"message": "A profile has changed since this plan was computed."}
        raise StalePlan(
            error["message"],
            remedy="Recompute it, then review anew.")
    if proposal.status != PENDING:
        raise InvalidTransition(
            f"This proposal is {words(proposal.status)}: it cannot be approved.", remedy="Reload the page.",
            status=proposal.status)
    if digest != proposal.plan.digest:
        raise DigestMismatch(
            "The plan was recomputed after you opened it.", remedy="Reload the page and review the new plan.",
            digest=proposal.plan.digest)


def _teams_to_approve_for(
    viewer: Viewer, proposal: Proposal, demands: Mapping[Ask, DemandStatus]
) -> list[Team]:
    may = [
        team for team, role in _approvers(demands) if permissions.may_approve_for(viewer, proposal, team, role=role)]
    if not may:
        raise _not_a_reviewer(viewer, proposal)
    met = {ask.team_id: status for ask, status in demands.items()}
    teams = [
        team for team in may if met[team.pk].missing and viewer.user_id not in met[team.pk].counted]
    if not teams:
        waits = any(met[team.pk].missing for team in may)
        raise AlreadyReviewed(
            "You have approved already." if waits else "Your teams have approved already.",
            remedy="Wait for the others who are asked.")
    return teams


def _approvers(asks: Iterable[Ask]) -> list[tuple[Team, Role]]:
    """The teams that have to approve, each with the role that it demands."""
    return [(ask.team, ROLES[ask.role]) for ask in asks if ask.approvals]


def _role_in(viewer: Viewer, team: Team) -> ApproverRole:
    return "admin" if viewer.has_role(team.pk, Role.ADMIN) else "approver"


def _not_a_reviewer(viewer: Viewer, proposal: Proposal) -> PermissionDenied:
    names = ", ".join(team.name for team in proposal.teams.all())
    besides = " other than you, whose choice it is," if proposal.is_of(viewer.user_id) else ""
    return PermissionDenied(
        "You cannot review this proposal.", remedy=f"It needs an approver{besides} of: {names}.",
        teams=[team.slug for team in proposal.teams.all()])


def _put_at_rest(proposal: Proposal, status: str) -> None:
    if PLAN_KINDS[proposal.plan.kind].has_document:
        move_dataflow(proposal.dataflow, status)


def _clean(comment: str) -> str:
    return comment.replace("\0", "").strip()[:4000]
