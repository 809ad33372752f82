"""Reviewing a proposal: approve this plan and no other, reject it, or take it back."""

from __future__ import annotations

from uuid import UUID

from dashboard.approvals import permissions
from dashboard.approvals.lifecycle import CANCELLED, PENDING, REJECTED, STALE
from dashboard.approvals.models import Proposal, Review
from dashboard.approvals.moves import move_proposal
from dashboard.approvals.services.enacting import execute
from dashboard.audit.trail import audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.moves import move_dataflow
from dashboard.core.errors import BadInput
from dashboard.operations.generation import lock_generation
from dashboard.teams.models import Team, User
from dashboard.teams.permissions import Viewer, viewer_of
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
        An approver of at least one asked team that has not approved yet, and neither the author nor who chose its
        schedule (see ``permissions.may_approve_for``).
    digest : str
        Digest of the plan that the actor looked at.

    Returns
    -------
    Proposal
        Pending where other teams are still to approve; executing; or stale where a profile that the plan was made from
        is another by now.

    Raises
    ------
    StalePlan, DigestMismatch, AlreadyReviewed, PermissionDenied, InvalidTransition
    """
    viewer = viewer_of(actor)
    with audited(actor=actor, verb="proposal.approve") as audit:
        generation = lock_generation()
        proposal = permissions.proposal_for(viewer, proposal_id, for_update=True)
        _require_reviewable(proposal, digest)
        teams = _teams_to_approve_for(viewer, proposal)
        Review.objects.bulk_create(
            Review(proposal=proposal, plan=proposal.plan, team=team, reviewer=actor, verdict="approve",
                   comment=_clean(comment))
            for team in teams
        )
        audit.subject, audit.team = proposal, proposal.dataflow.team
        audit.details = {"teams": [team.slug for team in teams], "digest": digest}
        if not missing_teams(proposal):
            execute(audit, proposal, generation=generation)
        return proposal


def reject_proposal(*, actor: User, proposal_id: UUID | str, comment: str) -> Proposal:
    """Reject a proposal, for a team that is asked and that the actor is an approver of; the author cancels instead."""
    viewer = viewer_of(actor)
    with audited(actor=actor, verb="proposal.reject") as audit:
        lock_generation()
        proposal = permissions.proposal_for(viewer, proposal_id, for_update=True)
        if proposal.status not in {PENDING, STALE}:
            raise InvalidTransition(
                f"A proposal that is {proposal.status} cannot be rejected.", remedy="Reload the page.",
                status=proposal.status)
        if not _clean(comment):
            raise BadInput(
                "A rejection needs a comment.", remedy="Say what would have to change.", parameter="comment")
        team = next((t for t in proposal.teams.all() if permissions.may_approve_for(viewer, proposal, t)), None)
        if team is None:
            raise _not_a_reviewer(viewer, proposal)
        Review.objects.update_or_create(
            plan=proposal.plan, team=team,
            defaults={
                "proposal": proposal, "reviewer": actor, "verdict": "reject", "comment": _clean(comment)})
        move_proposal(proposal, REJECTED)
        _put_at_rest(proposal, dataflows.REJECTED)
        audit.subject, audit.team = proposal, proposal.dataflow.team
        audit.details = {"team": team.slug, "comment": _clean(comment)}
        return proposal


def cancel_proposal(*, actor: User, proposal_id: UUID | str) -> Proposal:
    """Take a proposal back before it is executed: its author, who chose its schedule, or an admin of its team."""
    viewer = viewer_of(actor)
    with audited(actor=actor, verb="proposal.cancel") as audit:
        lock_generation()
        proposal = permissions.proposal_for(viewer, proposal_id, for_update=True)
        permissions.require_author_or_admin(viewer, proposal)
        move_proposal(proposal, CANCELLED)
        _put_at_rest(proposal, dataflows.WITHDRAWN)
        audit.subject, audit.team = proposal, proposal.dataflow.team
        return proposal


def missing_teams(proposal: Proposal) -> list[Team]:
    """The asked teams that have not approved the current plan."""
    approved = set(
        Review.objects.filter(plan_id=proposal.plan_id, verdict="approve").values_list("team_id", flat=True))
    return [team for team in proposal.teams.all() if team.pk not in approved]


def _require_reviewable(proposal: Proposal, digest: str) -> None:
    if proposal.status == STALE:
        raise StalePlan(
            "The estate or a profile has changed since this plan was computed.",
            remedy="Recompute it, then review anew.")
    if proposal.status != PENDING:
        raise InvalidTransition(
            f"A proposal that is {proposal.status} cannot be approved.", remedy="Reload the page.",
            status=proposal.status)
    if digest != proposal.plan.digest:
        raise DigestMismatch(
            "The plan was recomputed after you opened it.", remedy="Reload the page and review the new plan.",
            digest=proposal.plan.digest)


def _teams_to_approve_for(viewer: Viewer, proposal: Proposal) -> list[Team]:
    may = [team for team in proposal.teams.all() if permissions.may_approve_for(viewer, proposal, team)]
    if not may:
        raise _not_a_reviewer(viewer, proposal)
    missing = {team.pk for team in missing_teams(proposal)}
    teams = [team for team in may if team.pk in missing]
    if not teams:
        raise AlreadyReviewed("Your teams have approved already.", remedy="Wait for the other teams.")
    return teams


def _not_a_reviewer(viewer: Viewer, proposal: Proposal) -> PermissionDenied:
    names = ", ".join(team.name for team in proposal.teams.all())
    own = " other than you, whose choice it is," if proposal.is_of(viewer.user_id) else ""
    return PermissionDenied(
        "You cannot review this proposal.", remedy=f"It needs an approver{own} of: {names}.",
        teams=[team.slug for team in proposal.teams.all()])


def _put_at_rest(proposal: Proposal, status: str) -> None:
    if PLAN_KINDS[proposal.plan.kind].has_document:
        move_dataflow(proposal.dataflow, status)


def _clean(comment: str) -> str:
    return comment.replace("\0", "").strip()[:4000]
