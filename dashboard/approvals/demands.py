"""The teams that are asked about a plan, their demands by their rules, and the progress of these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings

from dashboard import jobs
from dashboard.approvals.approval_rules import current_rules
from dashboard.approvals.lifecycle import OPEN
from dashboard.approvals.models import Ask, Proposal, Review, TeamRules
from dashboard.operations.live_view.handover_pauses import expected_pause_ms
from dashboard.teams.models import Membership, Role, Team, User
from scheduler.approving import RANKS, Approval, ApprovalDemand, ApproverRole, Closure, DemandStatus, case_of, status_of
from scheduler.model.effects import reached_by
from scheduler.model.errors import WeirError
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PLAN_KINDS
from scheduler.step_kinds import kind_of

ROLES = {"approver": Role.APPROVER, "admin": Role.ADMIN}
BY_WEIR = "lets Weir do this by itself"
BY_POLICY = "approved by what the task is switched"
APPROVALS_OF_A_MODE = 1  # that it stands for where a controller acts: one admin chooses it, alone


@dataclass(frozen=True, slots=True)
class TeamDemand:
    """A team that a plan concerns, what it demands, and the version of its rules that says so (None: the default)."""

    team: Team
    demand: ApprovalDemand
    rules: TeamRules | None


def team_demands(plan: Plan, *, owner: Team, acting: Collection[int] = (), agreed: str = "") -> list[TeamDemand]:
    """The teams that a plan concerns, by name, each with what it demands.

    The own team, and the teams of the dataflows that the plan touches; of a removal that nobody notices the own alone.

    Parameters
    ----------
    acting : collection of int
        The ids of teams that let the controller act that made it: they are asked where their rules demand more than
        one approval.
    agreed : str
        By what all of them agreed beforehand, whatever their rules demand; empty: they did not.
    """
    teams = {owner.pk: owner}
    # What they stop or close is needed by no other dataflow, and what they open again was agreed to at submission.
    if not (PLAN_KINDS[plan.kind].only_own and all(kind_of(step).unnoticed for step in plan.steps)):
        teams |= {team.pk: team for team in Team.objects.filter(slug__in=plan.touched_teams)}
    rules = current_rules(teams)
    interrupts = any(kind_of(step).interrupts for step in plan.steps)
    pause_ms = expected_pause_ms(plan, jobs.read_live((), {}).reports) if interrupts else 0.0
    types = jobs.task_types()
    reaches = frozenset().union(*(reached_by(types.get(task.type), task.config) for task in plan.started))
    demands = []
    for team in sorted(teams.values(), key=lambda team: team.name):
        record, team_rules = rules[team.pk]
        demand = ApprovalDemand(0, why=agreed) if agreed else team_rules.demand(
            case_of(plan, team=team.slug, pause_ms=pause_ms, reaches=reaches))
        if team.pk in acting and demand.approvals <= APPROVALS_OF_A_MODE:
            demand = ApprovalDemand(0, why=BY_WEIR)
        demands.append(TeamDemand(team, demand, record))
    return demands


def asks_of(proposal: Proposal) -> list[Ask]:
    """The demand of each team for the plan that is before the reviewers, by the team's name."""
    return list(Ask.objects.filter(plan_id=proposal.plan_id).select_related("team", "rules").order_by("team__name"))


def statuses(proposal: Proposal, asks: Iterable[Ask], *, at: datetime) -> dict[int, DemandStatus]:
    """The progress of each team's demand, by the team's id; an approval counts as far as its giver's role goes now.

    Of a plan that was enacted the roles of then count.
    """
    approvals_by_team: dict[int, list[Approval]] = {}
    reviews = list(Review.objects.filter(plan_id=proposal.plan_id, verdict="approve"))
    roles = {(review.team_id, review.reviewer_id): review.role for review in reviews}
    if proposal.status in OPEN:
        roles = roles_now(reviews)
    for review in reviews:
        role = roles.get((review.team_id, review.reviewer_id))
        if role is not None:
            lower = min(review.role, role, key=RANKS.__getitem__)
            approvals_by_team.setdefault(review.team_id, []).append(
                Approval(review.reviewer_id, lower, ms_of(review.at)))
    return {ask.team_id: status_of(ask.demand, approvals_by_team.get(ask.team_id, ()), at_ms=ms_of(at)) for ask in asks}


def roles_now(reviews: Iterable[Review]) -> dict[tuple[int, int], ApproverRole]:
    """The role that each reviewer has now in the team that was spoken for, by team and person.

    Whoever may approve for it no more, or is deactivated, is left out.
    """
    pairs = {(review.team_id, review.reviewer_id) for review in reviews}
    teams, people = {team for team, _ in pairs}, {person for _, person in pairs}
    members = Membership.objects.filter(
        team__in=teams, user__in=people, user__is_active=True, role__gte=Role.APPROVER)
    granted_roles: dict[tuple[int, int], ApproverRole] = {
        (member.team_id, member.user_id): "admin" if member.role >= Role.ADMIN else "approver" for member in members}
    if settings.SELF_APPROVAL:  # administrators speak for every team
        root = User.objects.filter(pk__in=people, is_superuser=True, is_active=True).values_list("pk", flat=True)
        granted_roles |= {(team, person): "admin" for team, person in pairs if person in set(root)}
    return {pair: granted_roles[pair] for pair in pairs if pair in granted_roles}


def demands_of(proposal: Proposal, *, at: datetime, asks: Iterable[Ask] | None = None) -> dict[Ask, DemandStatus]:
    """The demand of each team for the plan that is before the reviewers, by the team's name, and its progress.

    ``asks`` are those of the plan, where they are known already.
    """
    asks = asks_of(proposal) if asks is None else list(asks)
    met = statuses(proposal, asks, at=at)
    return {ask: met[ask.team_id] for ask in asks}


def missing_teams(demands: Mapping[Ask, DemandStatus]) -> list[Team]:
    """The teams whose demand is not met."""
    return [ask.team for ask, met in demands.items() if met.missing]


def still_needed(proposal: Proposal, *, at: datetime) -> str:
    """The approvals that a proposal lacks, in a sentence; empty if it lacks none."""
    lacking = [f"{met.missing} more of {ask.team.name}" for ask, met in demands_of(proposal, at=at).items()
               if met.missing]
    return f"It needs {' and '.join(lacking)}." if lacking else ""


class TeamIsFrozen(WeirError):
    """A team's freeze or windows hold, and what is asked for may change what its dataflows give."""

    code = "team_is_frozen"


def closure_of(teams: Iterable[Team], *, at: datetime) -> tuple[Team, Closure] | None:
    """The team whose freeze or windows keep a plan from being enacted for longest now; None where nothing does.

    By the rules that each team has now: a freeze holds for what was proposed before it, too.
    """
    by_id = {team.pk: team for team in teams}
    closures = [
        (by_id[team_id], closure) for team_id, (_, rules) in current_rules(by_id).items()
        if (closure := rules.closed(ms_of(at))) is not None]
    return max(closures, key=lambda entry: entry[1].until_ms or float("inf"), default=None)


def require_open(plan: Plan, *, owner: Team, at: datetime) -> None:
    """Raise ``TeamIsFrozen`` where a freeze or the windows of a team keep what a plan did from being taken back now."""
    closed = closure_of([owner, *Team.objects.filter(slug__in=plan.touched_teams)], at=at)
    if closed is None:
        return
    team, closure = closed
    until = moment_of(closure.until_ms)
    raise TeamIsFrozen(
        f"{team.name} lets nothing be changed now ({closure.reason}), so what is done is not taken back.",
        remedy=f"Wait until {until:%Y-%m-%d %H:%M} UTC." if until else f"Ask an approver of {team.name}.",
        team=team.slug)


def approvers(demanded: Iterable[tuple[Team, str]], *, besides: Iterable[int | None] = ()) -> dict[int, list[str]]:
    """The user names of those whose approval counts for each team, given the role that it demands.

    Parameters
    ----------
    besides : iterable of int
        The authors of the proposal: they do not count, unless the installation allows self-approval.
    """
    needed = {team.pk: ROLES[role] for team, role in demanded}
    excluded = set() if settings.SELF_APPROVAL else set(besides)
    names: dict[int, list[str]] = {team_id: [] for team_id in needed}
    members = Membership.objects.filter(
        team__in=list(needed), role__gte=Role.APPROVER, user__is_active=True).select_related("user").order_by(
        "user__username")
    for member in members:
        if member.role >= needed[member.team_id] and member.user_id not in excluded:
            names[member.team_id].append(member.user.username)
    return names


def ms_of(moment: datetime) -> int:
    """A time in ms since the epoch."""
    return int(moment.timestamp() * 1000)


def moment_of(ms: int | None) -> datetime | None:
    """The time of so many ms since the epoch."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, tz=UTC)

