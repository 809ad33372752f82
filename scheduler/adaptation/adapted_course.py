"""An algorithm of adaptation as what a simulation asks at each of its steps, and the results of the course."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from scheduler.simulation.cloud import Adapts, Instant, SimulatedCourse
from scheduler.simulation.elastic import ElasticPlacement
from scheduler.simulation.loads import Chance
from scheduler.simulation.problem import profit_of

from .adaptation_port import AdaptationProblem, AdaptationStep, AdaptFunction, DeployFunction, Forecast
from .course_forecasts import CourseForecast, forecast_course, forecast_from


class Drawn(Chance, Protocol):
    """The random source of an oracle's errors."""

    def normal(self, mean: float, deviation: float, size: int) -> np.ndarray:
        """Numbers of a normal distribution."""


class Forecaster(Protocol):
    """Whoever forecasts in a simulation."""

    def forecast(self, number: int, now: Instant) -> Forecast:
        """The expectation at a decision; the first decision has the number 1."""


@dataclass
class LearnedForecasts:
    """Forecasts from what came, as on a site: of rates and of machines' speeds, by what was least wrong before.

    Parameters
    ----------
    before_per_s : mapping of str to sequence of float, optional
        By source what came before the simulation begins, step by step.
    """

    steps: int
    season: int
    before_per_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    every: int = 2

    def __post_init__(self) -> None:
        self._rates = {source: list(course) for source, course in self.before_per_s.items()}
        self._speeds: dict[str, list[float]] = {}
        self._last_forecast: tuple[int, Forecast] | None = None
        self.stated: dict[str, CourseForecast] = {}  # by source, the newest

    def forecast(self, number: int, now: Instant) -> Forecast:
        """The expectation at a decision, from all that was seen at those before it."""
        for series, seen_now in ((self._rates, now.rates_per_s), (self._speeds, now.speeds)):
            for name, value in seen_now.items():
                series.setdefault(name, []).append(value)
        if self._last_forecast is None or number - self._last_forecast[0] >= self.every:
            self.stated = {source: forecast_course(self._rates[source], self.steps, season=self.season)
                           for source in now.rates_per_s}
            self._last_forecast = number, forecast_from(self.stated, {
                vm: forecast_course(self._speeds[vm], self.steps, season=self.season) for vm in now.speeds})
        return self._last_forecast[1].from_step(number - self._last_forecast[0])


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
        self._last_forecast: tuple[int, Forecast] | None = None

    def forecast(self, number: int, now: Instant) -> Forecast:
        """The expectation at a decision. `ValueError` where the simulation does not say what will be."""
        if self._last_forecast is None or number - self._last_forecast[0] >= self.every:
            if now.future is None:
                raise ValueError("an oracle needs what will be; only a simulation has that")
            self._last_forecast = number, Forecast(
                {source: self._wrong(course) for source, course in now.future.rates_to_come(self.steps).items()},
                {vm: self._wrong(course) for vm, course in now.future.speeds_to_come(self.steps).items()},
                float(np.sqrt(np.square(self._deviations(self.steps)).sum())) / self.steps)
        return self._last_forecast[1].from_step(number - self._last_forecast[0])

    def _deviations(self, steps: int) -> np.ndarray:
        return np.linspace(0.0, 2 * self.error, steps) if steps > 1 else np.zeros(1)

    def _wrong(self, course: np.ndarray) -> np.ndarray:
        if not self.error and not self.bias:
            return course
        errors = self.bias + self._deviations(len(course)) * self.rng.normal(0.0, 1.0, len(course))
        return np.maximum(0.0, course * (1 + errors))


def adapting(
    problem: AdaptationProblem, deploy: DeployFunction, adapt: AdaptFunction | None, *,
    expected_per_s: Mapping[str, float], rng: Chance, oracle: Forecaster | None = None,
) -> Adapts:
    """The function that `simulate` asks at each step; its steps are as long as the problem's."""
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
    """The results of a course: mean value Γ, mean Ω, cost μ, profit Θ (4.8), the profit as the thesis's figures have it
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
