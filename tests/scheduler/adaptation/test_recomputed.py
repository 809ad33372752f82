"""Ω and μ of every algorithm, worked out once more by a fluid simulation that shares no code with the first."""

from __future__ import annotations

import math

import pytest

from scheduler.adaptation.adaptation_port import AdaptationProblem
from scheduler.simulation.cloud import Instant
from scheduler.simulation.elastic import Alternate, ElasticDataflow, VmClass
from scheduler.simulation.problem import BreakEven
from tests.benches.slow_adaptations import COMPARED

from .test_adaptations import NAMES, _little_effort, line_problem, played  # noqa: F401 - for this file, too

NARROW = VmClass("narrow", 2, 1.0, 900.0, 0.11)  # of a network that nine messages a second fill
FORK = ElasticDataflow(
    {"a": {"1": Alternate("1", 1.0, 0.05, 1.5)}, "b": {"1": Alternate("1", 1.0, 0.1), "2": Alternate("2", 0.7, 0.04)},
     "c": {"1": Alternate("1", 1.0, 0.05, 0.5)}, "d": {"1": Alternate("1", 1.0, 0.02)}},
    (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")))
PROBLEMS = {
    "line": line_problem(),
    "fork": AdaptationProblem(FORK, (NARROW,), BreakEven(30.0, 10.0), hours=4.0, starts_s=120.0)}


class Fluid:
    """Water in buckets: what waits for each task, step by step, and what each machine has cost."""

    def __init__(self, problem: AdaptationProblem) -> None:
        self._problem, self._buckets = problem, dict.fromkeys(problem.dataflow.tasks, 0.0)
        self._present_s: dict[str, float] = {}
        self._prices: dict[str, float] = {}

    def step(self, now: Instant) -> tuple[float, float]:
        """Ω and μ after the step that this instant tells of."""
        dataflow, seconds = self._problem.dataflow, self._problem.step_s
        made: dict[str, float] = {}
        could: dict[str, float] = {}
        before = dict(self._buckets)
        for task in self._in_order(dataflow):
            born = now.rates_per_s.get(task, 0.0) * seconds
            came = born + sum(
                self._passed(now, source, task, made[source]) for source, target in dataflow.streams if target == task)
            full = before[task] + born + sum(could[source] for source, target in dataflow.streams if target == task)
            alternate = dataflow.tasks[task][now.placement.active[task]]
            seconds_of_cores = sum(
                count * now.speeds[vm] * seconds for vm, count in now.placement.cores[task].items())
            worked = min(before[task] + came, seconds_of_cores / alternate.event_s)
            self._buckets[task] = before[task] + came - worked
            made[task], could[task] = worked * alternate.selectivity, full * alternate.selectivity
        ends = [task for task in dataflow.tasks if all(source != task for source, _ in dataflow.streams)]
        parts = [made[task] / could[task] if could[task] else 1.0 for task in ends]
        return sum(parts) / len(parts), self._paid(now, seconds)

    def _passed(self, now: Instant, source: str, target: str, events: float) -> float:
        """What of these events the network lets through."""
        bytes_per_s = 0.0
        for one in now.placement.cores[source]:
            for other in now.placement.cores[target]:
                if one == other:
                    return events
                bytes_per_s += min(now.placement.vms[vm].kind.bytes_per_s for vm in (one, other))
        return min(events, bytes_per_s * self._problem.step_s / self._problem.message_bytes)

    def _paid(self, now: Instant, seconds: float) -> float:
        for name, vm in now.placement.vms.items():
            self._present_s[name] = self._present_s.get(name, 0.0) + seconds
            self._prices[name] = vm.kind.per_hour
        hours = {name: seconds / 3600 for name, seconds in self._present_s.items()}
        return sum(self._prices[name] * (math.ceil(hours_paid) if self._problem.billing == "hours" else hours_paid)
                   for name, hours_paid in hours.items())

    @staticmethod
    def _in_order(dataflow: ElasticDataflow) -> list[str]:
        done: list[str] = []
        while len(done) < len(dataflow.tasks):
            done += [task for task in dataflow.tasks if task not in done and all(
                source in done for source, target in dataflow.streams if target == task)]
        return done


@pytest.mark.parametrize("which", PROBLEMS)
@pytest.mark.parametrize("name", NAMES)
def test_throughput_and_cost_are_what_an_independent_simulation_gives(name: str, which: str) -> None:
    instants: list[Instant] = []
    course = played(COMPARED[name], PROBLEMS[which], 7, steps=18, seen=instants)
    fluid = Fluid(PROBLEMS[which])
    for at, now in enumerate(instants[1:]):
        throughput, cost = fluid.step(now)
        assert throughput == pytest.approx(course.reached[at]), at
        assert cost == pytest.approx(course.costs[at]), at
