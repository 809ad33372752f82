"""Executing an approved plan: the estate takes it, the nodes' reports say how far it is, an operator takes it back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals import permissions
from dashboard.approvals.demands import require_open
from dashboard.approvals.lifecycle import DONE, EXECUTING, FAILED, ROLLED_BACK, ROLLING_BACK, STALE, UNDER_WAY
from dashboard.approvals.models import Proposal
from dashboard.approvals.plan_in_force import plans_in_force
from dashboard.approvals.proposal_states import move_proposal
from dashboard.approvals.services.alternate_holds import end_hold, hold_switched
from dashboard.audit.trail import Audit, audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.dataflow_states import move_dataflow
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import visible_to
from dashboard.catalog.services import take_version
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_reader import StoredEstate
from dashboard.operations.estate_store.estate_writer import drop_bundles, on_slots_there, store_plan
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.operations.estate_store.policy_versions import note_policies
from dashboard.operations.models import EstateState
from dashboard.plans import services as plans
from dashboard.plans.computing import compute
from dashboard.plans.joining_options import by_schedule, last_options
from dashboard.plans.models import PlanRecord
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from dashboard.plans.site_plan_kinds import SITE_PLAN_KINDS
from dashboard.plans.stale_profiles import profiles_since
from dashboard.teams.models import Team, User
from dashboard.teams.permissions import viewer_of
from scheduler.history.series import DATAFLOW, QUERY, SWITCHED, Annotation
from scheduler.model.errors import InvalidTransition, WeirError
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PLAN_KINDS, names_where
from scheduler.model.warm_up import warming_of
from scheduler.plan_progress import PlanProgress
from scheduler.step_kinds import kind_of
from scheduler.undoing import undo

PATIENCE_S = 60.0  # a query of the plan may fail and restart for this long before the proposal counts as failed


def _tell_who_pays(audit: Audit, proposal: Proposal, plan: Plan) -> None:
    """Leave a row in the trail of each other team whose bill the plan changes: it may not have been asked."""
    changes = {change.team: change.money_per_hour_delta for change in plan.bill_changes}
    for team in Team.objects.filter(slug__in=changes).exclude(pk=proposal.dataflow.team_id).order_by("slug"):
        audit.also(
            verb="bill.change", subject=proposal, team=team, plan=plan.kind, of=proposal.dataflow.team.name,
            currency=settings.CURRENCY, money_per_hour=changes[team.slug])


def execute(audit: Audit, proposal: Proposal, *, generation: int) -> None:
    """Take the approved plan into the estate; where that has moved on, or a profile has, or something hinders the plan
    by now, it becomes stale instead.

    The caller holds the estate's lock, at ``generation``, inside its own audited command.
    """
    plan = plan_of(proposal.plan)
    site = SITE_PLAN_KINDS[plan.kind]
    kind = site.kind
    if kind.moves_queries and not all(kind_of(step).of_policy for step in plan.steps):
        require_calm(audit.actor)
    if kind.needs_no_handover:
        _require_no_handover()
    if plan.generation != generation or profiles_since(proposal.plan):
        overtake(proposal)
        return
    if hindrance := site.hindrance(plan):
        overtake(proposal, error=hindrance)
        return
    proposal.approved_at = timezone.now()
    proposal.progress = {"done": [], "failing": {}}
    move_proposal(proposal, EXECUTING)
    store_plan(plan)
    note_policies(plan, proposal=proposal.pk, author=proposal.author, at=proposal.approved_at)
    if site.becomes:
        move_dataflow(proposal.dataflow, site.becomes)
    if site.becomes == dataflows.REMOVING:
        _end_what_fails(proposal.dataflow)
    if kind.has_version:
        take_version(actor=audit.actor, record=proposal.dataflow, number=proposal.plan.version)
    audit.details["generation"] = generation + 1
    _tell_who_pays(audit, proposal, plan)
    jobs.enact(str(proposal.pk))


def _end_what_fails(record: DataflowRecord) -> None:
    """End a removed dataflow's failed plans, as taken back: the removal covers what they began."""
    for failed in Proposal.objects.select_for_update().filter(dataflow=record, status=FAILED):
        move_proposal(failed, ROLLING_BACK)
        failed.finished_at = timezone.now()
        move_proposal(failed, ROLLED_BACK)


def require_calm(actor: User | None) -> None:
    """Raise unless every plan in the estate is enacted: what has just changed is not handed over.

    The error names a plan that the actor may know of.
    """
    under_way = Proposal.objects.under_way().select_related("plan", "dataflow").order_by("approved_at", "pk")
    if not under_way.exists():
        return
    visible_proposal = under_way.filter(visible_to(viewer_of(actor), through="dataflow__")).first() if actor else None
    if visible_proposal is None:
        raise InvalidTransition(
            "Another plan is being enacted, of a dataflow that you may not see.",
            remedy="Wait until it is done, then try again.")
    if visible_proposal.status == FAILED:
        raise InvalidTransition(
            f"Another plan cannot finish: the one to {visible_proposal.plan.kind} {visible_proposal.dataflow.name}.",
            remedy="Read its cause, and roll it back or wait for it, then try again.",
            proposal=str(visible_proposal.pk))
    raise InvalidTransition(
        f"Another plan is being enacted: the one to {visible_proposal.plan.kind} {visible_proposal.dataflow.name}.",
        remedy="Wait until it is done, then try again.", proposal=str(visible_proposal.pk))


def _require_no_handover() -> None:
    """Raise where queries go on with the work of others just now: what rests meanwhile could not take it over."""
    under_way = Proposal.objects.under_way().filter(plan__kind__in=names_where("moves_queries")).select_related("plan")
    if any(kind_of(step).hands_over for proposal in under_way for step in plan_of(proposal.plan).steps):
        raise InvalidTransition(
            "Queries are being cut or fused, which takes some seconds.",
            remedy="Wait until that plan is done, then try again.")


def roll_back_proposal(*, actor: User, proposal_id: UUID | str) -> Proposal:
    """Take back a plan that is being executed or that fails, or a fusion that is done: the reverse goes into the estate
    at once.

    For a submission that is the plan of its removal from the estate as it is now, so what others have meanwhile
    built on stays; for a removal it is the plan of the dataflow's submission, by the schedule that it ran by; a pause
    and a resumption undo each other, and a new version gives way to the one before. Queries that were fused are cut
    again where they were, as long as no other plan has changed them since; a dataflow that was scheduled anew gets the
    bundles that it had.

    Raises
    ------
    TeamIsFrozen
        It is done, and a freeze or the windows of a team that it concerns hold. What is under way they do not stop.
    """
    with audited(actor=actor, verb="proposal.roll_back") as audit:
        generation = lock_generation()
        viewer = audit.viewer
        proposal = permissions.proposal_for(viewer, proposal_id, for_update=True)
        permissions.require_operator(viewer, proposal)
        if proposal.status == DONE:  # what is under way nothing holds up
            require_open(plan_of(proposal.plan), owner=proposal.dataflow.team, at=timezone.now())
        take_back(audit, proposal, generation=generation)
        return proposal


def take_back(audit: Audit, proposal: Proposal, *, generation: int, why: str = "") -> None:
    """Put the reverse of a proposal's plan into the estate; inside the caller's audited command, which holds its lock.

    Parameters
    ----------
    proposal : Proposal
        Locked.
    why : str, optional
        The reason that is kept with the plan that takes it back, of one that has no options of its own.

    Raises
    ------
    InvalidTransition, NotSubmitted, NotEnactable
        There is nothing to take back, or what it changed was changed since.
    """
    actor = audit.actor
    if proposal.status == DONE:
        require_undoable(proposal, actor=actor)
    back = SITE_PLAN_KINDS[PLAN_KINDS[proposal.plan.kind].undone_by]
    options = _options_as_it_was(proposal) if back.kind.has_document else {"why": why} if why else None
    if back.kind.has_version and proposal.plan.options.get("begin_from"):
        options = {"anew": True}
    former = proposal.plan.options["former"] if back.kind.has_version else None
    record = plans.request_plan(
        actor=actor, dataflow=proposal.dataflow, kind=back.name, options=options, version=former)
    was_done = proposal.status == DONE
    move_proposal(proposal, ROLLING_BACK)
    plan = _undoing(proposal, record, generation=generation, was_done=was_done)
    proposal.rollback_plan = plans.freeze(record=record, plan=plan)
    store_plan(plan)
    note_policies(plan, proposal=proposal.pk, author=actor, at=timezone.now())
    end_hold(audit, proposal)
    proposal.progress = {"done": [], "failing": {}}
    proposal.save()
    if back.becomes:
        move_dataflow(proposal.dataflow, back.becomes)
    if former is not None:
        take_version(actor=actor, record=proposal.dataflow, number=former)
    audit.subject, audit.team = proposal, proposal.dataflow.team
    audit.details["generation"] = generation + 1
    jobs.enact(str(proposal.pk))


def require_undoable(proposal: Proposal, *, actor: User | None) -> None:
    """Raise unless a plan that is done can be taken back as it is; others are undone by asking for the opposite."""
    kind = PLAN_KINDS[proposal.plan.kind]
    if not kind.undoable_when_done:
        raise InvalidTransition("This plan is done.", remedy=(
            "Propose the version that ran before: it is under “Versions” on the dataflow's page." if kind.has_version
            else f"{PLAN_KINDS[kind.undone_by].verb} the dataflow instead."))
    require_calm(actor)


def _options_as_it_was(removal: Proposal) -> dict[str, Any]:
    """The options by which a removed dataflow comes back: it joins as it did last, with the schedule that it ran by.

    If all of it goes on for others, there is nothing to schedule.
    """
    before = plans_in_force([removal.dataflow_id]).get(str(removal.dataflow_id))
    ran_by = PlanRecord.objects.values_list("options", flat=True).get(pk=before.plan_id) if before else {}
    options = by_schedule(last_options(removal.dataflow), ran_by.get("schedule"))
    if "schedule" in options and problem_of(removal.dataflow, fresh=bool(options.get("fresh"))).blocked:
        return by_schedule(options, None)
    return options


def _undoing(proposal: Proposal, record: PlanRecord, *, generation: int, was_done: bool) -> Plan:
    plan = plan_of(proposal.plan)
    before = on_slots_there(plan.fragments_before)
    # What is under way is still where it was, and goes on there though the node is drained.
    back_to = () if was_done else [bundle.slot for fragment in before.values() for bundle in fragment.queries]
    estate = StoredEstate(generation, back_to=back_to)
    back = undo(estate, replace(plan, fragments_before=before))
    return compute(record, estate) if back is None else back


def record_progress(*, proposal_id: UUID | str, plan_id: UUID, progress: PlanProgress, at: datetime) -> Proposal:
    """Write how far a proposal is with one of its plans; done, failed or rolled back where the reports say so.

    A proposal that fails goes on being tried: when its queries recover it is executing again, then done.

    Parameters
    ----------
    plan_id : UUID
        The plan that was looked at: its own, or the one that takes it back.
    """
    with audited(actor=None, verb="proposal.progress") as audit:
        proposal = Proposal.objects.select_for_update(of=("self",)).select_related(
            "plan", "rollback_plan", "dataflow__team").get(pk=proposal_id)
        audit.subject, audit.team = proposal, proposal.dataflow.team
        before = proposal.status
        if before not in UNDER_WAY:
            audit.nothing_changed()
            return proposal
        record = proposal.rollback_plan or proposal.plan
        if plan_id != record.pk:  # it was rolled back since: some steps of both have the same keys
            audit.nothing_changed()
            return proposal
        plan = plan_of(record)
        begun = proposal.approved_at if before != ROLLING_BACK else None
        earlier, noted = proposal.progress, _progress(plan, progress, since=proposal.progress, begun=begun, at=at)
        proposal.progress = noted
        after = _status_after(before, plan, noted, at)
        if after == before:
            if noted != earlier:
                proposal.save(update_fields=["progress", "changed"])
            audit.nothing_changed()
            return proposal
        audit.details = {"before": before, "after": after, "failing": noted["failing"]}
        _finish(audit, proposal, after, at)
        return proposal


def drop_left_bundles(*, left_bundles: Collection[str]) -> list[str]:
    """Take bundles that have ended out of the estate, so that their slots are free; which there were.

    Only while nothing is being enacted: the steps of a plan are those of the bundles that it knows.
    """
    if not left_bundles:
        return []
    with audited(actor=None, verb="estate.drop_bundles") as audit:
        generation = lock_generation()
        dropped = [] if Proposal.objects.under_way().exists() else drop_bundles(left_bundles)
        if not dropped:
            audit.nothing_changed()
            return []
        audit.subject = EstateState.objects.get(pk=1)
        audit.details = {"bundles": dropped, "generation": generation + 1}
        jobs.republish()
        return dropped


def _progress(
    plan: Plan, progress: PlanProgress, *, since: Mapping, begun: datetime | None, at: datetime
) -> dict:
    """Steps in force, in the plan's order, for each failing fragment its cause and since when it fails, and how many
    seconds after the approval (``begun``; None for a roll-back) each step was first seen in force.

    Between two attempts a query is starting, not failing: it counts as failing until it has once run, so that
    patience runs out however often it is tried.
    """
    done = [step.key for step in plan.steps if step.key in progress.done]
    to_start = {step.fragment for step in plan.steps if kind_of(step).starts_query and step.key not in done}
    before = since.get("failing", {})
    waiting = {fragment: evidence for fragment, evidence in before.items() if fragment in to_start}
    new = {
        fragment: {"cause": cause, "since": before.get(fragment, {}).get("since", at.isoformat())}
        for fragment, cause in progress.failing.items() if fragment in plan.fragments_after | plan.fragments_before
    }
    seen_s = since.get("in_force_s", {})
    passed_s = {} if begun is None else dict.fromkeys(done, round(max(0.0, (at - begun).total_seconds()), 1))
    return {"done": done, "failing": dict(sorted((waiting | new).items())), "in_force_s": passed_s | seen_s}


def _status_after(before: str, plan: Plan, progress: Mapping, at: datetime) -> str:
    complete = len(progress["done"]) == len(plan.steps)
    if before == ROLLING_BACK:
        return ROLLED_BACK if complete else ROLLING_BACK
    if complete:
        return DONE
    waited_s = [
        (at - datetime.fromisoformat(failure["since"])).total_seconds() for failure in progress["failing"].values()
    ]
    if any(seconds > PATIENCE_S for seconds in waited_s):
        return FAILED
    return before if progress["failing"] else EXECUTING


def _finish(audit: Audit, proposal: Proposal, after: str, at: datetime) -> None:
    if after in {DONE, ROLLED_BACK}:
        proposal.finished_at = at
        if after == DONE:
            hold_switched(audit, proposal, at=at)
        DatabaseHistory().annotate(_annotations(proposal, after, at))
    move_proposal(proposal, after)
    record = proposal.rollback_plan or proposal.plan
    begun = SITE_PLAN_KINDS[record.kind].becomes
    if after in {DONE, ROLLED_BACK} and begun in dataflows.COMES_TO_REST and begun == proposal.dataflow.status:
        move_dataflow(proposal.dataflow, dataflows.COMES_TO_REST[begun])


def _annotations(proposal: Proposal, after: str, at: datetime) -> list[Annotation]:
    """The annotations of a plan: of its dataflow, and of each query that it changed."""
    kind, options = PLAN_KINDS[proposal.plan.kind], proposal.plan.options
    annotation_kind, text = kind.name, f"{kind.noun} of {proposal.dataflow.name}: {after.replace('_', ' ')}."
    if "alternate" in options and after == DONE:
        plan = plan_of(proposal.plan)
        annotation_kind, switched = SWITCHED, {options["task"]: options["alternate"], **options.get("along", {})}
        at_work = [plan.settings_after[step.fragment].alternates.get(step.task or "", "") for step in plan.steps]
        happens = "warms up" if any(warming_of(text) in switched.values() for text in at_work) else "is on"
        text = f"{', '.join(switched)} of {proposal.dataflow.name}: {', '.join(switched.values())} " \
            f"{happens if len(switched) == 1 else 'are on or warm up' if happens != 'is on' else 'are on'}, " + (
            f"because {options['reason']}." if options.get("reason") else f"by {proposal.author_name}.")
    queries = sorted({step.fragment for step in plan_of(proposal.plan).steps})
    subjects = [(DATAFLOW, str(proposal.dataflow_id)), *((QUERY, query) for query in queries)]
    return [Annotation(int(at.timestamp()), annotation_kind, part, subject, text) for part, subject in subjects]


def overtake(proposal: Proposal, *, error: WeirError | None = None) -> None:
    """Mark a proposal, and its plan, that the estate has moved past, with what has changed."""
    with audited(actor=None, verb="proposal.overtaken", subject=proposal, team=proposal.dataflow.team) as audit:
        plans.overtake(record=proposal.plan, error=error)
        move_proposal(proposal, STALE)
        if error is not None:
            audit.details = {"why": error.message}
