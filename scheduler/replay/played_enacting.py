"""Enacting in played time: a decision becomes a plan, by the rules of plans, and what it changed can be taken back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.applying import apply_plan
from scheduler.controllers.changes import Aspect, AspectChange, BatchMode, Carriage
from scheduler.controllers.controller_port import CommandProgress
from scheduler.controllers.loop_values import ACTS, UNDO, Begin, Command, Decision, Policy, RollBack, Round
from scheduler.defragmenting import plan_defragmentation
from scheduler.isolating import plan_isolation
from scheduler.model.errors import WeirError
from scheduler.model.estate import Estate
from scheduler.model.plan import Plan
from scheduler.moving import plan_move
from scheduler.reuse.defragment import DefragmentRule
from scheduler.setting import plan_settings, plan_switch
from scheduler.undoing import undo

from .played_profiles import PlayedProfiles, TaskCost
from .setup import ChangeMade, PlayedProfile, ReplaySetup

ANY_GAIN = DefragmentRule(ratio=0.0)  # whether a step is worth it was the controller's to weigh


@dataclass
class _Carried:
    """The progress of one round's commands."""

    loop_round: Round
    phase: str
    due_s: float = 0.0
    plan: Plan | None = None
    why: str = ""
    before: PlayedProfile | None = None  # of what was measured again

    @property
    def kind(self) -> str:
        """The kind of a measured profile; empty where the round changes something else."""
        change = self.loop_round.decision.changes[0]
        return change.subject if change.aspect is Aspect.PROFILE else ""


@dataclass
class PlayedActuator:
    """Carries commands out in an estate of its own: once for each round's key, and one plan at a time.

    ``estate`` is what is to run; a plan is in force some time after it was enacted, a profile when it was measured.
    What teams are asked is approved after a while, or never. ``apart`` are the heads of what was cut for being slow.
    """

    setup: ReplaySetup
    estate: Estate
    profiles: PlayedProfiles
    cost_of: Callable[[str], TaskCost | None]
    apart: set[str] = field(default_factory=set)
    changes: list[ChangeMade] = field(default_factory=list)
    _carried: dict[str, _Carried] = field(default_factory=dict)

    def progress(self) -> dict[str, CommandProgress]:
        """The progress of rounds, by key."""
        return {key: CommandProgress(carried.phase, carried.why) for key, carried in self._carried.items()}

    def busy(self) -> Mapping[str, str]:
        """Dataflows about which a proposal is open or under way."""
        return {
            carried.loop_round.decision.target: "A proposal about it is open." for carried in self._carried.values()
            if carried.phase in {"asked", "enacting", "rolling_back"}}

    def carry_out(self, command: Command, *, policies: Mapping[str, Policy], now_s: float) -> None:
        """Enact or propose the change of a round, give it up, or take it back; nothing where that is done."""
        carried, loop_round = self._carried.get(command.round.key), command.round
        if isinstance(command, Begin):
            if carried is None:
                self._begin(loop_round, policies, now_s)
        elif isinstance(command, RollBack):
            if carried is not None and carried.phase in {"enacting", "in_force"} and (
                    carried.kind or not self._is_under_way(carried)):
                self._take_back(carried, command.changes, now_s)
        elif carried is None:
            self._carried[loop_round.key] = _Carried(loop_round, "declined")
        elif carried.phase == "asked":
            carried.phase = "declined"

    def pass_until(self, now_s: float) -> None:
        """Let come what is due: approvals, and plans in force."""
        for carried in self._carried.values():
            if carried.phase == "asked" and now_s >= carried.due_s and (
                    carried.kind or not self._is_under_way(carried)):
                self._enact(carried, now_s)
            elif carried.phase == "enacting" and now_s >= carried.due_s:
                carried.phase = "in_force"
                if carried.kind:
                    self._end_measuring(carried, now_s)
            elif carried.phase == "rolling_back" and now_s >= carried.due_s:
                carried.phase = "rolled_back"

    def made_by(self, key: str) -> Plan | None:
        """The plan of a round, where it is in force."""
        carried = self._carried.get(key)
        return carried.plan if carried is not None and carried.phase == "in_force" else None

    def _is_under_way(self, besides: _Carried | None = None) -> bool:
        return any(carried.phase in {"enacting", "rolling_back"} and not carried.kind and carried is not besides
                   for carried in self._carried.values())

    def _begin(self, loop_round: Round, policies: Mapping[str, Policy], now_s: float) -> None:
        """Not while another plan is being enacted: it is commanded again. Measuring is no plan."""
        asks = loop_round.mode != ACTS or any(
            policies.get(team, Policy()).mode != ACTS for team in loop_round.decision.touched)
        carried = _Carried(loop_round, "asked")
        if not asks and not carried.kind and self._is_under_way():
            return
        self._carried[loop_round.key] = carried
        after_s = self.setup.approved_after_s
        carried.due_s = float("inf") if after_s is None else now_s + after_s
        if not asks:
            self._enact(carried, now_s)

    def _enact(self, carried: _Carried, now_s: float) -> None:
        decision = carried.loop_round.decision
        if carried.kind:
            slot, why_not = self.profiles.where_measured(decision.target, self.estate)
            carried.phase, carried.why = ("enacting", "") if slot else ("overtaken", why_not)
            carried.due_s = now_s + (self.profiles.begin(carried.kind, slot) if slot else 0.0)
            return
        try:
            carried.plan = _PLANS[decision.changes[0].aspect](self, decision)
        except WeirError as error:
            carried.phase, carried.why = "overtaken", error.message
            return
        self._apply(carried, carried.plan, decision.changes, now_s, phase="enacting")

    def _take_back(self, carried: _Carried, changes: Sequence[AspectChange], now_s: float) -> None:
        if carried.kind:
            self._use_again(carried, changes, now_s)
            return
        try:
            back = undo(self.estate, carried.plan) if carried.plan is not None else None
        except WeirError as error:
            carried.phase, carried.why = "stuck", error.message
            return
        if back is not None:
            self._apply(carried, back, changes, now_s, phase="rolling_back")

    def _end_measuring(self, carried: _Carried, now_s: float) -> None:
        carried.before = self.profiles.end(carried.kind, self.cost_of)
        if carried.before is None:
            carried.phase, carried.why = "declined", "Nothing that runs could be measured."
            return
        loop_round = carried.loop_round
        self.changes += [ChangeMade(now_s, loop_round.key, change) for change in loop_round.decision.changes]

    def _use_again(self, carried: _Carried, changes: Sequence[AspectChange], now_s: float) -> None:
        carried.phase = "rolled_back"
        if carried.before is None:
            self.profiles.give_up(carried.kind)
            return
        self.profiles.use_again(carried.before)
        self.changes += [ChangeMade(now_s, carried.loop_round.key, change, is_back=True) for change in changes]

    def _apply(
        self, carried: _Carried, plan: Plan, changes: Sequence[AspectChange], now_s: float, *, phase: str
    ) -> None:
        self.estate = apply_plan(self.estate, plan)
        carried.phase, carried.due_s = phase, now_s + self.setup.enacts_s
        self.changes += [
            ChangeMade(now_s, carried.loop_round.key, change, is_back=phase == "rolling_back") for change in changes]

    # Decisions as plans, by what they change --------------------------------------------------------------------------

    def _moved(self, decision: Decision) -> Plan:
        arguments = decision.arguments
        return plan_move(
            self.estate, decision.target, query=arguments["query"], slot=arguments["slot"],
            along=arguments["along"].split(), task_types=self.setup.task_types, prices=self.setup.prices,
            why=decision.why)

    def _set(self, decision: Decision) -> Plan:
        return plan_settings(
            self.estate, decision.target,
            real_time={change.subject: change.after is BatchMode.OPEN for change in decision.changes},
            task_types=self.setup.task_types, prices=self.setup.prices, why=decision.why)

    def _switched(self, decision: Decision) -> Plan:
        (task, alternate), *along = json.loads(decision.arguments["alternates"]).items()
        return plan_switch(
            self.estate, decision.target, task=task, alternate=alternate, along=dict(along),
            task_types=self.setup.task_types, prices=self.setup.prices, why=decision.why)

    def _joined_or_cut(self, decision: Decision) -> Plan:
        """Queries that become one; or, where a stream gets a channel, what made them one is undone, or a slow task cut
        out."""
        if "slow" in decision.arguments:
            self.apart.add(decision.arguments["head"])
            return plan_isolation(
                self.estate, decision.target, slow=decision.arguments["slow"], task_types=self.setup.task_types,
                prices=self.setup.prices, why=decision.why)
        if decision.changes[0].after is Carriage.CHANNEL:
            made = self.made_by(decision.arguments[UNDO])
            back = None if made is None else undo(self.estate, made)
            if back is None:
                raise WeirError("What fused the queries is not in force.", remedy="There is nothing to cut.")
            return back
        return plan_defragmentation(
            self.estate, decision.target, path=decision.arguments["queries"].split(), rule=ANY_GAIN,
            task_types=self.setup.task_types, prices=self.setup.prices)


_PLANS: Mapping[Aspect, Callable[[PlayedActuator, Decision], Plan]] = {
    Aspect.ALTERNATE: PlayedActuator._switched, Aspect.SLOT: PlayedActuator._moved,
    Aspect.BATCHES: PlayedActuator._set,
    Aspect.STREAM: PlayedActuator._joined_or_cut, Aspect.TASKS: PlayedActuator._joined_or_cut}
