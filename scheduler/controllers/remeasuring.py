"""Re-measuring on drift as a controller: a profile that running bundles contradict is measured again.

Plans are made by profiles (model-driven scheduling, paper [2]), and a profile that no longer holds makes plans that do
not either. Drift is what ``scheduler.performance.drift`` finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.performance.drift import BOUND, Drift

from .changes import Aspect, AspectChange, ProfileName
from .controller_port import Controller, Effect, Evaluation, Verdict, held_to_bounds
from .loop_values import OFF, ControllerPromise, Decision, IdleReason, Policy, PromiseBound

DEVIATION = "deviation from what runs"
WITHIN_S = 2 * 3600.0


@dataclass(frozen=True, slots=True)
class ProfileReading:
    """A profile in use, and how far running bundles are from it.

    ``kind`` names what it is of (type, config, machine and team): the next profile of the same has the same. ``slot``
    is where it could be measured now; where it cannot, ``why_not`` says so.
    """

    profile: str
    kind: str
    title: str
    team: str
    drifts: tuple[Drift, ...]
    slot: str = ""
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class ProfileEvidence:
    """The evidence: every profile in use that was compared with what runs."""

    readings: tuple[ProfileReading, ...]


def worst(drifts: Sequence[Drift]) -> float | None:
    """The greatest relative deviation; None where nothing was compared yet."""
    return max((abs(drift.observed - drift.expected) / drift.expected for drift in drifts if drift.expected > 0),
               default=None)


class Remeasuring(Controller):
    """Recommends, or starts, a sweep of each profile that has drifted."""

    name = "remeasuring"
    title = "Re-measuring on drift"
    about = ("Measures a task type again where running bundles differ from its profile by more than "
             f"{BOUND:.0%}, on a slot that nothing else needs.")
    reads = "profiles"
    every_s = 300.0
    usual = Policy(changes_per_hour=1, changes_per_day=4, cool_down_s=6 * 3600.0)

    def evaluate(self, evidence: ProfileEvidence, policies: Mapping[str, Policy]) -> Evaluation:
        """Every profile that has drifted and can be measured; the most contradicted first."""
        decisions, reasons = [], []
        for reading in evidence.readings:
            if policies.get(reading.team, self.usual).mode == OFF:
                continue
            deviation = worst(reading.drifts)
            beyond = [drift for drift in reading.drifts if drift.beyond]
            if not beyond or deviation is None:
                if deviation is not None:
                    reasons.append(IdleReason(
                        reading.team, reading.profile, f"What runs differs from it by {deviation:.0%} at most."))
            elif reading.why_not:
                reasons.append(IdleReason(reading.team, reading.profile, f"{_in_words(beyond)} {reading.why_not}"))
            else:
                decisions.append(_decision(reading, beyond, deviation))
        return Evaluation(tuple(decisions), tuple(reasons))

    def check(self, promise: ControllerPromise, effect: Effect) -> tuple[Verdict, str]:
        """Verdict by the newest comparison of the new profile with what runs: it rests on many observations itself."""
        return held_to_bounds(promise, Effect(effect.begin_s, effect.samples[-1:]), least=1)


def _decision(reading: ProfileReading, beyond: Sequence[Drift], deviation: float) -> Decision:
    promise = ControllerPromise(
        "the new profile is nearer to what runs than the old one", WITHIN_S,
        (PromiseBound(DEVIATION, "", deviation, deviation),))
    return Decision(
        reading.profile, reading.team, (AspectChange(
            Aspect.PROFILE, reading.kind, ProfileName(reading.profile), ProfileName("measured anew")),), promise,
        f"{_in_words(beyond)} It is measured again on slot {reading.slot}.", worth=deviation,
        arguments={"slot": reading.slot})


def _in_words(beyond: Sequence[Drift]) -> str:
    """The contradictions of a profile, in a sentence."""
    templates = {"rate": "a peak rate of {observed:.3g} events/s where it says {expected:.3g}",
            "cpu": "{observed:.0%} of a slot's CPU where it says {expected:.0%}",
            "memory": "{observed:.0%} of a slot's memory where it says {expected:.0%}"}
    parts = [templates[drift.what].format(observed=drift.observed, expected=drift.expected) for drift in beyond]
    return f"Running bundles show {' and '.join(parts)}."
