"""Scenarios of an uncertain forecast: it is combined with the newest values by their errors, into two scenarios.

The forecast states its own error (`Forecast.error`); the error of the newest values as a forecast follows from the
past. Each counts by the inverse of its squared error (Bates and Granger, "The combination of forecasts", 1969): the
worse a forecast, the less it counts. The remaining error makes two scenarios of equal probability, so far above and
below the combined value that they have its mean and spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.simulation.elastic import ElasticDataflow, ElasticPlacement, VmClass
from scheduler.simulation.problem import Conditions

from .adaptation_port import AdaptationProblem, AdaptationStep, seen
from .greedy_adaptation import expect_forecast_mean
from .placement_draft import PlacementDraft

LEAST_KNOWN = 3  # of what came: from fewer nothing is said of how far it moves


def expected_scenarios(problem: AdaptationProblem, step: AdaptationStep) -> tuple[Conditions, ...]:
    """The step to come as one that is sure, or as two that are equally likely, more events first."""
    forecast = step.forecast
    mean = expect_forecast_mean(problem, step)
    if forecast is None or not (error := forecast.error):
        return (mean,)
    now, instants = seen(problem, step.now), [*(instant for instant in step.history if instant.worked), step.now]
    courses = {source: [instant.rates_per_s[source] for instant in instants] for source in mean.rates_per_s}
    moves = movement(courses, forecast.steps)
    trust = 1.0 if math.isinf(moves) else moves**2 / (moves**2 + error**2)
    rates = _between(now.rates_per_s, mean.rates_per_s, trust)
    remaining_error = error if math.isinf(moves) else moves * error / math.hypot(moves, error)
    rated = {name: vm.kind.speed for name, vm in step.now.placement.vms.items()}  # of a machine that nobody saw yet
    speeds = _between(rated | dict(now.speeds), mean.speeds, trust)
    return tuple(replace(mean, speeds=speeds, rates_per_s={
        source: max(0.0, rate * (1 + sign * remaining_error)) for source, rate in rates.items()}) for sign in (1, -1))


def movement(courses: Mapping[str, Sequence[float]], ahead: int) -> float:
    """The distance of the newest value from the mean of so many steps after it: the root of the mean square, as a part
    of what is seen; infinite where too little is known."""
    errors = []
    for course in courses.values():
        figures = np.asarray(course, dtype=float)
        for at in range(len(figures) - 1):
            if figures[at] > 0:
                errors.append(float(figures[at + 1:at + 1 + ahead].mean()) / figures[at] - 1)
    return math.sqrt(float(np.mean(np.square(errors)))) if len(errors) >= LEAST_KNOWN else math.inf


def _between(last: Mapping[str, float], forecast: Mapping[str, float], trust: float) -> dict[str, float]:
    return {name: trust * value + (1 - trust) * last.get(name, value) for name, value in forecast.items()}


class ScenarioDraft(PlacementDraft):
    """A draft of which Ω is the mean over scenarios; what a task is short of is that of the first of them."""

    def __init__(
        self, dataflow: ElasticDataflow, placement: ElasticPlacement, scenarios: Sequence[Conditions]
    ) -> None:
        self._other_drafts = [PlacementDraft(dataflow, placement, scenario) for scenario in scenarios[1:]]
        super().__init__(dataflow, placement, scenarios[0])

    @property
    def throughput(self) -> float:
        """The mean of Ω over the scenarios."""
        expected = super().throughput
        return (expected + sum(draft.throughput for draft in self._other_drafts)) / (1 + len(self._other_drafts))

    def restore(self, placement: ElasticPlacement) -> None:
        """Go on from another placement in all scenarios."""
        super().restore(placement)
        for draft in self._other_drafts:
            draft.restore(placement)

    def switch(self, task: str, alternate: str) -> None:
        """Make an alternate of a task the active one."""
        super().switch(task, alternate)
        for draft in self._other_drafts:
            draft.switch(task, alternate)

    def rent(self, kind: VmClass, *, at_s: float = 0.0) -> str:
        """A machine of a class more; its name."""
        for draft in self._other_drafts:
            draft.rent(kind, at_s=at_s)
        return super().rent(kind, at_s=at_s)

    def release(self, vm: str) -> None:
        """Give back a machine."""
        super().release(vm)
        for draft in self._other_drafts:
            draft.release(vm)

    def give(self, task: str, vm: str, count: int = 1) -> None:
        """Cores of a machine for a task, in all scenarios."""
        super().give(task, vm, count)
        for draft in self._other_drafts:
            draft.give(task, vm, count)
