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

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from dashboard.approvals import permissions
from dashboard.approvals.comments import comments_state
from dashboard.approvals.demands import ROLES, approvers, asks_of, moment_of, roles_now, statuses, still_needed
from dashboard.approvals.lifecycle import COMPUTING, DONE, EXECUTING, FAILED, OPEN, PENDING, STALE, UNPLANNABLE
from dashboard.approvals.models import Ask, Proposal, Review
from dashboard.catalog.permissions import visible_to
from dashboard.operations.live_view.estate_view import WITHHELD, view_for
from dashboard.operations.models import EstateState
from dashboard.plans.selectors import plan_of
from dashboard.plans.stale_profiles import profiles_since
from dashboard.teams.models import Role, Team
from dashboard.teams.permissions import Viewer
from scheduler.approving import DemandStatus
from scheduler.model.plan_kinds import PLAN_KINDS

_FETCHED = ("plan", "rollback_plan", "dataflow__team", "author", "chosen_by")


def proposals(
    viewer: Viewer, *, status: str = "", search: str = "", dataflow_id: UUID | str = ""
) -> QuerySet[Proposal]:
    """Proposals that the viewer may know of, newest first; ``status`` may be ``open`` for all not yet decided.

    Parameters
    ----------
    status : str, optional
        A status, ``open``, or empty for all.
    search : str, optional
        Part of the names; empty for all.
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
    """Pending proposals that the viewer can approve now, for a team that demands more approvals than it has."""
    asks = Ask.objects.filter(plan_id=OuterRef("plan_id"), approvals__gt=0)
    if not (settings.SELF_APPROVAL and viewer.superuser):
        speaks_for = [Q(pk__in=[])] + [
            Q(role=name, team_id__in=[team_id for team_id, has in viewer.roles.items() if has >= role])
            for name, role in ROLES.items()]
        asks = asks.filter(reduce(or_, speaks_for))
    approved = Review.objects.filter(plan_id=OuterRef("plan_id"), team_id=OuterRef("team_id"), verdict="approve")
    if not settings.SELF_APPROVAL:  # those of people who may still give one
        approved = approved.filter(
            reviewer__is_active=True, reviewer__memberships__team_id=OuterRef("team_id"),
            reviewer__memberships__role__gte=Role.APPROVER)
    approval_counts = approved.order_by().values("team").annotate(number=Count("pk")).values("number")
    asks = asks.annotate(given=Coalesce(Subquery(approval_counts), 0)).filter(
        ~Exists(approved.filter(reviewer_id=viewer.user_id)), given__lt=F("approvals"))
    records = proposals(viewer, status=PENDING).filter(Exists(asks))
    chosen_by_viewer = Q(author_id=viewer.user_id) | Q(chosen_by_id=viewer.user_id)
    return records if settings.SELF_APPROVAL else records.exclude(chosen_by_viewer)


def proposal(viewer: Viewer, proposal_id: UUID | str) -> Proposal:
    """One proposal; ``NotFound`` where it is absent or hidden from the viewer."""
    return permissions.proposal_for(viewer, proposal_id)


def review_of(viewer: Viewer, proposal: Proposal) -> dict[str, Any]:
    """The state of the review, as a `dashboard.api.answers.proposals.ReviewAnswer`."""
    asks, at = asks_of(proposal), timezone.now()
    if proposal.status not in OPEN:
        at = proposal.approved_at or proposal.changed
    demanding = [ask for ask in asks if ask.approvals]
    asked_teams = [ask.team for ask in demanding]
    met = statuses(proposal, asks, at=at)
    names = approvers(
        [(ask.team, ask.role) for ask in demanding], besides=(proposal.author_id, proposal.chosen_by_id))
    speaks_for = [
        ask.team for ask in demanding
        if permissions.may_approve_for(viewer, proposal, ask.team, role=ROLES[ask.role])]
    unreviewed = [
        team for team in speaks_for if met[team.pk].missing and viewer.user_id not in met[team.pk].counted]
    team_id, status = proposal.dataflow.team_id, proposal.status
    outdated = profiles_since(proposal.plan) if status in {PENDING, STALE} else ()
    return {
        "teams": _team_rows(proposal, asks, met, names),
        "held": proposal.held if status == PENDING else None,
        "outdated": outdated,
        "may_approve": status == PENDING and bool(unreviewed),
        "may_reject": status in {PENDING, STALE} and bool(speaks_for),
        "may_cancel": status in OPEN and permissions.may_cancel(viewer, proposal),
        "may_recompute": viewer.has_role(team_id, Role.ENGINEER)
        and (status in {STALE, UNPLANNABLE} or (status == PENDING and bool(outdated))),
        "may_roll_back": _is_reversible(proposal) and viewer.has_role(team_id, Role.APPROVER),
        "why_not": _why_not(
            viewer, proposal, asked_teams, speaks_for, unreviewed) if status == PENDING and not proposal.held else "",
    }


def _is_reversible(proposal: Proposal) -> bool:
    """True if it can be taken back: while it is under way, and a fusion also when it is done."""
    undoable = proposal.plan is not None and PLAN_KINDS[proposal.plan.kind].undoable_when_done
    return proposal.status in {EXECUTING, FAILED} or (proposal.status == DONE and undoable)


def live_proposal(viewer: Viewer, proposal_id: UUID | str) -> dict[str, Any]:
    """A proposal's live document; ``NotFound`` where the viewer may not know of it.

    - ``id``, ``status``, ``plan_status``, ``digest``, ``generation`` (the plan's), ``estate_generation``
    - ``steps`` by key: ``done`` or ``waiting``; ``done`` and ``total``: how many
    - ``failing`` by fragment id: ``cause``, ``since`` (ISO 8601)
    - ``reviews`` by team slug: ``verdict``, ``reviewer``, ``comment`` of the newest, and the ``number`` of them
    - ``held``: why a plan that is approved waits (team, reason, until), or null
    - ``comments``: how many there are and when something of them changed last
    - ``error``: why no plan could be made, or why it stands no more (code, message, remedy), or null
    """
    record = permissions.proposal_for(viewer, proposal_id)
    plan_record = record.rollback_plan or record.plan
    plan = plan_of(plan_record)
    finished = set(record.progress.get("done", ()))
    steps = {step.key: "done" if step.key in finished else "waiting" for step in plan.steps} if plan else {}
    reviews = Review.objects.filter(plan_id=record.plan_id).select_related("team", "reviewer")
    by_team: dict[str, list[Review]] = {}
    for review in reviews:
        by_team.setdefault(review.team.slug, []).append(review)
    return {
        "id": str(record.pk), "status": record.status, "plan_status": record.plan.status,
        "digest": record.plan.digest, "generation": record.plan.generation,
        "estate_generation": EstateState.objects.filter(pk=1).values_list("generation", flat=True).first() or 0,
        "steps": steps, "done": sum(1 for state in steps.values() if state == "done"), "total": len(steps),
        "failing": _failing(viewer, record),
        "reviews": {
            team: {
                "verdict": team_reviews[-1].verdict, "reviewer": team_reviews[-1].reviewer.username,
                "comment": team_reviews[-1].comment, "number": len(team_reviews)}
            for team, team_reviews in by_team.items()
        },
        "held": record.held, "comments": comments_state(record),
        "error": record.plan.error,
    }


def _failing(viewer: Viewer, record: Proposal) -> dict[str, Any]:
    """The failures of fragments of its plan, with tasks by their names."""
    causes = record.progress.get("failing", {})
    if not causes:
        return {}
    view, dataflow_id = view_for(viewer), str(record.dataflow_id)
    is_own = viewer.sees_private_of(record.dataflow.team_id)
    places = {key: view.fragment_of.get(key) for key in causes}
    may_read = {key for key, place in places.items() if (is_own if place is None else view.may_quote(place))}
    return {key: {**cause, "cause": view.in_words(cause["cause"], dataflow_id) if key in may_read else WITHHELD}
            for key, cause in causes.items()}


def under_way() -> list[Proposal]:
    """Proposals that the nodes' reports move on; for the workers."""
    return list(Proposal.objects.under_way().select_related("plan", "rollback_plan").order_by("approved_at"))


def is_any_under_way() -> bool:
    """True if nodes' reports would move any proposal on."""
    return Proposal.objects.under_way().exists()


def waiting_for_a_plan(*, enqueued_before: datetime) -> list[str]:
    """Ids of proposals whose plan was asked for before that moment and is not there yet; for the workers."""
    records = Proposal.objects.filter(status=COMPUTING, plan__enqueued__lt=enqueued_before)
    return [str(pk) for pk in records.values_list("pk", flat=True)]


def _team_rows(
    proposal: Proposal, asks: list[Ask], met: Mapping[int, DemandStatus], approvers: Mapping[int, list[str]]
) -> list[dict[str, Any]]:
    reviews: dict[int, list[Review]] = {}
    records = Review.objects.filter(plan_id=proposal.plan_id)
    for review in records.select_related("reviewer").prefetch_related("reviewer__socialaccount_set"):
        reviews.setdefault(review.team_id, []).append(review)
    all_reviews = [review for team_reviews in reviews.values() for review in team_reviews]
    roles = roles_now(all_reviews) if proposal.status in OPEN else {}
    lost = set()
    if proposal.status in OPEN:
        lost = {(review.team_id, review.reviewer_id) for review in all_reviews} - set(roles)
    return [_team_row(ask, reviews.get(ask.team_id, []), met[ask.team_id], approvers, lost) for ask in asks]


def _team_row(
    ask: Ask, reviews: list[Review], met: DemandStatus, approvers: Mapping[int, list[str]],
    lost: Collection[tuple[int, int]],
) -> dict[str, Any]:
    rejected = next((review for review in reviews if review.verdict == "reject"), None)
    newest = rejected or (reviews[-1] if reviews else None)
    is_met = bool(ask.approvals) and not met.missing
    expires = moment_of(met.expires_ms)
    return {
        "slug": ask.team.slug, "name": ask.team.name, "approvers": approvers.get(ask.team_id, []),
        "verdict": "reject" if rejected else "approve" if is_met else None,
        "reviewer": newest.reviewer.username if newest else "", "comment": newest.comment if newest else "",
        "at": newest.at.isoformat() if newest else None,
        "needed": ask.approvals, "role": ask.role, "automatic": ask.demand.automatic, "why": ask.why,
        "expires_at": expires and expires.isoformat(), "rules": ask.rules.number if ask.rules else None,
        "approvals": [
            {"reviewer": review.reviewer.username, "comment": review.comment, "at": review.at.isoformat(),
             "counts": review.reviewer_id in met.counted,
             "lost_role": (ask.team_id, review.reviewer_id) in lost,
             "single_sign_on": bool(review.reviewer.socialaccount_set.all())}
            for review in reviews if review.verdict == "approve"],
    }


def _why_not(
    viewer: Viewer, proposal: Proposal, asked_teams: list[Team], speaks_for: list[Team], unreviewed: list[Team]
) -> str:
    if unreviewed:
        return ""
    if speaks_for:
        return f"You have approved. {still_needed(proposal, at=timezone.now())}".strip()
    names = ", ".join(team.name for team in asked_teams)
    if proposal.is_of(viewer.user_id) and not settings.SELF_APPROVAL:
        yours = "are its author" if viewer.user_id == proposal.author_id else "chose how it is to run"
        return f"You {yours}: it needs another approver of {names}."
    return f"It needs an approver of {names}."
