"""Experiments with schedules (paper [2], 8.5): which to run, at which rates, and how far predictions were right. Pure.

A run raises the rate of its source in **stairs** until the dataflow does not keep up. What a stair *carries* is the
rate at which its slowest task lets events through; it is *stable* if that is its rate, and latency does not grow: by
the same slope (λ_L) by which trials find the peaks of profiles. The actual rate of a schedule is the most that a stable
stair carried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import isnan, nan, sqrt

import numpy as np

from scheduler.model.errors import InsufficientSlots, WeirError
from scheduler.model.resources import Supply
from scheduler.model.slope import slope
from scheduler.pairs import Pair
from scheduler.performance.rates import KEEPS_UP
from scheduler.performance.sweep import Sweep
from scheduler.scheduling import DEFAULTS, Job, Schedule, SchedulingOptions, schedule

from .highest_rate import highest_rate

STEP_PER_S = 1.0  # of the rates from which the highest is chosen
GIVES_UP = 0.85  # a stair that carries less leaves nothing to be learnt from a higher one
STEPS = (0.75, 0.88, 1.0, 1.12, 1.25, 1.45, 1.75, 2.2)  # of the predicted rate
GROWS = Sweep().latency_slope  # seconds of latency a second: more is growth for good
GENTLY = 0.15  # of it, while queries start: what piles up then would go through the tasks as one long batch
FIRST = 0.6  # of it: what falls far short of its prediction keeps up here, if anywhere


@dataclass(frozen=True, slots=True)
class Stair:
    """A rate of the source, and for how long; one that does not count only leads to the next."""

    rate_per_s: float
    seconds: float
    counts: bool = True

    @property
    def events(self) -> int:
        """How many events it has."""
        return max(1, round(self.rate_per_s * self.seconds))


@dataclass(frozen=True, slots=True)
class Sample:
    """What has left each task so far, at a moment, and what was taken of each slot's CPU until then.

    ``latency_s`` is the mean latency of what has left the sink since it was asked for last; None where nothing did, or
    nobody asked.
    """

    at_s: float
    out: Mapping[str, int]
    cpu_s: Mapping[str, float]
    latency_s: float | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """What came of a stair: the rate that its source did offer, and what came through its slowest task.

    ``latency_slope`` is by how many seconds the latency at the sink grew in a second.
    """

    rate_per_s: float
    offered_per_s: float
    carried_per_s: float
    slowest: str
    latency_slope: float = 0.0

    @property
    def keeps_up(self) -> bool:
        """Whether all that was to be offered was, and came through."""
        return min(self.offered_per_s, self.carried_per_s) >= KEEPS_UP * self.rate_per_s

    @property
    def stable(self) -> bool:
        """Whether it did so without piling up."""
        return self.keeps_up and self.latency_slope <= GROWS


@dataclass(frozen=True, slots=True)
class Fit:
    """How well one of two figures tells the other.

    ``correlation`` is the square of Pearson's coefficient, which paper [2] calls R²: how near the points are to a line.
    ``identity`` is 1 minus the squared errors over the squared spread of what was measured: how near they are to the
    line on which both are equal. ``error`` is the median of the errors relative to what was measured.
    """

    points: int
    correlation: float
    identity: float
    error: float


def stairs(
    planned_per_s: float, predicted_per_s: float, *, first_s: float, stair_s: float, steps: Sequence[float] = STEPS
) -> tuple[Stair, ...]:
    """The rates of a run: up to and beyond what is predicted, and the planned one where it is on the way.

    The first does not count: queries start at a low rate, for ``first_s``.

    Parameters
    ----------
    planned_per_s : float
        The rate that was planned.
    predicted_per_s : float
        The rate that is predicted.
    first_s : float
        Seconds of the first stair.
    stair_s : float
        Seconds of every other.
    steps : sequence of float, optional
        The rates, as parts of the predicted one.
    """
    rates = {step * predicted_per_s for step in steps}
    # The planned rate is a stair of its own unless another is as good as that.
    if not any(abs(rate - planned_per_s) <= 0.03 * planned_per_s for rate in rates):
        rates.add(planned_per_s)
    rising = sorted(rate for rate in rates if rate <= steps[-1] * predicted_per_s * 1.0001)
    return (
        Stair(min(GENTLY * predicted_per_s, rising[0]), first_s, counts=False),
        Stair(min(FIRST * predicted_per_s, rising[0]), stair_s),
        *(Stair(rate, stair_s) for rate in rising),
    )


def due_ms(climb: Iterable[Stair]) -> list[int]:
    """When each event of the stairs is due."""
    due: list[int] = []
    began_s = 0.0
    for stair in climb:
        due += [int(1000 * (began_s + number * stair.seconds / stair.events)) for number in range(stair.events)]
        began_s += stair.seconds
    return due


def carried(
    samples: Sequence[Sample], *, rate_per_s: float, parts: Mapping[str, float], source: str
) -> Carried:
    """What came of a stair.

    Parameters
    ----------
    samples : sequence of Sample
        Those of the stair, once it has settled.
    rate_per_s : float
        Of the stair.
    parts : mapping of str to float
        By task, events that leave it for each event that leaves the source.
    source : str
        The source.
    """
    at_s = [sample.at_s for sample in samples]
    rates = {task: _slope(at_s, [sample.out.get(task, 0) / part for sample in samples]) for task, part in parts.items()}
    offered = rates.pop(source)
    slowest = min(rates, key=lambda task: rates[task])
    late = [(sample.at_s, sample.latency_s) for sample in samples if sample.latency_s is not None]
    # Where hardly anything comes out, latency grows with time.
    grows = slope(*zip(*late, strict=True)) if len(late) > 1 else 1.0
    return Carried(rate_per_s, offered, min(rates[slowest], max(offered, 0.0)), slowest, grows)


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    """By least squares: counts grow in steps, a batch each, and the median of slopes (`model.slope`) is low where
    steps are few."""
    return float(np.polyfit(x, y, 1)[0]) if len(x) > 1 else nan


def is_over(carried_stairs: Sequence[Carried]) -> bool:
    """Whether to climb no further: a stair left far too much behind, two in a row did not keep up, or three were not
    stable.

    The first one is given a second chance: what piled up while queries started may still be under way.
    """
    if len(carried_stairs) < 2:
        return False
    return (carried_stairs[-1].carried_per_s < GIVES_UP * carried_stairs[-1].rate_per_s
            or not any(carried.keeps_up for carried in carried_stairs[-2:])
            or (len(carried_stairs) > 2 and not any(carried.stable for carried in carried_stairs[-3:])))


def fit(pairs: Iterable[tuple[float, float]]) -> Fit:
    """How well predictions tell what was measured, from pairs of both."""
    both = [(predicted, measured) for predicted, measured in pairs if not (isnan(predicted) or isnan(measured))]
    if len(both) < 2:
        return Fit(len(both), nan, nan, nan)
    x, y = np.array(both, dtype=float).T
    dx, dy = x - x.mean(), y - y.mean()
    spread = float(dy @ dy)
    joint_error = sqrt(float(dx @ dx) * spread)
    errors = [abs(a - b) / b for a, b in both if b]
    return Fit(
        len(both), (float(dx @ dy) / joint_error) ** 2 if joint_error else nan,
        1 - float((x - y) @ (x - y)) / spread if spread else nan, float(np.median(errors)) if errors else nan)


def loads_at(schedule: Schedule, rate_per_s: float) -> dict[str, tuple[float, float]]:
    """CPU and memory that a schedule's slots are predicted to take at a rate, by slot; at most all of a slot."""
    routed, placement = schedule.prediction.routed, schedule.placement
    loads = {slot.name: (0.0, 0.0) for slot in placement.slots}
    for task, estimates in routed.estimates.items():
        profile = schedule.job.profiles[task]
        for position, estimate in estimates.items():
            rate = schedule.job.rates_per_s[task] * routed.shares[task][position] * rate_per_s / schedule.rate_per_s
            point = estimate.point
            rate = min(rate, point.rate_per_s)
            cpu = point.cpu if profile.static else estimate.cpu_at(rate)
            memory = point.memory if profile.static else estimate.memory_at(rate)
            name = placement.slots[position].name
            loads[name] = (loads[name][0] + cpu, loads[name][1] + memory)
    return {name: (min(cpu, 1.0), min(memory, 1.0)) for name, (cpu, memory) in loads.items()}


def plan(
    names: Sequence[str], pairs: Sequence[Pair], fractions: Sequence[float],
    *, job_at: Callable[[str, float], Job], supply: Supply, slots: int, options: SchedulingOptions = DEFAULTS,
) -> Iterator[tuple[str, Pair, float, Schedule | WeirError]]:
    """Each dataflow by each pair at parts of the highest rate that it plans for these slots: what to run.

    A pair that has no schedule comes with the reason.

    Parameters
    ----------
    names : sequence of str
        The dataflows.
    pairs : sequence of Pair
        Of allocation and mapping.
    fractions : sequence of float
        Parts of the highest rate.
    job_at : callable
        The job of a dataflow at a rate.
    supply : Supply
        Where slots come from.
    slots : int
        How many of them the highest rate may take.
    options : SchedulingOptions
        What the schedules have in common.
    """
    best: dict[tuple[str, Pair], Schedule | None] = {}
    for fraction, name, pair in product(fractions, names, pairs):
        try:
            if (name, pair) not in best:
                best[name, pair] = highest_rate(
                    partial(job_at, name), pair, supply=supply, slots=slots, step_per_s=STEP_PER_S, options=options)
            if (best_run := best[name, pair]) is None:
                raise InsufficientSlots(
                    f"{name} by {'+'.join(pair)} needs more than {slots} slots at any rate", remedy="Give more slots.",
                    available=slots)
            job = job_at(name, fraction * best_run.rate_per_s)
            yield name, pair, fraction, schedule(job, pair, supply=supply, options=options)
        except WeirError as error:
            yield name, pair, fraction, error
