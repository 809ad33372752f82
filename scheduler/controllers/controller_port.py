"""The interface of controllers, their inputs, and the check of a promise against measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal, Protocol

from scheduler.model.figure_words import in_digits

from .changes import AspectChange
from .loop_values import ControllerPromise, Decision, IdleReason, Policy

Verdict = Literal["kept", "broken", "harmful", "too early"]
SAME_LOAD = 0.25  # relative difference up to which two loads are about the same
LEAST_LOAD = 1.0  # events a second: a load of less is the same as one a little above or below it
LEAST_SAMPLES = 12  # fewer comparable ones say nothing
HARD_SAMPLES = 6  # newest ones that a hard bound is held to
OLDEST_EVIDENCE_S = 300.0  # older evidence says what was, not what is


@dataclass(frozen=True, slots=True)
class CommandProgress:
    """The progress of a round's commands, as the actuator reports it.

    ``phase`` is ``absent`` (nothing yet), ``asked``, ``enacting``, ``in_force``, ``failing`` (in force, and something
    of it fails), ``overtaken`` (it can no longer be done as it was asked for), ``declined`` (nothing has changed, and
    never will), ``rolling_back``, ``rolled_back`` or ``stuck`` (in force, and cannot be taken back).
    """

    phase: str
    why: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True)
class MeasureSample:
    """Figures at one moment by measure, and the load then (events/s, or None)."""

    at_s: float
    values: Mapping[str, float]
    load: float | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """Measurements since a round's change was in force; ``begin_s`` is where measuring began."""

    begin_s: float
    samples: tuple[MeasureSample, ...] = ()


@dataclass(frozen=True, slots=True)
class Observations:
    """Facts that the loop gets at one moment.

    Parameters
    ----------
    evidence : object, optional
        The evidence of the controller, of its own type; None if no decision is due.
    progress : mapping of str to CommandProgress
        The progress of rounds in flight, by key.
    busy : mapping of str to str
        Targets that must not be touched now, with the reasons.
    """

    evidence: Any = None
    measured_s: float = 0.0
    progress: Mapping[str, CommandProgress] = field(default_factory=dict)
    effects: Mapping[str, Effect] = field(default_factory=dict)
    busy: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The decisions of a controller, and its reasons against others."""

    decisions: tuple[Decision, ...] = ()
    reasons: tuple[IdleReason, ...] = ()


class Controller(Protocol):
    """A controller looks at the past and decides about changes.

    Attributes
    ----------
    name : str
        By which settings, rounds and addresses know it: small letters and underscores.
    title, about : str
        What people call it, and what it does, in a sentence or two.
    reads : str
        What it looks at; whoever runs the loop has a collector of that name.
    every_s : float
        How often it decides, in seconds.
    usual : Policy
        What holds for a team that has chosen nothing.
    helps_limits : bool
        Whether it may help a latency limit that is not met.
    follows_goals : bool
        Whether it decides by the goals of dataflows, whose slots machines are ordered for. One controller does.
    least_samples : int
        How many comparable samples, at least, judge a promise.
    """

    name: str
    title: str
    about: str
    reads: str
    every_s: float
    usual: Policy
    helps_limits: bool = False
    follows_goals: bool = False
    least_samples: int = LEAST_SAMPLES

    def evaluate(self, evidence: Any, policies: Mapping[str, Policy]) -> Evaluation:
        """Worthwhile decisions for teams whose mode is not off. A pure function of its arguments."""

    def check(self, promise: ControllerPromise, effect: Effect) -> tuple[Verdict, str]:
        """The verdict on a promise, by the median of each figure, and these figures in words."""
        return held_to_bounds(promise, effect, least=self.least_samples)

    def rollback(self, decision: Decision) -> tuple[AspectChange, ...]:
        """The changes that take a decision back, in order: those that it made, the last first."""
        return reversed_changes(decision.changes)


def reversed_changes(changes: Iterable[AspectChange]) -> tuple[AspectChange, ...]:
    """The reverse of each, the last first."""
    return tuple(change.reverse for change in reversed(tuple(changes)))


def held_to_bounds(promise: ControllerPromise, effect: Effect, *, least: int = LEAST_SAMPLES) -> tuple[Verdict, str]:
    """Hold the median of comparable samples to each bound.

    A sample counts where every figure of the promise is a finite number that is not negative, and the load is about
    what it was. A median is not moved by a few wrong ones. A hard bound that the newest samples break is harmful.
    """
    for bound in promise.bounds:
        newest = [sample.values[bound.measure] for sample in effect.samples if _counts(sample, [bound.measure], None)]
        figure = median(newest[-HARD_SAMPLES:]) if len(newest) >= HARD_SAMPLES else 0.0
        if bound.hard and figure > bound.at_most:
            words = (f"{bound.measure} is at {in_digits(figure)} {bound.unit}, and at most {in_digits(bound.at_most)} "
                     "is allowed")
            return "harmful", words
    measures = [bound.measure for bound in promise.bounds]
    samples = [sample for sample in effect.samples if _counts(sample, measures, promise.load)]
    if not measures or len(samples) < least:
        return "too early", f"{len(samples)} comparable measurements so far"
    figures = {bound: median(sample.values[bound.measure] for sample in samples) for bound in promise.bounds}
    missed = [bound for bound, figure in figures.items() if figure > bound.at_most]
    words = "; ".join(
        f"{bound.measure} {in_digits(figure)} {bound.unit}".strip()
        + f" (before {in_digits(bound.before)}, promised at most {in_digits(bound.at_most)})"
        for bound, figure in figures.items())
    return ("broken" if missed else "kept"), words


def _counts(sample: MeasureSample, measures: Iterable[str], load: float | None) -> bool:
    figures = [sample.values.get(measure, math.nan) for measure in measures]
    if not all(math.isfinite(figure) and figure >= 0 for figure in figures):
        return False
    if load is None:
        return True
    return sample.load is not None and abs(sample.load - load) <= SAME_LOAD * max(load, LEAST_LOAD)
