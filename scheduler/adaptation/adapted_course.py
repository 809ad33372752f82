"""An algorithm of adaptation as what a simulation asks at each of its steps, and what the course came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scheduler.simulation.cloud import Adapts, Instant, SimulatedCourse
from scheduler.simulation.elastic import ElasticPlacement
from scheduler.simulation.loads import Chance
from scheduler.simulation.problem import profit_of

from .adaptation_port import AdaptationProblem, AdaptationStep, AdaptFunction, DeployFunction, Forecast


class Drawn(Chance, Protocol):
    """What an oracle's errors are drawn from."""

    def normal(self, mean: float, deviation: float, size: int) -> np.ndarray:
        """So many numbers of a normal distribution."""


@dataclass
class OracleForecasts:
    """Forecasts from what will be, with errors (Kumbhare 2016, 5.4): none of the step to come, growing evenly to twice
    the mean error at the last step, normally distributed, and a bias. A forecast holds for so many decisions.

    The text has e/2 for the variance where the mean error would not be what it says: e is the deviation here.
    """

    steps: int
    error: float
    bias: float
    rng: Drawn
    every: int = 2

    def __post_init__(self) -> None:
        self._made: tuple[int, Forecast] | None = None

    def forecast(self, number: int, now: Instant) -> Forecast:
        """What is expected at a decision. `ValueError` where the simulation does not say what will be."""
        if self._made is None or number - self._made[0] >= self.every:
            if now.future is None:
                raise ValueError("an oracle needs what will be; only a simulation has that")
            self._made = number, Forecast(
                {source: self._wrong(course) for source, course in now.future.rates_to_come(self.steps).items()},
                {vm: self._wrong(course) for vm, course in now.future.speeds_to_come(self.steps).items()})
        return self._made[1].from_step(number - self._made[0])

    def _wrong(self, course: np.ndarray) -> np.ndarray:
        if not self.error and not self.bias:
            return course
        deviations = np.linspace(0.0, 2 * self.error, len(course)) if len(course) > 1 else np.zeros(1)
        errors = self.bias + deviations * self.rng.normal(0.0, 1.0, len(course))
        return np.maximum(0.0, course * (1 + errors))


def adapting(
    problem: AdaptationProblem, deploy: DeployFunction, adapt: AdaptFunction | None, *,
    expected_per_s: Mapping[str, float], rng: Chance, oracle: OracleForecasts | None = None,
) -> Adapts:
    """What `simulate` asks at each step, which is to be as long as the problem's.

    Parameters
    ----------
    adapt : callable, optional
        Without it what is deployed stays.
    expected_per_s : mapping of str to float
        Events a second by source, for the initial deployment.
    """
    history: list[Instant] = []

    def adapts(now: Instant) -> ElasticPlacement:
        if not history:
            placement = deploy(problem, expected_per_s, rng=rng)
        elif adapt is None:
            placement = now.placement
        else:
            number = len(history)
            placement = adapt(problem, AdaptationStep(
                number, now, tuple(history[-10:]), oracle and oracle.forecast(number, now)), rng=rng)
        history.append(now)
        return placement

    return adapts


@dataclass(frozen=True, slots=True)
class AdaptationOutcome:
    """What a course came to: mean value Γ, mean Ω, cost μ, profit Θ (4.8), the profit as the thesis's figures have it
    (Γ − σμ, 5.2), and stability χ: in how many steps Ω was outside of its band."""

    value: float
    throughput: float
    cost: float
    profit: float
    shown_profit: float
    outside: int


def outcome_of(problem: AdaptationProblem, course: SimulatedCourse) -> AdaptationOutcome:
    """The figures of a course."""
    value, throughput = (float(np.mean(series)) for series in (course.values, course.reached))
    cost = course.costs[-1]
    return AdaptationOutcome(
        value, throughput, cost, profit_of(problem.dataflow, problem.goal, value=value, cost=cost),
        value - problem.value_of_money * cost,
        sum(abs(reached - problem.least) > problem.tolerance + 1e-9 for reached in course.reached))
