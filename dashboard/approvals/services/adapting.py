"""Carrying out what controllers decide as plans: a proposal without an author, reviewed or acted on, and its way back.

A controller changes what runs in no other way. Each command is done once for its round, under the lock of its row, and
only where the round still stands where the command saw it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.utils import timezone

from dashboard import jobs
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
from dashboard.approvals.moves import move_proposal
from dashboard.approvals.services.enacting import take_back
from dashboard.approvals.services.submission import open_proposal
from dashboard.audit.trail import Audit, audited
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import is_uuid
from dashboard.controllers.models import TURNED_DOWN, RoundRow
from dashboard.controllers.stored import policies_of, round_of
from dashboard.operations.generation import lock_generation
from dashboard.operations.models import CutTask
from dashboard.plans.kinds import SITE_PLAN_KINDS
from dashboard.plans.selectors import plan_of
from scheduler.controllers import values
from scheduler.controllers.chaining import FUSES_BELOW, UNDO, Chaining
from scheduler.controllers.protocol import Progress
from scheduler.controllers.registry import CONTROLLERS
from scheduler.controllers.values import ACTS, ASKED, BEGUN, WITHDRAWING, Begin, Command, RollBack
from scheduler.model.errors import InvalidTransition, WeirError
from scheduler.model.plan_kinds import DEFRAGMENT, ISOLATE, MOVE, PlanKind

_PHASES: Mapping[str, str] = {
    PENDING: "asked", STALE: "overtaken", UNPLANNABLE: "overtaken", EXECUTING: "enacting", FAILED: "failing",
    DONE: "in_force", ROLLING_BACK: "rolling_back", ROLLED_BACK: "rolled_back"}


@dataclass(frozen=True, slots=True)
class PlanActuator:
    """Carries a controller's decisions out as plans of one kind.

    Parameters
    ----------
    kind : PlanKind
        Which kind of plan; the target of a decision is the dataflow's id.
    options : callable
        What the plan is asked for, from the decision as it is stored.
    """

    kind: PlanKind
    options: Callable[[Mapping[str, Any]], dict[str, Any]]

    def progress(self, rows: Sequence[RoundRow]) -> Mapping[str, Progress]:
        """What has become of rounds, by their proposals."""
        proposals = {
            proposal.round_id: proposal for proposal in Proposal.objects.filter(round__in=rows).select_related("plan")}
        return {row.key: self._progress(row, proposals.get(row.pk)) for row in rows}

    def _progress(self, row: RoundRow, proposal: Proposal | None) -> Progress:
        if proposal is None:
            return Progress("declined" if row.phase == WITHDRAWING else "absent", row.stuck)
        if row.stuck and row.phase == values.ROLLING_BACK:
            return Progress("stuck", row.stuck)
        if proposal.status in {REJECTED, CANCELLED}:
            by_people = proposal.status == REJECTED or row.phase != WITHDRAWING
            return Progress("declined", _verdict(proposal), refused=by_people)
        return Progress(_PHASES.get(proposal.status, "absent"), _why(proposal))

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
                done = row.phase == values.ROLLING_BACK and _take_back(audit, row, proposal, generation)
            else:
                done = row.phase == WITHDRAWING and _withdraw(audit, proposal)
            if not done:
                audit.nothing_changed()

    def _propose(self, audit: Audit, row: RoundRow) -> bool:
        """Not while another plan is being enacted: each makes the figures that the next one is weighed by."""
        record = DataflowRecord.objects.select_related("team").get(pk=row.target)
        mine = Proposal.objects.filter(dataflow=record)
        if record.status not in SITE_PLAN_KINDS[self.kind.name].proposed_from or mine.open().exists() or (
                Proposal.objects.under_way().exists()):
            return False
        options = self.options(row.decision)
        proposal = open_proposal(audit, record, self.kind.name, options=options, turn=row)
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


def _why(proposal: Proposal) -> str:
    if proposal.status in {STALE, UNPLANNABLE}:
        return (proposal.plan.error or {}).get("message", "The estate has changed since it was proposed.")
    if proposal.status == FAILED:
        causes = [failure["cause"] for failure in proposal.progress.get("failing", {}).values()]
        return f"Its queries fail: {causes[0]}" if causes else "Its queries fail."
    return ""


@dataclass(frozen=True, slots=True)
class ChainActuator(PlanActuator):
    """Carries chaining out: a chain is made by a plan, and cut again by taking that plan back.

    About one that another controller or people have made, teams are asked that do not let chaining act.
    """

    def _progress(self, row: RoundRow, proposal: Proposal | None) -> Progress:
        undone = row.decision["arguments"].get(UNDO)
        if undone is None:
            if proposal is not None and proposal.status == ROLLED_BACK and _is_cut(row):
                return Progress("absent")  # by a round of its own, and not by people
            return PlanActuator._progress(self, row, proposal)
        made = _made_by(undone)
        if made is None or made.status in {REJECTED, CANCELLED}:
            return Progress("overtaken", "The chain is there no more.")
        if made.status == DONE:
            return _not_cut(row, made)
        return Progress(_UNDOING.get(made.status, "overtaken"), _why(made))

    def _propose(self, audit: Audit, row: RoundRow) -> bool:
        undone = row.decision["arguments"].get(UNDO)
        if undone is None:
            return PlanActuator._propose(self, audit, row)
        made = _made_by(undone, lock=True)
        if made is None or made.status != DONE or row.asked is not None:
            return False
        if not _is_of_chaining(made) and (teams := _teams_to_ask(row)):
            row.asked, row.asked_of = timezone.now(), teams
            row.save(update_fields=["asked", "asked_of"])
            return True
        if Proposal.objects.under_way().exists():
            return False
        try:
            take_back(audit, made, generation=lock_generation())
        except WeirError as error:  # it cannot be cut where it was: said once, and given up
            row.stuck = error.message
            row.save(update_fields=["stuck"])
            return False
        audit.details["why"] = row.decision["why"]
        return True


_UNDOING: Mapping[str, str] = {ROLLING_BACK: "enacting", ROLLED_BACK: "in_force", FAILED: "failing"}


def _is_cut(row: RoundRow) -> bool:
    """Whether a round of chaining has cut what this one made."""
    cuts = RoundRow.objects.filter(controller=row.controller, pk__gt=row.pk)
    return any(decision["arguments"].get(UNDO) == row.key for decision in cuts.values_list("decision", flat=True))


def cut_chain(audit: Audit, row: RoundRow) -> None:
    """Cut the chain that a round asked about, as everybody has said yes; the row is locked.

    Raises
    ------
    InvalidTransition, NotSubmitted, NotEnactable
        It is there no more, or cannot be cut where it was; or another plan is being enacted.
    """
    made = _made_by(row.decision["arguments"][UNDO], lock=True)
    if made is None or made.status != DONE:
        raise InvalidTransition("The chain is there no more.", remedy="Reload the page.")
    take_back(audit, made, generation=lock_generation())


def _not_cut(row: RoundRow, made: Proposal) -> Progress:
    """What has become of a round whose chain is still there."""
    if row.stuck:  # it cannot be cut where it was: not tried again with each turn of the loop
        return Progress("declined", row.stuck, refused=True)
    if row.phase == WITHDRAWING:
        return Progress("declined")
    if row.answer == TURNED_DOWN:
        return Progress("declined", f"It was turned down by {row.answered_by}.", refused=True)
    if row.asked is not None and row.phase == ASKED and _has_eased(made):
        return Progress("overtaken", f"The chain takes less than {FUSES_BELOW:g} cores by now.")
    return Progress("asked" if row.asked is not None and not row.answer else "absent")


def _has_eased(made: Proposal) -> bool:
    """Whether the queries that a plan has fused take less by now than what is fused."""
    fused = {step.fragment for step in plan_of(made.plan).steps}
    cores = [report.cpu for name, report in jobs.read_live((), {}).reports.queries() if name in fused]
    known = [each for each in cores if each is not None]
    return bool(known) and len(known) == len(cores) and sum(known) < FUSES_BELOW


def _teams_to_ask(row: RoundRow) -> list[str]:
    """The teams of a round that do not let the controller act; of its own team what was so when it began counts."""
    decision, policies = round_of(row).decision, policies_of(CONTROLLERS[row.controller])
    return [team for team in decision.teams if team in policies
            and (row.mode if team == decision.team else policies[team].mode) != ACTS]


def _is_of_chaining(made: Proposal) -> bool:
    return made.round is not None and made.round.controller == Chaining.name


def _made_by(what: str, *, lock: bool = False) -> Proposal | None:
    """The proposal of a round of chaining, by its key; or of a plan that others have made, by its id."""
    by = Q(plan=what) if is_uuid(what) else Q(round__key=what)
    rows = Proposal.objects.filter(by).select_related("plan", "dataflow__team", "round")
    return (rows.select_for_update(of=("self",)) if lock else rows).first()


@dataclass(frozen=True, slots=True)
class CutActuator(PlanActuator):
    """Carries isolation out. What it has cut once stays so, or is not cut again, for as long as the task runs."""

    def _propose(self, audit: Audit, row: RoundRow) -> bool:
        done = PlanActuator._propose(self, audit, row)
        if done:
            CutTask.objects.get_or_create(task_id=row.decision["arguments"]["head"])
        return done


DEFRAGMENTATION = PlanActuator(DEFRAGMENT, lambda decision: {"queries": decision["arguments"]["queries"].split()})
CHAINING = ChainActuator(
    DEFRAGMENT, lambda decision: {"queries": decision["arguments"]["queries"].split(), "for_latency": True})
DEPLOYMENT = PlanActuator(MOVE, lambda decision: {
    "query": decision["arguments"]["query"], "slot": decision["arguments"]["slot"],
    "along": decision["arguments"].get("along", "").split()})
ISOLATION = CutActuator(ISOLATE, lambda decision: {"slow": decision["arguments"]["slow"], "why": decision["why"]})
