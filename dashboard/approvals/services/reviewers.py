"""Whom a proposal asks."""

from __future__ import annotations

from dashboard.approvals.models import Proposal
from dashboard.controllers.selectors import acting_teams
from dashboard.teams.models import Team
from scheduler.controllers.values import ACTS
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PLAN_KINDS
from scheduler.step_kinds import kind_of


def teams_to_ask(proposal: Proposal, plan: Plan) -> set[int]:
    """The own team, and the teams of the dataflows that the plan touches; a removal that nobody notices asks none."""
    if proposal.author_id is None and proposal.plan.options.get("why"):
        return set()  # its team chose it beforehand, or no output changes: `guarding`
    own = {proposal.dataflow.team_id}
    # What they stop or close is needed by no other dataflow, and what they open again was agreed to at submission.
    if PLAN_KINDS[plan.kind].only_own and all(kind_of(step).unnoticed for step in plan.steps):
        return own
    asked_teams = own | set(Team.objects.filter(slug__in=plan.touched_teams).values_list("pk", flat=True))
    if proposal.round is None or proposal.round.mode != ACTS:  # a recommendation is its team's to approve
        return asked_teams
    return asked_teams - acting_teams(proposal.round.controller)
