"""The problem of elastic dataflows: each equation against a reference that follows single streams backwards."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.simulation.elastic import Alternate, ElasticDataflow, ElasticPlacement, RentedVm, VmClass
from scheduler.simulation.problem import (
    BreakEven,
    Conditions,
    cost_of,
    power_of,
    price_of_value,
    profit_of,
    sum_of_lesser,
    value_of,
    work_out,
)

SMALL, LARGE = VmClass("small", 1, 1.0, 1e6, 0.06), VmClass("large", 4, 2.0, 1e6, 0.48)
LINE = ElasticDataflow(
    {"a": {"only": Alternate("only", 1.0, 0.1)}, "b": {"good": Alternate("good", 1.0, 0.2, 2.0),
                                                     "quick": Alternate("quick", 0.5, 0.1)}},
    (("a", "b"),))


@st.composite
def problems(draw: st.DrawFn) -> tuple[ElasticDataflow, ElasticPlacement, Conditions]:
    """Up to six tasks, each reading some of those before it, with cores on up to four machines."""
    names = "abcdef"[: draw(st.integers(1, 6))]
    tasks = {name: {f"{name}{at}": Alternate(
        f"{name}{at}", draw(st.sampled_from([0.2, 0.6, 1.0])), draw(st.sampled_from([0.01, 0.1, 1.0])),
        draw(st.sampled_from([0.5, 1.0, 2.0]))) for at in range(draw(st.integers(1, 3)))} for name in names}
    streams = tuple((source, name) for at, name in enumerate(names) if at
                    for source in draw(st.sets(st.sampled_from(names[:at]), max_size=2)))
    dataflow = ElasticDataflow(tasks, streams)
    vms = {f"v{at}": RentedVm(draw(st.sampled_from([SMALL, LARGE]))) for at in range(draw(st.integers(1, 4)))}
    free = {vm: rented.kind.cores for vm, rented in vms.items()}
    cores: dict[str, dict[str, int]] = {name: {} for name in names}
    for name in names:
        for vm in draw(st.sets(st.sampled_from(sorted(vms)))):
            cores[name][vm] = draw(st.integers(0, free[vm]))
            free[vm] -= cores[name][vm]
    active = {name: draw(st.sampled_from(sorted(tasks[name]))) for name in names}
    rates = {source: draw(st.sampled_from([0.0, 1.0, 10.0, 100.0])) for source in dataflow.sources}
    waiting = draw(st.dictionaries(st.sampled_from(names), st.sampled_from([0.0, 5.0, 50.0])))
    speeds = draw(st.dictionaries(st.sampled_from(sorted(vms)), st.sampled_from([0.5, 1.0, 1.5])))
    return dataflow, ElasticPlacement(active, vms, cores), Conditions(
        rates, draw(st.sampled_from([1.0, 60.0])), waiting, speeds, draw(st.sampled_from([100.0, 1e6])))


class ByDefinition:
    """Each equation as it is written, from an output back to the sources."""

    def __init__(self, dataflow: ElasticDataflow, placement: ElasticPlacement, conditions: Conditions) -> None:
        self.dataflow, self.placement, self.conditions = dataflow, placement, conditions

    def alternate(self, task: str) -> Alternate:
        return self.dataflow.tasks[task][self.placement.active[task]]

    def coming(self, task: str) -> float:
        """q + i·Δt."""
        total = self.conditions.rates_per_s.get(task, 0.0)
        for source, target in self.dataflow.streams:
            if target == task:
                total += self.flow(source, target)
        return self.conditions.waiting.get(task, 0.0) + total * self.conditions.seconds

    def able(self, task: str) -> float:
        """φ·Δt/c, core by core."""
        speeds = [self.conditions.speeds.get(vm, self.placement.vms[vm].kind.speed)
                  for vm, cores in self.placement.cores[task].items() for _ in range(cores)]
        return sum(speeds) * self.conditions.seconds / self.alternate(task).event_s

    def out(self, task: str) -> float:
        return min(self.coming(task), self.able(task)) * self.alternate(task).selectivity / self.conditions.seconds

    def flow(self, source: str, target: str) -> float:
        ends = [[vm for vm, cores in self.placement.cores[task].items() if cores] for task in (source, target)]
        bandwidth = 0.0
        for left in ends[0]:
            for right in ends[1]:
                bandwidth += math.inf if left == right else min(
                    self.placement.vms[vm].kind.bytes_per_s for vm in (left, right))
        return min(self.out(source), bandwidth / self.conditions.message_bytes)

    def throughput(self) -> float:
        parts = []
        for task in self.dataflow.tasks:
            if not any(source == task for source, _ in self.dataflow.streams):
                most = self.coming(task) * self.alternate(task).selectivity / self.conditions.seconds
                parts.append(self.out(task) / most if most else 1.0)
        return sum(parts) / len(parts)


@given(problems())
def test_a_step_is_what_the_equations_say(problem: tuple[ElasticDataflow, ElasticPlacement, Conditions]) -> None:
    dataflow, _, conditions = problem
    worked, reference = work_out(*problem), ByDefinition(*problem)

    assert worked.throughput == pytest.approx(reference.throughput())
    for task in dataflow.tasks:
        assert worked.out_per_s[task] == pytest.approx(reference.out(task))
        came = conditions.waiting.get(task, 0.0) + worked.in_per_s[task] * conditions.seconds
        left = worked.out_per_s[task] * conditions.seconds / reference.alternate(task).selectivity
        assert worked.waiting[task] + left == pytest.approx(came), "no event is lost or made"
    assert 0 <= worked.reached <= worked.throughput + 1e-9 <= 1 + 2e-9
    assert min(worked.throughputs.values()) >= 0 and max(worked.throughputs.values()) <= 1


@given(st.lists(st.floats(0.0, 100.0), max_size=8), st.lists(st.floats(0.0, 100.0), max_size=8))
def test_the_sum_of_lesser_is_that_over_all_pairs(some: list[float], others: list[float]) -> None:
    assert sum_of_lesser(some, others) == pytest.approx(sum(min(pair) for pair in itertools.product(some, others)))


@given(problems())
def test_with_a_core_more_no_less_reaches_the_outputs(
    problem: tuple[ElasticDataflow, ElasticPlacement, Conditions]
) -> None:
    dataflow, placement, conditions = problem
    before = work_out(*problem).reached
    for task in dataflow.tasks:
        more = replace(
            placement, vms={**placement.vms, "new": RentedVm(SMALL)},
            cores={**placement.cores, task: {**placement.cores[task], "new": 1}})
        assert power_of(more, task, conditions.speeds) == power_of(placement, task, conditions.speeds) + 1
        assert work_out(dataflow, more, conditions).reached >= before - 1e-9


def test_by_hand_and_a_starved_output_has_its_full_throughput_by_the_equation_alone() -> None:
    """Of 20 events/s, a has time for 10; b has the cores for all of these, with two events out for each."""
    placement = ElasticPlacement(
        {"a": "only", "b": "good"}, {"v": RentedVm(SMALL), "w": RentedVm(LARGE)}, {"a": {"v": 1}, "b": {"w": 1}})
    worked = work_out(LINE, placement, Conditions({"a": 20.0}, seconds=10.0))

    assert worked.out_per_s == pytest.approx({"a": 10.0, "b": 20.0})
    assert worked.waiting == pytest.approx({"a": 100.0, "b": 0.0})
    assert (worked.throughput, worked.reached) == pytest.approx((1.0, 0.5))
    assert worked.throughputs == pytest.approx({"a": 0.5, "b": 1.0})
    assert value_of(LINE, placement.active) == 1.0
    assert value_of(LINE, {"a": "only", "b": "quick"}) == 0.75


@pytest.mark.parametrize(("begun_s", "ended_s", "at_s", "hours", "seconds"), [
    (0, None, 0, 0, 0), (0, None, 1, 1, 1), (0, None, 3600, 1, 3600), (0, None, 3601, 2, 3601),
    (1800, None, 5400, 1, 3600), (0, 60, 7200, 1, 60), (7200, None, 3600, 0, 0)])
def test_hours_that_are_begun_are_paid_or_seconds_alone(
    begun_s: float, ended_s: float | None, at_s: float, hours: int, seconds: float
) -> None:
    vms = {"v": RentedVm(LARGE, begun_s, ended_s), "w": RentedVm(SMALL, begun_s, ended_s)}
    per_hour = LARGE.per_hour + SMALL.per_hour

    assert cost_of(vms, at_s) == pytest.approx(hours * per_hour)
    assert cost_of(vms, at_s, billing="seconds") == pytest.approx(seconds / 3600 * per_hour)


@given(problems(), st.floats(1.0, 50.0), st.floats(0.1, 40.0), st.floats(0.0, 1.0))
def test_at_every_cost_that_breaks_even_profit_is_the_same(
    problem: tuple[ElasticDataflow, ElasticPlacement, Conditions], most: float, spread: float, part: float
) -> None:
    """Between the greatest value at its cost and the least at its own, on a line (figure 4.3)."""
    dataflow, *_ = problem
    best, worst = (
        sum(choose(alternate.worth for alternate in of.values()) for of in dataflow.tasks.values()) / len(
            dataflow.tasks) for choose in (max, min))
    goal = BreakEven(most + spread, most)

    profit = profit_of(
        dataflow, goal, value=worst + part * (best - worst), cost=most + part * spread)

    assert profit == pytest.approx(best + 1)
    assert price_of_value(dataflow, goal) == pytest.approx((best - worst) / spread)
    assert profit_of(dataflow, goal, value=best, cost=most) >= profit - 1e-9, "for less money no less"


@pytest.mark.parametrize("make", [
    lambda: Alternate("a", 0.0, 1.0), lambda: Alternate("a", 1.1, 1.0), lambda: Alternate("a", 1.0, 0.0),
    lambda: Alternate("a", 1.0, math.nan), lambda: ElasticDataflow({"a": {}}),
    lambda: ElasticDataflow(LINE.tasks, (("a", "b"), ("b", "a"))), lambda: ElasticDataflow(LINE.tasks, (("a", "z"),)),
    lambda: VmClass("v", 0, 1.0, 1.0, 1.0), lambda: RentedVm(SMALL, 10.0, 5.0), lambda: BreakEven(1.0, 1.0),
    lambda: ElasticPlacement({}, {"v": RentedVm(SMALL)}, {"a": {"v": 1}, "b": {"v": 1}}),
    lambda: ElasticPlacement({}, {}, {"a": {"v": 1}}), lambda: Conditions({"a": 1.0}, seconds=0.0)])
def test_what_makes_no_sense_is_refused(make) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()
