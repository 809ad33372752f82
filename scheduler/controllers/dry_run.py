"""A dry run: the loop over what was, as if a controller had acted, before it is turned on.

Nothing was changed then, so nobody knows what a change would have brought: each counts as in force at once, and its
promise as kept when its time is up. What it changed stays changed for the rest of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .changes import Aspect, AspectChange, ChangeValue
from .control_loop import step
from .controller_port import CommandProgress, Controller, Effect, Evaluation, Observations, Verdict
from .loop_values import CHECKING, ControllerPromise, Decision, IdleReason, LoopState, Policy, Round


@dataclass(frozen=True, slots=True)
class Frame:
    """The evidence that there was at one moment, in seconds since the epoch."""

    at_s: float
    evidence: Any


@dataclass(frozen=True, slots=True)
class DryRun:
    """The decisions that a controller would have made, the oldest first, and its reasons against others."""

    rounds: tuple[Round, ...]
    reasons: tuple[tuple[float, IdleReason], ...]
    frames: int


def dry_run(controller: Controller, frames: Iterable[Frame], policies: Mapping[str, Policy]) -> DryRun:
    """Play a controller over frames, the oldest first, with these policies.

    Parameters
    ----------
    policies : mapping of str to Policy
        By team. Dataflows of teams whose mode is off are left out.
    """
    playing, state = _Playing(controller), LoopState()
    rounds: dict[str, Round] = {}
    reasons: list[tuple[float, IdleReason]] = []
    count = 0
    for frame in frames:
        count += 1
        for observations in _moments(frame):
            playing.held = {
                change.what: change.after for loop_round in rounds.values() for change in loop_round.decision.changes}
            progress = {
                loop_round.key: CommandProgress("in_force") for loop_round in state.rounds if loop_round.is_open}
            effects = {
                loop_round.key: Effect(loop_round.changed_s) for loop_round in state.rounds
                if loop_round.phase == CHECKING}
            result = step(
                playing, state, replace(observations, progress=progress, effects=effects), policies, now_s=frame.at_s)
            state = result.state
            rounds |= {loop_round.key: loop_round for loop_round in state.rounds}
            reasons += [(frame.at_s, reason) for reason in result.reasons]
    return DryRun(tuple(rounds.values()), tuple(reasons), count)


def _moments(frame: Frame) -> tuple[Observations, Observations]:
    """First what is decided, then, at the same moment, that it is in force."""
    return Observations(frame.evidence, measured_s=frame.at_s), Observations()


class _Playing:
    """A controller whose decisions leave out what it has changed already, and whose promises all come."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.name, self.title, self.about = controller.name, controller.title, controller.about
        self.reads, self.every_s, self.usual = controller.reads, controller.every_s, controller.usual
        self.held: Mapping[tuple[Aspect, str], ChangeValue] = {}
        self._first: dict[tuple[Aspect, str], ChangeValue] = {}  # what something had when it was first to be changed

    def evaluate(self, evidence: Any, policies: Mapping[str, Policy]) -> Evaluation:
        evaluation = self._controller.evaluate(evidence, policies)
        for decision in evaluation.decisions:
            for change in decision.changes:
                self._first.setdefault(change.what, change.before)
        return replace(evaluation, decisions=tuple(
            replace(decision, changes=changes) for decision in evaluation.decisions
            if (changes := tuple(change for change in decision.changes if self._value(change) != change.after))))

    def _value(self, change: AspectChange) -> ChangeValue:
        return self.held.get(change.what, self._first[change.what])

    def check(self, promise: ControllerPromise, effect: Effect) -> tuple[Verdict, str]:
        return "kept", promise.text

    def rollback(self, decision: Decision) -> tuple[AspectChange, ...]:
        return self._controller.rollback(decision)
