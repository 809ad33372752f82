"""Carrying out what controllers decide as plans: a proposal without an author, reviewed or acted on, and its way back.

A controller changes what runs in no other way. Each command is done once for its round, under the lock of its row, and
only where the round still stands where the command saw it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import Q

from dashboard import jobs
from dashboard.approvals.drains import cause_of_failure
from dashboard.approvals.lifecycle import (
    CANCELLED,
    DONE,
    EXECUTING,
    FAILED,
    OPEN,
    PENDING,
    REJECTED,
    ROLLED_BACK,
    ROLLING_BACK,
    STALE,
    UNPLANNABLE,
)
from dashboard.approvals.models import Proposal, Review
from dashboard.approvals.proposal_states import move_proposal
from dashboard.approvals.services.enacting import take_back
from dashboard.approvals.services.submission import open_proposal
from dashboard.audit.trail import Audit, audited
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import is_uuid
from dashboard.controllers.models import RoundRow
from dashboard.controllers.stored_rounds import loop_time
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.operations.latency_control.batch_modes import is_still_wanted
from dashboard.operations.models import AlternateHold, BatchFigures, CutTask
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.selectors import plan_of
from dashboard.plans.site_plan_kinds import SITE_PLAN_KINDS
from scheduler.controllers import loop_values
from scheduler.controllers.changes import Aspect, BatchMode
from scheduler.controllers.controller_port import CommandProgress
from scheduler.controllers.loop_values import (
    ASKED,
    BEGUN,
    CHECKING,
    ENACTING,
    UNDO,
    WITHDRAWING,
    Begin,
    Command,
    RollBack,
)
from scheduler.guards.policy_sources import CONTROLLERS
from scheduler.latency.task_chaining import FUSES_BELOW
from scheduler.model.errors import WeirError
from scheduler.model.plan_kinds import DEFRAGMENT, ISOLATE, MOVE, SCHEDULE, SET, PlanKind
from scheduler.model.settings_of_fragments import USUAL

ASKED_FOR = timedelta(minutes=1)
_PHASES: Mapping[str, str] = {
    PENDING: "asked", STALE: "overtaken", UNPLANNABLE: "overtaken", EXECUTING: "enacting", FAILED: "failing",
    DONE: "in_force", ROLLING_BACK: "rolling_back", ROLLED_BACK: "rolled_back"}


@dataclass(frozen=True, slots=True)
class PlanActuator:
    """Carries a controller's decisions out as plans of one kind.

    Parameters
    ----------
    kind : PlanKind
        The kind of plan; the target of a decision is the dataflow's id.
    options : callable
        The options of the plan, from the stored decision; None if its subject is gone.
    outdated : callable, optional
        The reason to give up a round whose plan waits for its reviewers; empty without one.
    lapsed : callable, optional
        The reason why the plan's changes no longer hold, though nobody took it back; empty if they hold.
    others : mapping of Aspect to PlanActuator, optional
        By aspect that a decision changes: the actuator, if it needs a plan of another kind.
    """

    kind: PlanKind
    options: Callable[[Mapping[str, Any]], dict[str, Any] | None]
    outdated: Callable[[RoundRow, Proposal], str] = lambda row, proposal: ""
    lapsed: Callable[[Proposal], str] = lambda proposal: ""
    others: Mapping[Aspect, PlanActuator] = field(default_factory=dict)

    def progress(self, rows: Sequence[RoundRow]) -> Mapping[str, CommandProgress]:
        """The progress of rounds, by their proposals."""
        proposals = {
            proposal.round_id: proposal for proposal in Proposal.objects.filter(round__in=rows).select_related("plan")}
        return {row.key: self._progress(row, proposals.get(row.pk)) for row in rows}

    def _progress(self, row: RoundRow, proposal: Proposal | None) -> CommandProgress:
        if proposal is None:
            if row.stuck and row.phase == BEGUN:
                return CommandProgress("overtaken", row.stuck)
            return CommandProgress("declined" if row.phase == WITHDRAWING else "absent", row.stuck)
        if row.stuck and row.phase == loop_values.ROLLING_BACK:
            return CommandProgress("stuck", row.stuck)
        if proposal.status in {REJECTED, CANCELLED}:
            by_people = proposal.status == REJECTED or row.phase != WITHDRAWING
            if UNDO in row.decision["arguments"] and not proposal.plan.document:  # it cannot be cut where it was
                return CommandProgress("declined", _why_none(proposal), refused=True)
            return CommandProgress("declined", _verdict(proposal) if by_people else "", refused=by_people)
        if proposal.status == PENDING and row.phase == ASKED and (reason := self.outdated(row, proposal)):
            return CommandProgress("overtaken", reason)
        if row.phase in {ENACTING, CHECKING, loop_values.ROLLING_BACK} and proposal.status in {
            EXECUTING, FAILED, DONE} and (
                reason := self.lapsed(proposal)):
            return CommandProgress("rolled_back", reason)
        return CommandProgress(_PHASES.get(proposal.status, "absent"), _why(proposal))

    def busy(self) -> Mapping[str, str]:
        """Dataflows about which a proposal is open or under way."""
        open_ones = Proposal.objects.filter(status__in=OPEN | {EXECUTING, FAILED, ROLLING_BACK})
        return {
            str(dataflow_id): "A proposal about it is open."
            for dataflow_id in open_ones.values_list("dataflow_id", flat=True)}

    def carry_out(self, command: Command) -> None:
        """Propose the plan, withdraw the proposal, or take the plan back; where that cannot be, why is noted."""
        try:
            self._carry_out(command)
        except WeirError as error:
            if not isinstance(command, RollBack):
                raise
            with audited(actor=None, verb="controller.not_taken_back") as audit:
                row = RoundRow.objects.select_for_update(of=("self",)).get(key=command.round.key)
                row.stuck = error.message
                row.save(update_fields=["stuck"])
                audit.subject, audit.team, audit.details = row, row.team, {"why": error.message}

    def _carry_out(self, command: Command) -> None:
        verb = f"dataflow.recommend_{command.round.controller}" if isinstance(command, Begin) else (
            "proposal.roll_back" if isinstance(command, RollBack) else "proposal.cancel")
        with audited(actor=None, verb=verb) as audit:
            generation = lock_generation()
            row = RoundRow.objects.select_for_update(of=("self",)).get(key=command.round.key)
            proposal = Proposal.objects.select_for_update(of=("self",)).select_related(
                "plan", "dataflow__team").filter(round=row).first()
            audit.subject, audit.team = row, row.team
            if isinstance(command, Begin):
                done = row.phase == BEGUN and proposal is None and self._propose(audit, row)
            elif proposal is None:
                done = False
            elif isinstance(command, RollBack):
                done = row.phase == loop_values.ROLLING_BACK and _take_back(audit, row, proposal, generation)
            else:
                done = row.phase == WITHDRAWING and _withdraw(audit, proposal)
            if not done:
                audit.nothing_changed()

    def _propose(self, audit: Audit, row: RoundRow) -> bool:
        """Not while another plan is being enacted: each makes the figures that the next one is weighed by."""
        record = DataflowRecord.objects.select_related("team").get(pk=row.target)
        mine = Proposal.objects.filter(dataflow=record)
        actuator = self.others.get(Aspect(row.decision["changes"][0]["aspect"]), self)
        if record.status not in SITE_PLAN_KINDS[actuator.kind.name].proposed_from or mine.open().exists() or (
                Proposal.objects.under_way().exists()):
            return False
        options = actuator.options(row.decision)
        if options is None:
            row.stuck = "Its dataflow or task no longer exists."
            row.save(update_fields=["stuck"])
            return False
        proposal = open_proposal(audit, record, actuator.kind.name, options=options, loop_round=row)
        audit.subject, audit.details = record, {"proposal": str(proposal.pk), "round": row.key}
        return True


def _take_back(audit: Audit, row: RoundRow, proposal: Proposal, generation: int) -> bool:
    if proposal.status not in {EXECUTING, FAILED, DONE}:
        return False
    if Proposal.objects.under_way().exclude(pk=proposal.pk).exists():
        return False  # what has just changed is not handed over; the next step tries again
    take_back(audit, proposal, generation=generation)
    audit.details["why"] = row.why
    return True


def _withdraw(audit: Audit, proposal: Proposal) -> bool:
    if proposal.status not in OPEN:
        return False
    move_proposal(proposal, CANCELLED)
    audit.subject, audit.team = proposal, proposal.dataflow.team
    return True


def _verdict(proposal: Proposal) -> str:
    review = Review.objects.filter(proposal=proposal, verdict="reject").select_related("reviewer").last()
    return f"{review.reviewer.username} turned it down: {review.comment}" if review else "Its proposal was taken back."


def _why_none(proposal: Proposal) -> str:
    return (proposal.plan.error or {}).get("message", "The estate has changed since it was proposed.")


def _why(proposal: Proposal) -> str:
    if proposal.status in {STALE, UNPLANNABLE}:
        return _why_none(proposal)
    if proposal.status == FAILED:
        return f"Its queries fail. {cause_of_failure(proposal)}".strip()
    return ""


def _chain(decision: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options that chaining asks for: queries to fuse, or that what a plan fused is cut again where it was."""
    undone = decision["arguments"].get(UNDO)
    if undone is None:
        return {"queries": decision["arguments"]["queries"].split(), "for_latency": True}
    made = _made_by(undone)
    return None if made is None else {"undone": str(made.plan_id), "reason": decision["why"]}


def _made_by(plan_or_round: str) -> Proposal | None:
    """The proposal of a round of chaining, by its key; or of a plan that others have made, by its id."""
    made_by = Q(plan=plan_or_round) if is_uuid(plan_or_round) else Q(round__key=plan_or_round)
    return Proposal.objects.filter(made_by, status=DONE).first()


def _has_eased(row: RoundRow, proposal: Proposal) -> str:
    """The reason against a cut whose queries would take less by now than what is fused; empty where they do not."""
    if UNDO not in row.decision["arguments"]:
        return ""
    fused = plan_of(proposal.plan).fragments_before.keys()
    cores = [report.cpu for name, report in jobs.read_live((), {}).reports.queries() if name in fused]
    measured = [core_count for core_count in cores if core_count is not None]
    eased = bool(measured) and len(measured) == len(cores) and sum(measured) < FUSES_BELOW
    return f"The chain takes less than {FUSES_BELOW:g} cores by now." if eased else ""


def _setting(decision: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the controller of open batches asks for."""
    arguments = decision["arguments"]
    intervals = (entry.rpartition("=") for entry in arguments["trigger_ms"].split())
    return {
        "real_time": {change["subject"]: change["after"] == BatchMode.OPEN for change in decision["changes"]},
        "trigger_ms": {name: int(value) for name, _, value in intervals},
        "cores_delta": float(arguments["cores_delta"]), "reason": decision["why"]}


def _not_chosen(row: RoundRow, proposal: Proposal) -> str:
    """The reason against a setting where others would be chosen by now; empty where they would not, and for the first
    minute: what is worth it only now and then is not asked about again and again."""
    at = loop_time()
    if at - row.begun < ASKED_FOR:
        return ""
    real_time = {name: settings.real_time for name, settings in plan_of(proposal.plan).settings_after.items()}
    return "" if is_still_wanted(real_time, at=at) else "It would not be chosen any more."


def _set_back(proposal: Proposal) -> str:
    """The reason why the queries of a setting are set to what they were before, though nothing took it back; empty
    where they are not."""
    plan, settings = plan_of(proposal.plan), current_estate().settings
    if any(settings.get(name, USUAL).real_time != before.real_time for name, before in plan.settings_before.items()):
        return ""
    refusals = BatchFigures.objects.filter(pk__in=list(plan.settings_after)).exclude(refusal="")
    sentences = [
        f"The batches of {name} cannot stay open: {reason}." for name, reason in refusals.values_list("pk", "refusal")]
    return " ".join(sentences) or "Its batches cannot stay open any more."


def _switches(decision: Mapping[str, Any]) -> dict[str, Any]:
    """The options that adaptation asks for: tasks that are switched together, as a policy source asks for one."""
    (task, alternate), *along = json.loads(decision["arguments"]["alternates"]).items()
    return {"task": task, "alternate": alternate, "along": dict(along), "reason": decision["why"],
            "source": CONTROLLERS}


def _held_meanwhile(row: RoundRow, proposal: Proposal) -> str:
    """The holders of tasks that were to be switched; empty where nobody does."""
    tasks = [change["subject"] for change in row.decision["changes"]]
    hold = AlternateHold.objects.filter(pk__in=tasks, until__gt=loop_time()).select_related("by").first()
    return "" if hold is None else f"{hold.by.username} holds an alternate of these tasks by hand."


@dataclass(frozen=True, slots=True)
class CutActuator(PlanActuator):
    """Carries isolation out. What it has cut once stays so, or is not cut again, for as long as the task runs."""

    def _propose(self, audit: Audit, row: RoundRow) -> bool:
        done = PlanActuator._propose(self, audit, row)
        if done:
            CutTask.objects.get_or_create(task_id=row.decision["arguments"]["head"])
        return done


RESCHEDULING = PlanActuator(SCHEDULE, lambda decision: {
    "schedule": ScheduleChoice.of(**json.loads(decision["arguments"]["schedule"])).as_option()})
PLAN_ACTUATORS: Mapping[str, PlanActuator] = {
    "adaptation": PlanActuator(
        SET, _switches, outdated=_held_meanwhile, others={Aspect.SCHEDULE: RESCHEDULING, Aspect.KEYS: RESCHEDULING}),
    "chaining": PlanActuator(DEFRAGMENT, _chain, outdated=_has_eased),
    "defragmentation": PlanActuator(
        DEFRAGMENT, lambda decision: {"queries": decision["arguments"]["queries"].split()}),
    "deployment": PlanActuator(MOVE, lambda decision: {
        "query": decision["arguments"]["query"], "slot": decision["arguments"]["slot"],
        "along": decision["arguments"].get("along", "").split()}),
    "isolation": CutActuator(
        ISOLATE, lambda decision: {"slow": decision["arguments"]["slow"], "why": decision["why"]}),
    "open_batches": PlanActuator(SET, _setting, outdated=_not_chosen, lapsed=_set_back)}
