"""Putting a plan before the teams that it concerns, and letting approvals of the very same plan count for it."""

from __future__ import annotations

from django.conf import settings

from dashboard.approvals.demands import BY_POLICY, BY_WEIR, asks_of, team_demands
from dashboard.approvals.emergency_stops import is_emergency_stop
from dashboard.approvals.models import Ask, Proposal, Review
from dashboard.audit.trail import Audit
from dashboard.controllers.selectors import acting_teams
from scheduler.controllers.loop_values import ACTS
from scheduler.model.plan import Plan


def ask(audit: Audit, proposal: Proposal, plan: Plan) -> list[Ask]:
    """Put a plan before the teams that it concerns, by their present rules; the demands, by team.

    If the plan was made anew, teams are asked as well that it concerns only now, and teams whose rules agreed
    automatically to the former plan and do not agree to this one. ``audit`` is that of the caller's command.
    """
    by_itself = _is_weirs(proposal) and (proposal.round is None or proposal.round.mode == ACTS)
    options = proposal.plan.options
    if is_emergency_stop(proposal.plan.kind, options) or (by_itself and options.get("why")):
        # An emergency stop; its team chose it beforehand (`services.guarding`); or no output changes (isolation).
        demands = []
    else:
        demands = team_demands(plan, owner=proposal.dataflow.team, acting=_acting(proposal), agreed=_agreed(proposal))
    asks = {ask.team_id: ask for ask in asks_of(proposal)}
    new_asks = [
        Ask(plan=proposal.plan, team=entry.team, rules=entry.rules, approvals=entry.demand.approvals,
            role=entry.demand.role, expires_after_h=entry.demand.expires_after_h, why=entry.demand.why)
        for entry in demands if (before := asks.get(entry.team.pk)) is None
        or (before.demand.automatic and not entry.demand.automatic)]
    Ask.objects.bulk_create(
        new_asks, update_conflicts=True, unique_fields=["plan", "team"],
        update_fields=["rules", "approvals", "role", "expires_after_h", "why"])
    asks |= {ask.team_id: ask for ask in new_asks}
    proposal.teams.add(*(team_id for team_id, ask in asks.items() if ask.approvals))
    return sorted(asks.values(), key=lambda ask: ask.team.name)


def _is_weirs(proposal: Proposal) -> bool:
    """True if Weir made a proposal, and nobody has chosen since how it is to run: then it is that person's."""
    return proposal.author_id is None and proposal.chosen_by_id is None


def _agreed(proposal: Proposal) -> str:
    """The rule by which all teams agreed to a plan beforehand that Weir makes by itself; empty where they did not.

    What a controller takes back of its own, nobody is asked about: teams agreed to that with what is taken back.
    """
    if not _is_weirs(proposal):
        return ""
    if proposal.round is None:
        return BY_POLICY if proposal.plan.options.get("source") else ""
    undone = proposal.plan.options.get("undone")
    is_own = undone and Proposal.objects.filter(plan=undone, round__controller=proposal.round.controller).exists()
    return BY_WEIR if is_own else ""


def _acting(proposal: Proposal) -> set[int]:
    """The teams that let the controller act whose round this is; a recommendation is its teams' to approve."""
    if proposal.round is None or proposal.round.mode != ACTS or not _is_weirs(proposal):
        return set()
    return acting_teams(proposal.round.controller)


def keep_approvals(audit: Audit, proposal: Proposal) -> None:
    """Let approvals of the very same plan, computed before, count for this one.

    A plan's digest is of what it means: who approved one has approved the other. Approvals keep their time.
    """
    standing_reviews = Review.objects.filter(
        proposal=proposal, verdict="approve", plan__digest=proposal.plan.digest, team__in=proposal.teams.all(),
    ).exclude(plan=proposal.plan).order_by("at")
    newest = {
        (review.team_id, review.reviewer_id): review for review in standing_reviews
        if settings.SELF_APPROVAL or not proposal.is_of(review.reviewer_id)}
    Review.objects.bulk_create(
        Review(proposal=proposal, plan=proposal.plan, team_id=review.team_id, reviewer_id=review.reviewer_id,
               verdict="approve", role=review.role, comment=review.comment, at=review.at)
        for review in newest.values())
    if newest:
        audit.details["approvals_kept"] = len(newest)
