"""Forecasts of measured courses: errors by a reference of its own, what is chosen, and when averages decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.adaptation.adaptation_port import AdaptationStep, Forecast
from scheduler.adaptation.adapted_course import LearnedForecasts
from scheduler.adaptation.course_forecasts import (
    AVERAGES,
    METHODS,
    MOST_SAMPLES,
    ORIGINS,
    RECENT,
    TOO_WRONG,
    backtest,
    forecast_course,
    forecast_from,
    origins_of,
)
from scheduler.adaptation.scenarios import expected_scenarios, movement
from scheduler.simulation.cloud import Instant
from scheduler.simulation.elastic import ElasticPlacement, RentedVm
from scheduler.simulation.problem import work_out

from .elastic_cases import SMALL, generator
from .test_adaptations import line_problem

courses = st.lists(st.floats(0.0, 1000.0), min_size=1, max_size=120)


@settings(max_examples=60, deadline=None)
@given(courses, st.integers(1, 6), st.integers(2, 24))
def test_errors_are_what_adding_up_by_hand_gives(course: list[float], steps: int, season: int) -> None:
    samples = np.array(course)
    origins = origins_of(len(samples), steps, season)
    for name, method in METHODS.items():
        errors = backtest(samples, steps, season, method, origins) if origins else None
        if errors is None:
            continue
        wrong, off, came = [0.0] * steps, 0.0, 0.0
        for origin in origins:
            forecast = method(np.array(course[:origin]), steps, season)
            assert forecast is not None and len(forecast) == steps, name
            actual = course[origin:origin + steps]
            assert len(actual) == steps, "all that is forecast is known"
            for at in range(steps):
                wrong[at] += abs(float(forecast[at]) - actual[at]) / len(origins)
            off += ((sum(map(float, forecast)) - sum(actual)) / steps) ** 2 / len(origins)
            came += sum(actual) / steps / len(origins)
        if came > 1e-6:
            assert errors.by_step == pytest.approx([error / came for error in wrong], rel=1e-6, abs=1e-9)
            assert errors.of_mean == pytest.approx(math.sqrt(off) / came, rel=1e-6, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(courses, st.integers(1, 6), st.integers(2, 24))
def test_a_forecast_is_of_every_step_never_below_0_and_says_what_it_rests_on(
    course: list[float], steps: int, season: int
) -> None:
    forecast = forecast_course(course, steps, season=season)
    assert len(forecast.values) == steps and (forecast.values >= 0).all() and np.isfinite(forecast.values).all()
    assert (forecast.method == AVERAGES) == bool(forecast.why_averages)
    if forecast.method == AVERAGES:
        assert forecast.values == pytest.approx(np.full(steps, np.mean(course[-RECENT:])))
    else:
        assert forecast.errors is not None and forecast.errors.total < TOO_WRONG
        assert forecast.others is not None and forecast.errors.total < forecast.others[AVERAGES].total


def test_what_is_stated_has_no_part_in_the_choice_and_uses_nothing_that_came_later() -> None:
    """A course whose second half is another: the stated error is that of the second half alone."""
    rng = generator(3)
    samples = np.concatenate([np.full(200, 10.0), 50.0 + 20.0 * rng.uniform(-1.0, 1.0, 200)])
    seen_by = []

    def watched(some: np.ndarray, steps: int, season: int) -> np.ndarray:
        seen_by.append(len(some))
        return np.full(steps, some[-1])

    origins = origins_of(len(samples), 4, 1000)
    backtest(samples, 4, 1000, watched, origins)
    assert seen_by == origins and max(origins) + 4 <= len(samples)
    forecast = forecast_course(samples, 4, season=1000)
    assert forecast.errors is not None and forecast.errors.origins == len(origins) - len(origins) // 2


def test_a_day_that_comes_again_is_forecast_by_the_days_before() -> None:
    rng, day = generator(1), 288
    clean = 40.0 + 30.0 * np.sin(2 * np.pi * np.arange(7 * day + 12) / day)
    samples = clean * (1 + rng.uniform(-0.05, 0.05, len(clean)))
    forecast = forecast_course(samples[:7 * day], 12, season=day)
    assert forecast.method == "season" and forecast.errors is not None
    assert forecast.errors.total < 0.05
    assert forecast.values == pytest.approx(clean[7 * day:], rel=0.1)


def test_where_nothing_can_be_foreseen_averages_decide_and_say_so() -> None:
    noise = 50.0 * generator(2).uniform(0.0, 2.0, 600)
    forecast = forecast_course(noise, 6, season=100)
    assert forecast.method == AVERAGES and "recent mean" in forecast.why_averages
    assert forecast_course([5.0], 3, season=288).why_averages.startswith("Too little is known")
    ramps = np.tile(np.concatenate([np.linspace(1.0, 100.0, 8), np.zeros(8)]), 40)
    strict = forecast_course(ramps, 2, season=100, too_wrong=1e-6)
    assert strict.method == AVERAGES and strict.why_averages


def test_gaps_are_bridged_and_how_much_is_looked_at_is_bounded() -> None:
    assert forecast_course([math.nan, 4.0, math.nan], 2, season=9).values.tolist() == [4.0, 4.0]
    for measured, steps in (([math.nan], 2), ([], 1), ([1.0], 0)):
        with pytest.raises(ValueError, match="a sample or more"):
            forecast_course(measured, steps, season=9)
    long = np.concatenate([np.full(1000, 1e9), np.full(MOST_SAMPLES, 2.0)])
    assert forecast_course(long, 3, season=288).values == pytest.approx([2.0, 2.0, 2.0])
    assert len(origins_of(MOST_SAMPLES, 12, 288)) <= ORIGINS


def step_with(rates: list[float], forecast: Forecast) -> AdaptationStep:
    """A decision after these rates."""
    problem = line_problem()
    placement = ElasticPlacement(
        dict.fromkeys("abc", "1"), {"v": RentedVm(SMALL), "w": RentedVm(SMALL), "x": RentedVm(SMALL)},
        {"a": {"v": 1}, "b": {"w": 1}, "c": {"x": 1}})
    instants = [Instant(300.0 * (at + 1), placement, work_out(problem.dataflow, placement, problem.conditions(
        {"a": rate})), {"a": rate}, {"v": 1.0}) for at, rate in enumerate(rates)]
    return AdaptationStep(len(rates), instants[-1], tuple(instants[:-1]), forecast)


def test_the_worse_a_forecast_the_more_is_decided_as_without_one() -> None:
    problem = line_problem()

    def middle(error: float) -> float:
        some = expected_scenarios(problem, step_with([10.0, 11.0, 10.0, 9.0, 10.0], Forecast(
            {"a": (20.0, 20.0)}, error=error)))
        return sum(conditions.rates_per_s["a"] for conditions in some) / len(some)

    expected = [middle(error) for error in (0.0, 0.05, 0.2, 1.0, 50.0)]
    assert expected[0] == 20.0 and expected == sorted(expected, reverse=True)
    assert expected[-1] == pytest.approx(10.0, rel=0.01)


def test_scenarios_have_the_spread_that_is_left_and_without_history_the_forecasts_own() -> None:
    problem = line_problem()
    high, low = expected_scenarios(problem, step_with([10.0], Forecast({"a": (20.0,)}, error=0.1)))
    assert (high.rates_per_s["a"], low.rates_per_s["a"]) == pytest.approx((22.0, 18.0))
    assert math.isinf(movement({"a": [1.0, 2.0]}, 2))
    assert movement({"a": [10.0, 12.0, 12.0, 12.0]}, 1) == pytest.approx(0.2 / math.sqrt(3))


def test_what_a_simulation_forecasts_from_is_what_was_seen_in_it() -> None:
    forecasts = LearnedForecasts(3, 24, {"a": [10.0] * 50})
    forecast = forecasts.forecast(1, step_with([10.0], Forecast({"a": (1.0,)})).now)
    assert forecast.rates_per_s["a"] == pytest.approx([10.0, 10.0, 10.0])
    assert forecast.speeds["v"] == pytest.approx([1.0, 1.0, 1.0])
    assert forecasts.stated["a"].why_averages
    later = forecasts.forecast(2, step_with([10.0, 30.0], Forecast({"a": (1.0,)})).now)
    assert later.steps == 2, "its word holds for two decisions"
    assert forecast_from(forecasts.stated, {}).error == pytest.approx(0.0)
