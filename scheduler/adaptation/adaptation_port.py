"""Inputs and results of every algorithm of adaptation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from scheduler.model.checks import require_finite
from scheduler.simulation.cloud import Instant
from scheduler.simulation.elastic import ElasticDataflow, ElasticPlacement, VmClass
from scheduler.simulation.loads import Chance
from scheduler.simulation.problem import HOUR_S, Billing, BreakEven, Conditions, price_of_value, profit_of, value_of


@dataclass(frozen=True)
class AdaptationProblem:
    """A problem of adaptation and its goal: the greatest profit with a mean throughput of at least ``least``.

    Parameters
    ----------
    goal : BreakEven
        The largest spending over ``hours``, the time that is looked at (T).
    least, tolerance : float, optional
        Ω̂ and ε: throughput is to be at least the one, and within the other of it nothing is changed.
    """

    dataflow: ElasticDataflow
    classes: Sequence[VmClass]
    goal: BreakEven
    hours: float = 12.0
    least: float = 0.8
    tolerance: float = 0.05
    step_s: float = 300.0
    starts_s: float = 0.0
    billing: Billing = "hours"
    message_bytes: float = 100.0
    keeps_s: float | None = None

    def __post_init__(self) -> None:
        require_finite(self)
        if not self.classes:
            raise ValueError("there is no class of machines to rent")
        if not (0 < self.least <= 1 and self.tolerance >= 0 and self.hours > 0 and self.step_s > 0):
            raise ValueError("Ω̂ is above 0 and at most 1, ε not below 0, and times are above 0 s")

    @cached_property
    def largest(self) -> VmClass:
        """The class with the most power, the cheaper of two that are alike."""
        return max(self.classes, key=lambda kind: (kind.cores * kind.speed, -kind.per_hour, kind.name))

    @cached_property
    def paid_hours(self) -> float:
        """Paid share of the hours of a machine that is kept all the time."""
        return math.ceil(self.hours) if self.billing == "hours" else self.hours

    @cached_property
    def value_of_money(self) -> float:
        """σ (4.9)."""
        return price_of_value(self.dataflow, self.goal)

    @cached_property
    def depth_first(self) -> tuple[str, ...]:
        """Tasks from the sources on, each stream followed to its end before the next."""
        children: dict[str, list[str]] = {task: [] for task in self.dataflow.tasks}
        for source, target in self.dataflow.streams:
            children[source].append(target)
        order: dict[str, None] = {}
        ahead = list(reversed(self.dataflow.sources))
        while ahead:
            task = ahead.pop()
            if task not in order:
                order[task] = None
                ahead.extend(reversed(children[task]))
        return tuple(order)

    def profit(self, placement: ElasticPlacement) -> float:
        """Θ (4.8) of a placement that is kept all the time."""
        per_hour = sum(vm.kind.per_hour for vm in placement.vms.values())
        return profit_of(
            self.dataflow, self.goal, value=value_of(self.dataflow, placement.active), cost=per_hour * self.paid_hours)

    def conditions(self, rates_per_s: Mapping[str, float], **more: Mapping[str, float]) -> Conditions:
        """A step of time with such rates, and what is known of machines and queues."""
        return Conditions(rates_per_s, self.step_s, message_bytes=self.message_bytes, keeps_s=self.keeps_s, **more)


@dataclass(frozen=True)
class Forecast:
    """Expectations for the steps of the next decisions: by source events a second, by machine the speed of its cores;
    and how wrong the mean of its steps is, where that is known: the standard deviation, as a part of it."""

    rates_per_s: Mapping[str, Sequence[float]]
    speeds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    error: float = 0.0

    def __post_init__(self) -> None:
        if len({len(course) for course in self.rates_per_s.values()}) != 1 or not self.steps:
            raise ValueError("a forecast has a rate of each source for each of its steps")

    @property
    def steps(self) -> int:
        """The number of steps it looks ahead."""
        return len(next(iter(self.rates_per_s.values())))

    def from_step(self, first: int) -> Forecast:
        """This forecast after so many of its steps have passed; the last step at least."""
        first = min(first, self.steps - 1)
        return Forecast({source: course[first:] for source, course in self.rates_per_s.items()},
                        {vm: course[first:] for vm, course in self.speeds.items()}, self.error)

    def conditions(
        self, problem: AdaptationProblem, first: int, last: int, waiting: Mapping[str, float]
    ) -> Conditions:
        """One step with the means of its steps from ``first`` up to ``last``, which is not among them.

        Not all of them as one long step: Ω of that would let as much wait at its end as Ω̂ leaves of the whole time,
        and as each decision looks ahead anew, that end never comes.
        """
        def mean(course: Sequence[float]) -> float:
            some = course[first:last]
            return float(sum(some)) / len(some) if len(some) else float(course[-1])

        return problem.conditions(
            {source: mean(course) for source, course in self.rates_per_s.items()}, waiting=waiting,
            speeds={vm: mean(course) for vm, course in self.speeds.items()})


@dataclass(frozen=True)
class AdaptationStep:
    """Facts at the moment of a decision: how many there were before, what runs and was seen, what is expected.

    Parameters
    ----------
    now : Instant
        As the simulation tells it, with rates as means since the decision before.
    """

    number: int
    now: Instant
    history: Sequence[Instant] = ()
    forecast: Forecast | None = None


class DeployFunction(Protocol):
    """The first placement, by rated speeds of machines and the rates that are expected."""

    def __call__(
        self, problem: AdaptationProblem, rates_per_s: Mapping[str, float], *, rng: Chance
    ) -> ElasticPlacement: ...


class AdaptFunction(Protocol):
    """The placement to run from now on, from what was seen or is expected."""

    def __call__(self, problem: AdaptationProblem, step: AdaptationStep, *, rng: Chance) -> ElasticPlacement: ...


def seen(problem: AdaptationProblem, now: Instant) -> Conditions:
    """The step to come if it is as the one before: rates, what waits, and speeds of machines that have started."""
    started = {vm: speed for vm, speed in now.speeds.items()
               if now.at_s >= now.placement.vms[vm].begun_s + problem.starts_s + problem.step_s}
    return problem.conditions(
        now.rates_per_s, waiting=now.worked.waiting if now.worked else {}, speeds=started, bandwidths=now.bandwidths)


def left_of_hour(problem: AdaptationProblem, begun_s: float, at_s: float) -> float:
    """T_c: seconds until the next payment for a machine; 0 if it is due now, or if each second is paid for."""
    return 0.0 if problem.billing == "seconds" else left_of_begun_hour(begun_s, at_s)


def left_of_begun_hour(begun_s: float, at_s: float) -> float:
    """Seconds until a machine that is paid by begun hours has to be paid again; 0 where that is now."""
    used_s = (at_s - begun_s) % HOUR_S
    return 0.0 if used_s == 0 and at_s > begun_s else HOUR_S - used_s


def hour_ends(problem: AdaptationProblem, begun_s: float, at_s: float) -> bool:
    """True if a machine that is kept until the next decision is paid for once more."""
    return left_of_hour(problem, begun_s, at_s) < problem.step_s
