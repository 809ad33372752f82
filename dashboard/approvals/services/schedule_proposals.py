"""Proposing a schedule: for a submission that is not decided yet, or another one for what runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from dashboard.approvals.lifecycle import COMPUTING, PENDING, STALE, UNPLANNABLE
from dashboard.approvals.models import Proposal
from dashboard.approvals.services.enacting import require_calm
from dashboard.approvals.services.submission import choose, open_proposal, require_at_rest
from dashboard.audit.trail import Audit, audited
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.core.state_words import words
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.joining_options import begin_in_words, options_of
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.site_plan_kinds import SITE_PLAN_KINDS
from dashboard.plans.stale_profiles import profiles_since
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role, viewer_of
from scheduler.model.errors import InvalidTransition
from scheduler.model.plan_kinds import SCHEDULE, names_where


def propose_schedule(*, actor: User, dataflow_id: UUID | str, choice: ScheduleChoice | None) -> Proposal:
    """Propose that a dataflow runs by a schedule; its plan is computed, and reviewed like any other.

    An undecided submission is planned anew with the schedule (without one if ``choice`` is None). For a running
    dataflow another schedule is proposed, and replaces an undecided proposal of one.

    A choice without a feasible schedule is refused now: `SchedulingProblem.require` says why. The plan itself is
    computed later, from the estate as it is then.

    Parameters
    ----------
    actor : User
        At least engineer in the dataflow's team.
    choice : ScheduleChoice, optional
        The pair, rate and routing. The slots follow with the plan, from profiles and estate as they are then.

    Raises
    ------
    InvalidTransition
        The dataflow neither runs nor waits for a decision, or a plan of it is being enacted.
    MissingProfile, RateNotHeld, InsufficientSlots, NotEnactable
        There is no such schedule here.
    InvalidBeginning
        The submission is to begin with older events; a scheduled one begins now.
    """
    if choice is not None:  # before the estate is locked: it takes up to half a second
        viewer = viewer_of(actor)
        dataflow = dataflow_for(viewer, dataflow_id)
        require_role(viewer, dataflow.team, Role.ENGINEER)
        problem_of(dataflow, routing=choice.routing).require(choice.pair, choice.rate_per_s)
    with audited(actor=actor, verb="dataflow.propose_schedule") as audit:
        lock_generation()
        viewer = audit.viewer
        record = dataflow_for(viewer, dataflow_id)
        require_role(viewer, record.team, Role.ENGINEER)
        proposal = _submission(audit, record, choice) or _of_running(audit, record, choice)
        audit.subject, audit.team = record, record.team
        audit.details |= {"proposal": str(proposal.pk)} | (choice.as_option() if choice else {})
        return proposal


def _submission(audit: Audit, record: DataflowRecord, choice: ScheduleChoice | None) -> Proposal | None:
    """Plan an undecided submission anew; None where the dataflow is none."""
    proposal = Proposal.objects.open().filter(
        dataflow=record, plan__kind__in=names_where("has_document")).select_related("plan").first()
    if proposal is None:
        return None
    before = proposal.plan.options
    _replan(audit, proposal, options_of(
        fresh=bool(before.get("fresh")), begin=begin_in_words(before),
        schedule=choice.as_option() if choice else None, begin_from=before.get("begin_from", "")))
    return proposal


def _of_running(audit: Audit, record: DataflowRecord, choice: ScheduleChoice | None) -> Proposal:
    if choice is None:
        raise InvalidTransition(
            f"{record.name} is {words(record.status)}: it cannot be submitted without its schedule any more.",
            remedy="Choose another schedule, or remove it and submit it again.", status=record.status)
    options = {"schedule": choice.as_option()}
    proposal = Proposal.objects.open().filter(dataflow=record, plan__kind=SCHEDULE.name).select_related("plan").first()
    if proposal is not None:
        _replan(audit, proposal, options)
        return proposal
    require_at_rest(record, SITE_PLAN_KINDS[SCHEDULE.name].proposed_from, SCHEDULE.name)
    require_calm(audit.actor)
    return open_proposal(audit, record, SCHEDULE.name, options=options)


def _replan(audit: Audit, proposal: Proposal, options: Mapping[str, Any]) -> None:
    is_same = dict(options) == dict(proposal.plan.options)
    if is_same and (proposal.status == COMPUTING or (proposal.status == PENDING and not profiles_since(proposal.plan))):
        audit.nothing_changed()
        return
    if proposal.status not in {PENDING, STALE, UNPLANNABLE}:
        raise InvalidTransition(
            "Its plan is being computed.", remedy="Wait a moment, then choose again.", status=proposal.status)
    choose(actor=audit.actor, proposal=proposal, options=options)
