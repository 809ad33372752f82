"""Permissions to see, approve, cancel and roll back a proposal."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings

from dashboard.approvals.models import Proposal
from dashboard.catalog.permissions import is_uuid, visible_to
from dashboard.teams.models import Role, Team
from dashboard.teams.permissions import Viewer
from scheduler.model.errors import NotFound, PermissionDenied


def proposal_for(viewer: Viewer, proposal_id: UUID | str, *, for_update: bool = False) -> Proposal:
    """The proposal, or ``NotFound`` where it is absent or its dataflow is hidden from the viewer."""
    reason = None
    if is_uuid(proposal_id):
        proposals = Proposal.objects.select_related("plan", "rollback_plan", "dataflow__team", "author", "chosen_by")
        if for_update:
            proposals = proposals.select_for_update(of=("self",))
        reason = proposals.filter(visible_to(viewer, through="dataflow__"), pk=proposal_id).first()
    if reason is None:
        raise NotFound("There is no such proposal.", remedy="See the list of proposals for those that you may read.")
    return reason


def may_approve_for(viewer: Viewer, proposal: Proposal, team: Team, *, role: Role = Role.APPROVER) -> bool:
    """True if the viewer's approval counts for this team.

    Somebody with the role that the team demands, never the author, nor who chose the schedule that it has. Where the
    installation allows self-approval, they too, and an administrator of the installation for any team.
    """
    if settings.SELF_APPROVAL:
        return viewer.has_role(team.pk, role)
    return not proposal.is_of(viewer.user_id) and viewer.roles.get(team.pk, 0) >= role


def may_cancel(viewer: Viewer, proposal: Proposal) -> bool:
    """True if the viewer may take a proposal back: its author, who chose its schedule, or an admin of its team."""
    return proposal.is_of(viewer.user_id) or viewer.has_role(proposal.dataflow.team_id, Role.ADMIN)


def require_author_or_admin(viewer: Viewer, proposal: Proposal) -> None:
    """Raise unless the viewer may take a proposal back (`may_cancel`)."""
    if not may_cancel(viewer, proposal):
        raise PermissionDenied(
            "Only its author or an admin of its team may cancel a proposal.", remedy="Ask the author, or reject it.")


def require_operator(viewer: Viewer, proposal: Proposal) -> None:
    """Require the permission to roll back: an approver of the dataflow's team."""
    if not viewer.has_role(proposal.dataflow.team_id, Role.APPROVER):
        raise PermissionDenied(
            "Only an approver of its team may roll a proposal back.",
            remedy=f"Ask an approver of {proposal.dataflow.team.name}.", team=proposal.dataflow.team.slug)
