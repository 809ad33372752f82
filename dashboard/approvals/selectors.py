"""Reading proposals, as far as the viewer may know of their dataflows.

For pages, API and live connections:

- ``proposals(viewer, …)``: a query set for lists; ``dataflow__team``, ``plan``, ``author`` fetched
- ``awaiting(viewer)``: those that wait for this viewer's approval
- ``proposal(viewer, proposal_id)``: one record, or ``NotFound``
- ``review_of(viewer, proposal)``: teams asked, verdicts, and what the viewer may do now
- ``live_proposal(viewer, proposal_id)``: its live document
- the plan's difference for drawing: ``dashboard.approvals.difference``
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from dashboard.approvals import permissions
from dashboard.approvals.lifecycle import COMPUTING, DONE, EXECUTING, FAILED, OPEN, PENDING, STALE, UNPLANNABLE
from dashboard.approvals.models import Proposal, Review
from dashboard.catalog.permissions import visible_to
from dashboard.operations.models import EstateState
from dashboard.operations.view import view_for
from dashboard.plans.selectors import plan_of
from dashboard.plans.stale_profiles import profiles_since
from dashboard.teams.models import Role, Team
from dashboard.teams.permissions import Viewer
from scheduler.model.plan_kinds import PLAN_KINDS

_FETCHED = ("plan", "rollback_plan", "dataflow__team", "author", "chosen_by")


def proposals(
    viewer: Viewer, *, status: str = "", search: str = "", dataflow_id: UUID | str = ""
) -> QuerySet[Proposal]:
    """Proposals that the viewer may know of, newest first; ``status`` may be ``open`` for all not yet decided.

    Parameters
    ----------
    viewer : Viewer
        Who looks: nothing is given that they may not know of.
    status : str, optional
        A status, ``open``, or empty for all.
    search : str, optional
        Part of the names; empty for all.
    dataflow_id : UUID | str, optional
        Of one dataflow only.
    """
    records = Proposal.objects.filter(visible_to(viewer, through="dataflow__")).select_related(*_FETCHED)
    if status == "open":
        records = records.filter(status__in=OPEN)
    elif status:
        records = records.filter(status=status)
    for word in search.replace("\0", "").split()[:8]:
        records = records.filter(Q(dataflow__name__icontains=word) | Q(dataflow__team__name__icontains=word))
    if dataflow_id:
        records = records.filter(dataflow_id=dataflow_id)
    return records


def awaiting(viewer: Viewer) -> QuerySet[Proposal]:
    """Pending proposals that the viewer can approve now, for a team that has not approved yet."""
    asked_teams = Proposal.teams.through.objects.filter(proposal_id=OuterRef("pk"))
    if not (settings.SELF_APPROVAL and viewer.superuser):
        own = [team_id for team_id, role in viewer.roles.items() if role >= Role.APPROVER]
        asked_teams = asked_teams.filter(team_id__in=own)
    approved = Review.objects.filter(
        proposal_id=OuterRef("proposal_id"), plan_id=OuterRef("proposal__plan_id"), team_id=OuterRef("team_id"),
        verdict="approve")
    records = proposals(viewer, status=PENDING).filter(Exists(asked_teams.filter(~Exists(approved))))
    own = Q(author_id=viewer.user_id) | Q(chosen_by_id=viewer.user_id)
    return records if settings.SELF_APPROVAL else records.exclude(own)


def proposal(viewer: Viewer, proposal_id: UUID | str) -> Proposal:
    """One proposal; ``NotFound`` where it is absent or hidden from the viewer."""
    return permissions.proposal_for(viewer, proposal_id)


def review_of(viewer: Viewer, proposal: Proposal) -> dict[str, Any]:
    """Where the review stands.

    - ``teams``: for each asked team ``slug``, ``name``, ``verdict`` (``approve``, ``reject`` or null), ``reviewer``,
      ``comment``, ``at``, and ``approvers``: the user names of those whose approval counts for it
    - ``may_approve``, ``may_reject``, ``may_cancel``, ``may_recompute``, ``may_roll_back``: what the viewer may do now
    - ``outdated``: tasks whose profiles are others by now than those that the plan was made from
    - ``why_not``: why the viewer may not approve a pending proposal, in a sentence; empty where there is nothing to say
    """
    asked_teams = list(proposal.teams.all())
    reviews = {
        review.team_id: review
        for review in Review.objects.filter(plan_id=proposal.plan_id).select_related("reviewer")
    }
    approvers = permissions.approvers_of(proposal, asked_teams)
    speaks_for = [team for team in asked_teams if permissions.may_approve_for(viewer, proposal, team)]
    unreviewed = [team for team in speaks_for if team.pk not in reviews]
    team_id, status = proposal.dataflow.team_id, proposal.status
    outdated = profiles_since(proposal.plan) if status in {PENDING, STALE} else ()
    return {
        "teams": [_team_row(team, reviews.get(team.pk), approvers[team.pk]) for team in asked_teams],
        "outdated": outdated,
        "may_approve": status == PENDING and bool(unreviewed),
        "may_reject": status in {PENDING, STALE} and bool(speaks_for),
        "may_cancel": status in OPEN and permissions.may_cancel(viewer, proposal),
        "may_recompute": viewer.has_role(team_id, Role.ENGINEER)
        and (status in {STALE, UNPLANNABLE} or (status == PENDING and bool(outdated))),
        "may_roll_back": _is_reversible(proposal) and viewer.has_role(team_id, Role.APPROVER),
        "why_not": _why_not(viewer, proposal, asked_teams, speaks_for, unreviewed) if status == PENDING else "",
    }


def _is_reversible(proposal: Proposal) -> bool:
    """Whether it can be taken back: while it is under way, and a fusion also when it is done."""
    undoable = proposal.plan is not None and PLAN_KINDS[proposal.plan.kind].undoable_when_done
    return proposal.status in {EXECUTING, FAILED} or (proposal.status == DONE and undoable)


def live_proposal(viewer: Viewer, proposal_id: UUID | str) -> dict[str, Any]:
    """A proposal's live document; ``NotFound`` where the viewer may not know of it.

    - ``id``, ``status``, ``plan_status``, ``digest``, ``generation`` (the plan's), ``estate_generation``
    - ``steps`` by key: ``done`` or ``waiting``; ``done`` and ``total``: how many
    - ``failing`` by fragment id: ``cause``, ``since`` (ISO 8601)
    - ``reviews`` by team slug: ``verdict``, ``reviewer``, ``comment``
    - ``error``: why no plan could be made, or why it stands no more (code, message, remedy), or null
    """
    record = permissions.proposal_for(viewer, proposal_id)
    plan_record = record.rollback_plan or record.plan
    plan = plan_of(plan_record)
    finished = set(record.progress.get("done", ()))
    steps = {step.key: "done" if step.key in finished else "waiting" for step in plan.steps} if plan else {}
    reviews = Review.objects.filter(plan_id=record.plan_id).select_related("team", "reviewer")
    return {
        "id": str(record.pk), "status": record.status, "plan_status": record.plan.status,
        "digest": record.plan.digest, "generation": record.plan.generation,
        "estate_generation": EstateState.objects.filter(pk=1).values_list("generation", flat=True).first() or 0,
        "steps": steps, "done": sum(1 for state in steps.values() if state == "done"), "total": len(steps),
        "failing": _failing(viewer, record),
        "reviews": {
            review.team.slug: {
                "verdict": review.verdict, "reviewer": review.reviewer.username, "comment": review.comment}
            for review in reviews
        },
        "error": record.plan.error,
    }


def _failing(viewer: Viewer, record: Proposal) -> dict[str, Any]:
    """Why fragments of its plan fail, with tasks by their names."""
    causes = record.progress.get("failing", {})
    if not causes:
        return {}
    view, dataflow_id = view_for(viewer), str(record.dataflow_id)
    return {key: {**cause, "cause": view.in_words(cause["cause"], dataflow_id)} for key, cause in causes.items()}


def under_way() -> list[Proposal]:
    """Proposals that the nodes' reports move on; for the workers."""
    return list(Proposal.objects.under_way().select_related("plan", "rollback_plan").order_by("approved_at"))


def waiting_for_a_plan(*, enqueued_before: datetime) -> list[str]:
    """Ids of proposals whose plan was asked for before that moment and is not there yet; for the workers."""
    records = Proposal.objects.filter(status=COMPUTING, plan__enqueued__lt=enqueued_before)
    return [str(pk) for pk in records.values_list("pk", flat=True)]


def _team_row(team: Team, review: Review | None, approvers: list[str]) -> dict[str, Any]:
    return {
        "approvers": approvers,
        "slug": team.slug, "name": team.name, "verdict": review.verdict if review else None,
        "reviewer": review.reviewer.username if review else "", "comment": review.comment if review else "",
        "at": review.at.isoformat() if review else None,
    }


def _why_not(
    viewer: Viewer, proposal: Proposal, asked_teams: list[Team], speaks_for: list[Team], unreviewed: list[Team]
) -> str:
    if unreviewed:
        return ""
    if speaks_for:
        return "Your teams have approved; other teams are still to."
    names = ", ".join(team.name for team in asked_teams)
    if proposal.is_of(viewer.user_id) and not settings.SELF_APPROVAL:
        yours = "are its author" if viewer.user_id == proposal.author_id else "chose how it is to run"
        return f"You {yours}: it needs another approver of {names}."
    return f"It needs an approver of {names}."
