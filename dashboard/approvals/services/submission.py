"""Opening proposals: submit a dataflow, compute or recompute the plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from math import ceil
from typing import Any
from uuid import UUID

from django.db.models import Count, Min, Q
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.demands import demands_of, missing_teams
from dashboard.approvals.emergency_stops import is_emergency_stop
from dashboard.approvals.lifecycle import CANCELLED, COMPUTING, FAILED, PENDING, STALE, UNPLANNABLE
from dashboard.approvals.models import Proposal
from dashboard.approvals.permissions import proposal_for
from dashboard.approvals.proposal_states import move_proposal
from dashboard.approvals.review_notices import ask_reviewers
from dashboard.approvals.services.enacting import overtake
from dashboard.approvals.services.plan_holds import enact_if_open
from dashboard.approvals.services.review_requests import ask, keep_approvals
from dashboard.audit.trail import Audit, audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.dataflow_states import move_dataflow
from dashboard.catalog.document_checks import format_of, parse_document
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import store_dataflow
from dashboard.controllers.models import RoundRow
from dashboard.core.state_words import words
from dashboard.operations.estate_store.estate_loader import stored_estate
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.plans import services as plans
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.computing import plan_and_reads
from dashboard.plans.joining_options import joined_by, options_of
from dashboard.plans.models import PlanRecord
from dashboard.plans.scheduling_problem import problem_of_new
from dashboard.plans.stale_profiles import profiles_since
from dashboard.savepoint_records.selectors import savepoint_of
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import require_role, viewer_of
from dashboard.teams.team_limits import PLANS, PROPOSALS, require_room
from dashboard.teams.team_secrets import require_secrets
from scheduler.exact_savepoints import require_restorable
from scheduler.model.dataflow import Dataflow
from scheduler.model.errors import InvalidTransition, WeirError
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PLAN_KINDS, SUBMIT, names_where
from scheduler.model.saved_states import SavedStates
from scheduler.model.secrets import with_scoped_secrets
from scheduler.read_set import Reads

ATTEMPTS_WITHOUT_LOCK = 2
AN_HOUR = timedelta(hours=1)
UNBOUNDED_STOPS = 10  # emergency stops of a dataflow within an hour that no limit holds up
_Computed = tuple[Plan, Reads] | WeirError  # or why there is no plan


def submit_dataflow(
    *, actor: User, team: Team, text: str, format: str | None = None, fresh: bool = False, begin: str = "now",
    schedule: ScheduleChoice | None = None, begin_from: str = "",
) -> Proposal:
    """Validate and store a dataflow, and ask for its plan.

    Parameters
    ----------
    format : str, optional
        ``json`` or ``yaml``; by default it follows from the text.
    fresh, begin
        The way in which it joins what is under way (`joining_options.options_of`).
    schedule : ScheduleChoice, optional
        Its schedule, which has to be feasible at present.
    begin_from : str, optional
        The name of the team's savepoint from which it begins.

    Raises
    ------
    InvalidDataflow
        All problems of the document; nothing was stored.
    NameTaken
        The team's dataflow of that name is in use.
    MissingProfile, RateNotHeld, InsufficientSlots
        There is no such schedule here; nothing was stored.
    NoSuchSavepoint, SavepointDiffers
        It cannot begin from that savepoint; nothing was stored.
    """
    require_role(viewer_of(actor), team, Role.ENGINEER)
    saved = saved_states(team, begin_from)
    options = options_of(
        fresh=fresh, begin=begin, schedule=schedule.as_option() if schedule else None,
        begin_from=saved.id if saved else "")
    dataflow = parse_document(text, format=format)
    require_secrets(team, dataflow)
    if saved is not None:
        require_begins_from(saved, dataflow, team)
    if schedule is not None:  # before the estate is locked
        problem_of_new(dataflow, team=team, routing=schedule.routing, fresh=fresh).require(
            schedule.pair, schedule.rate_per_s)
    with audited(actor=actor, verb="dataflow.submit", team=team) as audit:
        lock_generation()
        require_role(audit.viewer, team, Role.ENGINEER)
        record = store_dataflow(
            actor=actor, team=team, dataflow=dataflow, text=text, format=format or format_of(text))
        _give_up_older(audit, record)
        proposal = open_proposal(audit, record, SUBMIT.name, options=options)
        audit.subject, audit.details = record, {"proposal": str(proposal.pk), "version": record.version}
        return proposal


def saved_states(team: Team, name: str) -> SavedStates | None:
    """The team's savepoint of that name, which has to be whole; None for an empty name."""
    return savepoint_of(team, name) if name else None


def require_begins_from(saved: SavedStates, dataflow: Dataflow, team: Team) -> None:
    """Raise ``SavepointDiffers`` unless a dataflow of a team can begin from a savepoint."""
    types = jobs.task_types()
    require_restorable(saved, with_scoped_secrets(dataflow, team=team.slug, task_types=types), task_types=types)


def recompute_proposal(*, actor: User, proposal_id: UUID | str) -> Proposal:
    """Ask for a new plan of a proposal that is stale, or for which none could be made.

    Where it is the very same plan, its approvals stay.

    Also of one whose plan was made from a profile that is another by now.
    """
    with audited(actor=actor, verb="proposal.recompute") as audit:
        lock_generation()
        viewer = audit.viewer
        proposal = proposal_for(viewer, proposal_id, for_update=True)
        record = proposal.dataflow
        require_role(viewer, record.team, Role.ENGINEER)
        if proposal.status == PENDING and not profiles_since(proposal.plan):
            raise InvalidTransition(
                "This plan is as it would be computed now.", remedy="Reload the page.", status=proposal.status)
        replan(actor=actor, proposal=proposal, options=proposal.plan.options)
        audit.subject, audit.team, audit.details = proposal, record.team, {"plan": str(proposal.plan_id)}
        return proposal


def choose_joining(*, actor: User, proposal_id: UUID | str, fresh: bool, begin: str = "now") -> Proposal:
    """Let a submission that is not decided yet join what is under way in another way; it is planned and reviewed anew.

    Parameters
    ----------
    begin : str, optional
        The beginning of its reading in streams that are there: ``now``, ``oldest``, or a time.
    """
    with audited(actor=actor, verb="proposal.choose_joining") as audit:
        lock_generation()
        viewer = audit.viewer
        proposal = proposal_for(viewer, proposal_id, for_update=True)
        before = joined_by(proposal.plan.options)
        options = options_of(
            fresh=fresh, begin=begin, schedule=before.get("schedule"), begin_from=before.get("begin_from", ""))
        require_role(viewer, proposal.dataflow.team, Role.ENGINEER)
        if not PLAN_KINDS[proposal.plan.kind].joins or proposal.status not in {PENDING, STALE}:
            raise InvalidTransition(
                "Only a submission that is not decided yet can join in another way.", remedy="Reload the page.",
                status=proposal.status)
        if options == before and proposal.status == PENDING:
            audit.nothing_changed()
            return proposal
        choose(actor=actor, proposal=proposal, options=options)
        audit.subject, audit.team, audit.details = proposal, proposal.dataflow.team, dict(options)
        return proposal


def asked_again(audit: Audit, proposal: Proposal, *, actor: User) -> Proposal:
    """An open proposal that is asked for once more: it gets a new plan unless it has one that could be approved."""
    if proposal.status not in {STALE, UNPLANNABLE}:
        audit.nothing_changed()
        return proposal
    plan_anew(actor=actor, proposal=proposal, options=proposal.plan.options)
    audit.subject, audit.team = proposal, proposal.dataflow.team
    audit.details = {"plan": str(proposal.plan_id)}
    return proposal


def choose(*, actor: User, proposal: Proposal, options: Mapping[str, Any]) -> None:
    """Let a proposal run in another way, by the choice of somebody who then does not approve it."""
    proposal.chosen_by = None if actor.pk == proposal.author_id else actor
    replan(actor=actor, proposal=proposal, options=options)


def replan(*, actor: User, proposal: Proposal, options: Mapping[str, Any]) -> None:
    """Ask for another plan in place of the one that is reviewed, is stale, or could not be made."""
    if proposal.status == PENDING:
        overtake(proposal)
    if PLAN_KINDS[proposal.plan.kind].has_document:
        move_dataflow(proposal.dataflow, dataflows.SUBMITTED)
    plan_anew(actor=actor, proposal=proposal, options=options)


def plan_anew(*, actor: User | None, proposal: Proposal, options: Mapping[str, Any]) -> None:
    """Ask for another plan of a proposal: reviews of others do not count for it. The caller is inside a command."""
    kind = PLAN_KINDS[proposal.plan.kind]
    if actor is not None:
        _require_plan(proposal.dataflow.team)
    proposal.plan = plans.request_plan(
        actor=actor, dataflow=proposal.dataflow, kind=kind.name, options=options,
        version=proposal.plan.version if kind.has_version else None)
    proposal.held = None
    move_proposal(proposal, COMPUTING)
    proposal.teams.clear()
    jobs.prepare_proposal(str(proposal.pk))


def require_at_rest(record: DataflowRecord, states: Collection[str], kind_name: str) -> None:
    """Raise unless the dataflow is in one of these states and nothing of it is being enacted; a removal waits for no
    plan that fails."""
    under_way = Proposal.objects.under_way().filter(dataflow=record)
    if PLAN_KINDS[kind_name].takes_out:
        under_way = under_way.exclude(status=FAILED)
    require_status(record, states, kind_name)
    if under_way.exists():
        raise InvalidTransition(
            f"A plan of {record.name} is being enacted, so there is nothing to {kind_name} yet.",
            remedy="Wait until it is in force, or roll its proposal back.", status=record.status)


def require_status(record: DataflowRecord, states: Collection[str], action: str) -> None:
    """Raise unless the dataflow is in one of these states."""
    if record.status not in states:
        raise InvalidTransition(
            f"{record.name} is {words(record.status)}, so there is nothing to {action} yet.",
            remedy="Wait until what is under way is done, or cancel or roll back its proposal.", status=record.status)


def prepare_proposal(*, proposal_id: UUID | str) -> Proposal:
    """Compute the plan of a proposal that waits for one, and put it before its reviewers.

    Safe to call twice: a proposal that no longer waits is left alone. The plan is computed without holding a lock;
    where the estate moves on meanwhile it is computed again, the last time under the estate's lock.
    """
    for attempt in range(ATTEMPTS_WITHOUT_LOCK + 1):
        proposal = Proposal.objects.select_related("plan").get(pk=proposal_id)
        if proposal.status != COMPUTING:
            break
        computed = _try_compute(proposal) if attempt < ATTEMPTS_WITHOUT_LOCK else None
        if (prepared := _store_outcome(proposal, computed)) is not None:
            return prepared
    return proposal


def open_proposal(
    audit: Audit, record: DataflowRecord, kind: str, *, options: Mapping[str, Any] | None = None,
    loop_round: RoundRow | None = None, version: int | None = None,
) -> Proposal:
    """A proposal by the actor of the caller's command, whose plan is being computed.

    Parameters
    ----------
    version : int, optional
        The number of the version that is planned; the current one where it is not given.

    Raises
    ------
    TeamLimitReached
        As many of the team's proposals are open as may be.
    AskedTooOften
        As many plans were asked for within the hour, of the team's dataflows, as may be: by people, or by policies.
    """
    # What Weir proposes by itself has bounds of its own, and the first emergency stops of a dataflow have none.
    is_bounded = audit.actor is not None and not (
        is_emergency_stop(kind, options or {}) and _stops_lately(record) < UNBOUNDED_STOPS)
    if is_bounded:
        opened = Proposal.objects.open().filter(dataflow__team=record.team_id, author__isnull=False)
        require_room(PROPOSALS, owner=record.team.name, taken=opened.count())
    by_policies = loop_round is None and bool((options or {}).get("source"))  # rounds have budgets of their own
    if is_bounded or by_policies:
        _require_plan(record.team, by_policies=by_policies)
    plan = plans.request_plan(actor=audit.actor, dataflow=record, kind=kind, options=options, version=version)
    proposal = Proposal.objects.create(plan=plan, dataflow=record, author=audit.actor, round=loop_round)
    jobs.prepare_proposal(str(proposal.pk))
    return proposal


def _stops_lately(record: DataflowRecord) -> int:
    """The number of emergency stops of a dataflow within the last hour: who cancels one may ask for the next."""
    return PlanRecord.objects.filter(
        dataflow=record, kind__in=names_where("rests"), options__at_once=True,
        created__gt=timezone.now() - AN_HOUR).count()


def _require_plan(team: Team, *, by_policies: bool = False) -> None:
    """Raise where as many plans were asked for within the hour as a team's people may, and as many again its policies;
    the estate's lock is held."""
    now, policies = timezone.now(), Q(options__has_key="source")
    lately = PlanRecord.objects.filter(
        policies if by_policies else ~policies, dataflow__team=team, created__gt=now - AN_HOUR)
    plans_asked = lately.aggregate(count=Count("pk"), oldest=Min("created"))
    require_room(
        PLANS, owner=team.name, taken=plans_asked["count"],
        retry_after_s=max(1, ceil(((plans_asked["oldest"] or now) + AN_HOUR - now).total_seconds())))


def _give_up_older(audit: Audit, record: DataflowRecord) -> None:
    """A new version takes the place of one for which no plan could be made."""
    for older in Proposal.objects.open().filter(dataflow=record).select_related("dataflow__team"):
        give_up(audit, older)


def give_up(audit: Audit, proposal: Proposal) -> None:
    """Cancel an open proposal that another one takes the place of; ``audit`` is that of the caller's command."""
    move_proposal(proposal, CANCELLED)
    audit.also(verb="proposal.give_up", subject=proposal, team=proposal.dataflow.team)


def _try_compute(proposal: Proposal) -> tuple[int, _Computed]:
    """The generation that was looked at, and the plan with what it was made from, or why there is none."""
    estate = stored_estate()
    try:
        return estate.generation, plan_and_reads(proposal.plan, estate)
    except WeirError as error:
        return estate.generation, error


def _store_outcome(proposal: Proposal, computed: tuple[int, _Computed] | None) -> Proposal | None:
    """Keep what was computed; None where the estate has moved on since. Computes here and now without ``computed``."""
    with audited(actor=None, verb="proposal.prepare", subject=proposal) as audit:
        generation = lock_generation()
        fresh = Proposal.objects.select_for_update(of=("self",)).select_related(
            "plan", "dataflow__team", "author", "round").get(pk=proposal.pk)
        if fresh.status != COMPUTING or fresh.plan_id != proposal.plan_id:
            audit.nothing_changed()
            return fresh
        fresh.plan.dataflow = fresh.dataflow  # it is of the same, which need not be read again
        computed = computed or _try_compute(fresh)
        if computed[0] != generation:
            audit.nothing_changed()
            return None
        audit.subject, audit.team = fresh, fresh.dataflow.team
        _keep(audit, fresh, computed[1])
        audit.details |= {"status": fresh.status}
        return fresh


def _keep(audit: Audit, proposal: Proposal, computed: _Computed) -> None:
    submits = PLAN_KINDS[proposal.plan.kind].has_document
    if isinstance(computed, WeirError):
        plans.fail(record=proposal.plan, error=computed)
        move_proposal(proposal, UNPLANNABLE)
        if submits:
            move_dataflow(proposal.dataflow, dataflows.FAILED)
        return
    plan, reads = computed
    plans.freeze(record=proposal.plan, plan=plan, reads=reads)
    asks = ask(audit, proposal, plan)
    keep_approvals(audit, proposal)
    move_proposal(proposal, PENDING)
    if submits:
        move_dataflow(proposal.dataflow, dataflows.PLANNED)
    now = timezone.now()
    demands = demands_of(proposal, at=now, asks=asks)
    if not missing_teams(demands):  # every team agreed beforehand, or to the very same plan
        enact_if_open(audit, proposal, demands, generation=plan.generation, at=now)
    else:
        ask_reviewers(proposal, demands)
