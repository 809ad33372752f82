"""Forecasts, and who goes by them: what an oracle says, what the averages expect, and what is planned from when on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler.adaptation.adaptation_port import (
    AdaptationProblem,
    AdaptationStep,
    Forecast,
    hour_ends,
    left_of_hour,
    seen,
)
from scheduler.adaptation.adapted_course import OracleForecasts
from scheduler.adaptation.greedy_adaptation import expect_forecast, expect_recent, weight_of
from scheduler.adaptation.greedy_deployment import deploy_centrally
from scheduler.adaptation.look_ahead import adapt_ahead, plan_ahead
from scheduler.adaptation.placement_draft import PlacementDraft
from scheduler.simulation.cloud import Instant
from scheduler.simulation.elastic import Alternate, ElasticDataflow, ElasticPlacement, RentedVm, VmClass
from scheduler.simulation.problem import BreakEven, work_out

from .elastic_cases import QUICK, SMALL, check_placement, generator

PAIR = ElasticDataflow({"a": {"1": Alternate("1", 1.0, 0.1), "2": Alternate("2", 0.9, 0.05)}})


def problem_of(dataflow: ElasticDataflow, **options: object) -> AdaptationProblem:
    return replace(AdaptationProblem(dataflow, (SMALL,), BreakEven(2.0, 1.0), starts_s=120.0), **options)


class Course:
    """What will be: rates that rise, one machine that slows down."""

    def rates_to_come(self, steps: int) -> dict[str, np.ndarray]:
        return {"a": 10.0 + np.arange(steps)}

    def speeds_to_come(self, steps: int) -> dict[str, np.ndarray]:
        return {"v": 1.0 - 0.1 * np.arange(steps)}


def test_an_oracle_without_errors_tells_what_will_be_and_its_word_holds_for_two_decisions() -> None:
    now = Instant(0.0, ElasticPlacement({}), future=Course())
    oracle = OracleForecasts(4, 0.0, 0.0, generator())

    assert oracle.forecast(1, now).rates_per_s["a"].tolist() == [10, 11, 12, 13]
    assert oracle.forecast(2, now).rates_per_s["a"].tolist() == [11, 12, 13]
    assert oracle.forecast(3, now).rates_per_s["a"].tolist() == [10, 11, 12, 13], "asked anew"
    assert oracle.forecast(3, now).speeds["v"] == pytest.approx([1.0, 0.9, 0.8, 0.7])
    with pytest.raises(ValueError, match="only a simulation"):
        OracleForecasts(4, 0.0, 0.0, generator()).forecast(0, Instant(0.0, ElasticPlacement({})))


def test_errors_grow_with_the_horizon_to_twice_the_mean_and_a_bias_is_added() -> None:
    class Steady(Course):
        def rates_to_come(self, steps: int) -> dict[str, np.ndarray]:
            return {"a": np.ones(steps)}

    now, rng = Instant(0.0, ElasticPlacement({}), future=Steady()), generator()
    drawn = np.array([OracleForecasts(5, 0.1, 0.05, rng).forecast(0, now).rates_per_s["a"] for _ in range(4000)])

    assert drawn[:, 0] == pytest.approx(np.full(4000, 1.05)), "of the step to come there is none"
    assert drawn.mean(axis=0) == pytest.approx(np.full(5, 1.05), abs=0.02)
    assert drawn.std(axis=0) == pytest.approx([0, 0.05, 0.1, 0.15, 0.2], abs=0.01)
    assert (drawn >= 0).all()


def test_averages_expect_the_mean_the_best_and_the_worst() -> None:
    problem = problem_of(PAIR)
    placement = ElasticPlacement({"a": "1"}, {"v": RentedVm(SMALL)}, {"a": {"v": 1}})
    worked = work_out(PAIR, placement, problem.conditions({"a": 12.0}))
    now = Instant(7200.0, placement, worked, {"a": 12.0}, {"v": 0.9})
    before = Instant(6900.0, placement, worked, {"a": 8.0}, {"v": 0.7})
    step = AdaptationStep(3, now, (before,), Forecast({"a": (10.0, 20.0, 30.0)}, {"v": (0.5, 1.0, 0.9)}))

    assert (expect_recent(problem, step).rates_per_s, expect_recent(problem, step).speeds) == (
        {"a": 10.0}, {"v": pytest.approx(0.8)})
    best = expect_forecast(problem, step, of_rates=min, of_speeds=max)
    assert (best.rates_per_s, best.speeds, best.waiting) == ({"a": 10.0}, {"v": 1.0}, worked.waiting)
    blind = expect_forecast(problem, replace(step, forecast=None), of_rates=max, of_speeds=min)
    assert blind == seen(problem, now)


def test_a_machine_that_has_just_been_rented_is_expected_to_be_as_quick_as_its_class() -> None:
    problem = problem_of(PAIR)
    placement = ElasticPlacement(
        {"a": "1"}, {"old": RentedVm(SMALL), "new": RentedVm(SMALL, 3300.0)}, {"a": {"old": 1, "new": 1}})
    now = Instant(3600.0, placement, None, {"a": 1.0}, {"old": 0.8, "new": 0.6})
    assert seen(problem, now).speeds == {"old": 0.8}


@pytest.mark.parametrize(("begun_s", "at_s", "left_s", "ends"), [
    (0, 0, 3600, False), (0, 3000, 600, False), (0, 3300, 300, False), (0, 3301, 299, True), (0, 3600, 0, True),
    (600, 4000, 200, True), (0, 3900, 3300, False)])
def test_what_is_left_of_a_paid_hour(begun_s: float, at_s: float, left_s: float, ends: bool) -> None:
    problem = problem_of(PAIR)
    assert (left_of_hour(problem, begun_s, at_s), hour_ends(problem, begun_s, at_s)) == (left_s, ends)
    assert hour_ends(replace(problem, billing="seconds"), begun_s, at_s)


def test_the_weight_of_a_machine_by_hand() -> None:
    """(4.10): 1,800 s left, one of two cores free, one of the task's three instances, 2 cores of speed 2 for 0.24."""
    problem = problem_of(PAIR, classes=(QUICK, SMALL))
    draft = PlacementDraft(PAIR, ElasticPlacement(
        {"a": "1"}, {"q": RentedVm(QUICK), "r": RentedVm(QUICK)}, {"a": {"q": 1, "r": 2}}),
        problem.conditions({"a": 1.0}))
    assert weight_of(draft, problem, "a", "q", 1800.0) == pytest.approx(1800 * 0.5 * (1 - 1 / 3) * (2 * 2.0 / 0.24))
    assert weight_of(draft, problem, "a", "r", 1800.0) == 0, "none of its cores is free"


def test_the_step_at_which_what_runs_no_longer_holds_is_found_and_what_is_due_is_nothing() -> None:
    """8 cores do 80 events/s: enough for 100 in the mean. From the third step on 140 come."""
    problem = problem_of(PAIR, goal=BreakEven(1e6, 0.0), starts_s=0.0)  # money is no matter: no worse alternate
    vms = {f"v{at}": RentedVm(SMALL) for at in range(8)}
    placement = ElasticPlacement({"a": "1"}, vms, {"a": dict.fromkeys(vms, 1)})
    forecast = Forecast({"a": (100.0, 100.0, 140.0, 140.0)}, {})

    plan = plan_ahead(problem, placement, forecast, waiting={}, at_s=0.0)

    assert (plan[0].step, plan[0].placement) == (0, placement)
    assert plan[-1].step >= 1 and sum(plan[-1].placement.cores["a"].values()) > 8
    for planned in plan:
        check_placement(problem, planned.placement)
    due = adapt_ahead(problem, AdaptationStep(
        1, Instant(300.0, placement, None, {"a": 100.0}), (), forecast), rng=generator())
    assert due.cores == placement.cores


def test_machines_for_the_next_step_are_rented_now_where_they_have_to_start() -> None:
    problem = problem_of(PAIR, goal=BreakEven(1e6, 0.0))
    vms = {f"v{at}": RentedVm(SMALL) for at in range(8)}
    placement = ElasticPlacement({"a": "1"}, vms, {"a": dict.fromkeys(vms, 1)})
    now = Instant(300.0, placement, None, {"a": 100.0})
    step = AdaptationStep(1, now, (), Forecast({"a": (100.0, 200.0)}, {}))
    late = AdaptationStep(1, now, (), Forecast({"a": (100.0, 100.0, 100.0, 200.0)}, {}))

    due = adapt_ahead(problem, step, rng=generator())

    assert due.cores == placement.cores, "events of this step do not need them"
    assert set(due.vms) > set(vms)
    assert adapt_ahead(problem, late, rng=generator()) == placement, "there is time"


def test_a_worse_alternate_is_taken_where_cores_cost_more_than_it_is_worth() -> None:
    vms = {f"v{at}": RentedVm(SMALL) for at in range(8)}
    placement = ElasticPlacement({"a": "1"}, vms, {"a": dict.fromkeys(vms, 1)})
    step = AdaptationStep(1, Instant(300.0, placement, None, {"a": 200.0}), (), Forecast({"a": (200.0, 200.0)}, {}))
    dear = VmClass("small", 1, 1.0, 1e6, 0.06)
    for goal, active in ((BreakEven(1e6, 0.0), "1"), (BreakEven(0.02, 0.01), "2")):
        problem = problem_of(PAIR, goal=goal, classes=(dear,))
        assert adapt_ahead(problem, step, rng=generator()).active["a"] == active


def test_a_forecast_says_something_of_each_step() -> None:
    with pytest.raises(ValueError, match="for each of its steps"):
        Forecast({"a": ()})
    with pytest.raises(ValueError, match="for each of its steps"):
        Forecast({"a": (1.0,), "b": (1.0, 2.0)})
    assert Forecast({"a": (1.0, 2.0)}).from_step(5).rates_per_s == {"a": (2.0,)}


def test_what_is_no_problem_is_refused() -> None:
    for options in ({"classes": ()}, {"least": 0.0}, {"least": 1.2}, {"tolerance": -0.1}, {"step_s": 0.0}):
        with pytest.raises(ValueError, match=r"class of machines|Ω̂"):
            problem_of(PAIR, **options)


def test_where_there_is_no_choice_money_counts_nothing() -> None:
    """Of a task without alternates values have no spread, so that (4.9) is 0; it is deployed all the same."""
    single = problem_of(ElasticDataflow({"a": {"1": Alternate("1", 1.0, 0.1)}}))
    assert single.value_of_money == 0
    check_placement(single, deploy_centrally(single, {"a": 10.0}, rng=generator()))
