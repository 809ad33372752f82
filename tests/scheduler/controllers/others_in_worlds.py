"""Isolation and re-measuring among the controllers of the played worlds: the real ones, and one who fuses what is cut.

A chain is slow while its load is high, and a profile is far from what runs while its load is far from the usual one; so
both find something to do again and again, and whatever they did looks wrong soon after.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import Any

from scheduler.controllers.changes import Aspect, AspectChange, Carriage
from scheduler.controllers.controller_port import LEAST_SAMPLES, Effect, Evaluation, MeasureSample, Verdict
from scheduler.controllers.loop_values import OFF, ControllerPromise, Decision, Policy, PromiseBound
from scheduler.controllers.remeasuring import ProfileEvidence, ProfileReading, Remeasuring
from scheduler.controllers.task_isolation import HoldUp, HoldUps, Isolating, Waiting
from scheduler.performance.drift import BOUND, Drift

from .followers import LOAD, TEAMS

CHAINS = tuple(f"c{number}" for number in range(3))
PROFILES = tuple(f"p{number}" for number in range(3))
OWNERS = dict(zip((*CHAINS, *PROFILES), TEAMS * 2, strict=True))
Seen = Mapping[str, tuple[float, Any]]  # by subject, its load and its value


class RealInWorlds:
    """A controller as it is, over evidence that worlds make of loads."""

    about = reads = ""
    alongside = False

    def __init__(self, controller: Isolating | Remeasuring, subjects: tuple[str, ...], aspect: Aspect) -> None:
        self._controller, self.subjects, self._aspect = controller, subjects, aspect
        self.name = self.title = controller.name
        self.every_s, self.usual = controller.every_s, controller.usual

    def on(self, values: Mapping[tuple[str, str], Any], subject: str) -> Any:
        """What carries a chain's stream, or which profile there is."""
        return values[self._aspect, stream_of(subject) if subject in CHAINS else subject]

    def check(self, promise: ControllerPromise, effect: Effect) -> tuple[Verdict, str]:
        return self._controller.check(promise, effect)

    def rollback(self, decision: Decision) -> tuple[AspectChange, ...]:
        return self._controller.rollback(decision)


class WorldIsolation(RealInWorlds):
    """Cuts chains that are whole and have much to do."""

    def __init__(self) -> None:
        super().__init__(Isolating(), CHAINS, Aspect.STREAM)

    def evaluate(self, evidence: Seen, policies: Mapping[str, Policy]) -> Evaluation:
        return self._controller.evaluate(HoldUps(tuple(
            _hold_up(subject, load) for subject, (load, carriage) in sorted(evidence.items())
            if carriage == Carriage.WITHIN and math.isfinite(load) and load > LOAD)), policies)


class WorldRemeasuring(RealInWorlds):
    """Measures again what load makes look wrong."""

    def __init__(self) -> None:
        super().__init__(Remeasuring(), PROFILES, Aspect.PROFILE)

    def evaluate(self, evidence: Seen, policies: Mapping[str, Policy]) -> Evaluation:
        return self._controller.evaluate(ProfileEvidence(tuple(
            _reading(subject, load, profile) for subject, (load, profile) in sorted(evidence.items())
            if math.isfinite(load) and load > 0)), policies)

    def check(self, promise: ControllerPromise, effect: Effect) -> tuple[Verdict, str]:
        """As the site tells it: one comparison, which rests on many observations; none before there are enough."""
        seen = {bound.measure: [sample.values[bound.measure] for sample in effect.samples] for bound in promise.bounds}
        enough = len(effect.samples) >= LEAST_SAMPLES
        comparison = MeasureSample(effect.begin_s, {measure: median(
            figure if figure >= 0 else math.inf for figure in figures) for measure, figures in seen.items()}
            if enough else {})
        return self._controller.check(promise, Effect(effect.begin_s, (comparison,) if enough else ()))


class WorldFuser(RealInWorlds):
    """Wants each chain whole, at once, whatever comes: what isolation does is wrong in its eyes."""

    def __init__(self) -> None:
        super().__init__(Isolating(), CHAINS, Aspect.STREAM)
        self.name = self.title = "fuser"

    def evaluate(self, evidence: Seen, policies: Mapping[str, Policy]) -> Evaluation:
        promise = ControllerPromise("it takes less", 600.0, (PromiseBound("cores", "cores", 1.0, 0.8),))
        return Evaluation(tuple(
            Decision(subject, OWNERS[subject], (AspectChange(
                Aspect.STREAM, stream_of(subject), Carriage.CHANNEL, Carriage.WITHIN),), promise, "fewer queries",
                worth=1.0, moves_queries=True)
            for subject, (_, carriage) in sorted(evidence.items())
            if carriage == Carriage.CHANNEL and policies[OWNERS[subject]].mode != OFF))


OTHERS = (WorldIsolation(), WorldRemeasuring(), WorldFuser())


def first_values() -> dict[tuple[Aspect, str], str]:
    """Chains are whole, and profiles there, to begin with."""
    return {(Aspect.STREAM, stream_of(chain)): Carriage.WITHIN for chain in CHAINS} | {
        (Aspect.PROFILE, profile): profile for profile in PROFILES}


def stream_of(chain: str) -> str:
    """The stream in front of its slow task."""
    return f"{chain}-a>{chain}-b"


def _hold_up(chain: str, load: float) -> HoldUp:
    parent, head = stream_of(chain).split(">")
    added_ms = min(1e6, 100.0 * load)
    return HoldUp(head, "wait", f"query of {chain}", parent, head, (parent, head), added_ms, added_ms + 200.0,
                  (Waiting(chain, OWNERS[chain], added_ms),))


def _reading(kind: str, load: float, profile: str) -> ProfileReading:
    seen = min(10.0, load / LOAD)
    return ProfileReading(
        f"{kind} now {profile}", kind, kind, OWNERS[kind],
        (Drift("cpu", 1, 1.0, seen, abs(seen - 1.0) > BOUND),), "n/0")
