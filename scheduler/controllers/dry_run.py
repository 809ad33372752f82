"""A dry run: the loop over what was, as if a controller had acted, before it is turned on.

Nothing was changed then, so nobody knows what a change would have brought: each counts as in force at once, and its
promise as kept when its time is up. What it changed stays changed for the rest of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .changes import Aspect, Change, ChangeValue
from .engine import step
from .protocol import Controller, Effect, Evaluation, Observations, Progress, Verdict
from .values import CHECKING, Decision, Policy, Promise, Reason, Round, State


@dataclass(frozen=True, slots=True)
class Frame:
    """The evidence that there was at one moment, in seconds since the epoch."""

    at_s: float
    evidence: Any


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a controller would have done, the oldest first, and why it would have left other things at its moments."""

    rounds: tuple[Round, ...]
    reasons: tuple[tuple[float, Reason], ...]
    frames: int


def dry_run(controller: Controller, frames: Iterable[Frame], policies: Mapping[str, Policy]) -> DryRun:
    """Play a controller over frames, the oldest first, with these policies.

    Parameters
    ----------
    policies : mapping of str to Policy
        By team; also those that are off, whose dataflows then are left out.
    """
    playing, state = _Playing(controller), State()
    rounds: dict[str, Round] = {}
    reasons: list[tuple[float, Reason]] = []
    count = 0
    for frame in frames:
        count += 1
        for observations in _moments(frame):
            playing.held = {
                change.what: change.after for turn in rounds.values() for change in turn.decision.changes}
            progress = {turn.key: Progress("in_force") for turn in state.rounds if turn.is_open}
            effects = {
                turn.key: Effect(turn.changed_s) for turn in state.rounds if turn.phase == CHECKING}
            result = step(
                playing, state, replace(observations, progress=progress, effects=effects), policies, now_s=frame.at_s)
            state = result.state
            rounds |= {turn.key: turn for turn in state.rounds}
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

    def _value(self, change: Change) -> ChangeValue:
        return self.held.get(change.what, self._first[change.what])

    def check(self, promise: Promise, effect: Effect) -> tuple[Verdict, str]:
        return "kept", promise.text

    def rollback(self, decision: Decision) -> tuple[Change, ...]:
        return self._controller.rollback(decision)
