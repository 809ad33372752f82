"""Forecasts of consumption: each is held to a plain reading of its rule, with loops, on small histories."""

from __future__ import annotations

import json
from math import isnan, nan
from statistics import fmean, pvariance

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.library.forecasts import (
    DAYS,
    METHODS,
    ORDER,
    RANDOM,
    LoadHistory,
    error_of,
    fit_arima,
    fit_tree,
    forecast,
    method_of,
    variances,
)
from workers.library.predict import FORECAST_METHODS

STEPS = 2  # readings of an hour: a day has 48
WIDTH = 24 * STEPS


def history(
    seed: int = 0, *, hour: int = 9, today_free: bool = False, days: int = DAYS, gaps: float = 0.0
) -> LoadHistory:
    rng = np.random.default_rng(seed)
    shape = 1 + 0.5 * np.sin(np.arange(WIDTH) / WIDTH * 2 * np.pi)
    readings = shape * rng.uniform(0.5, 2.0, size=(days, 1)) + rng.uniform(0, 0.3, size=(days, WIDTH))
    today = (shape * rng.uniform(0.5, 2.0) + rng.uniform(0, 0.3, size=WIDTH))[:hour * STEPS]
    readings[rng.random(readings.shape) < gaps] = nan
    today[rng.random(today.shape) < gaps] = nan
    free = np.array([(place + 1) % 7 >= 5 for place in range(days)], dtype=bool)
    return LoadHistory(readings, free, today, today_free, STEPS)


def forecast_by(name: str, of: LoadHistory) -> list[float]:
    fit = METHODS[name].fit
    return forecast(name, of, fit(of.days, of.free, of.steps) if fit else None).tolist()


def average(values) -> float:
    numbers = [value for value in values if not isnan(value)]
    return fmean(numbers) if numbers else nan


# the rules of utilities, read plainly ---------------------------------------------------------------------------------

RULES = {  # days left out; highest of working days, of others; hours before, from and to; most correction
    "nyiso": (1, 5, 2, 4, 2, 0.2), "casce": (0, 10, 3, 4, 1, 0.4), "caiso": (0, 3, 3, 4, 1, 0.2)}


def by_rule(name: str, of: LoadHistory) -> list[float]:
    skip, most, free_most, begin_h, end_h, bound = RULES[name]
    candidates = [(day.tolist(), bool(free)) for day, free in zip(of.days, of.free, strict=True)]
    candidates = candidates[:len(candidates) - skip]
    similar = [day for day, free in candidates if free == of.today_free and not all(map(isnan, day))]
    similar = similar[-(3 if of.today_free else 10):]
    highest = sorted(similar, key=lambda day: -average(day))[:free_most if of.today_free else most]
    baseline = [average(day[place] for day in highest) for place in range(WIDTH)]
    now = len(of.today)
    whole = [*of.days.ravel().tolist(), *of.today.tolist()]
    actual = expected = 0.0
    for back in range(begin_h * STEPS, end_h * STEPS, -1):
        came, thought = whole[len(whole) - back], baseline[(now - back) % WIDTH]
        if not isnan(came) and not isnan(thought):
            actual, expected = actual + came, expected + thought
    factor = max(1 - bound, min(1 + bound, actual / expected)) if expected else 1.0
    return [factor * baseline[now + step] for step in range(STEPS)]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(RULES)), st.integers(0, 10_000), st.integers(0, 23), st.booleans(),
       st.sampled_from([0.0, 0.1]))
def test_averages_of_similar_days_are_those_of_the_rule(name, seed, hour, free, gaps):
    of = history(seed, hour=hour, today_free=free, gaps=gaps)
    assert forecast_by(name, of) == pytest.approx(by_rule(name, of))


@pytest.mark.parametrize("name", RULES)
def test_the_correction_is_bounded(name):
    """A day at ten times its usual level: the average goes up by the bound and no more."""
    usual = np.ones((DAYS, WIDTH))
    free = history().free
    for level, bound in ((10.0, 1 + RULES[name][5]), (0.1, 1 - RULES[name][5]), (1.05, 1.05)):
        of = LoadHistory(usual, free, np.full(20, level), False, STEPS)
        assert forecast_by(name, of) == pytest.approx([bound] * STEPS)


def test_without_similar_days_all_days_count():
    of = LoadHistory(np.full((DAYS, WIDTH), 2.0), np.zeros(DAYS, dtype=bool), np.full(20, 2.0), True, STEPS)
    assert forecast_by("casce", of) == [2.0] * STEPS


# the others -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hour", [0, 1, 23])
def test_sliding_windows(hour):
    of = history(3, hour=hour)
    whole = [*of.days.ravel(), *of.today]
    assert forecast_by("sliding_hour", of) == pytest.approx([fmean(whole[-STEPS:])] * STEPS)
    profile = [fmean(day[place] for day in of.days[-3:]) for place in range(WIDTH)]
    now = len(of.today)
    level = fmean(whole[-STEPS:]) / fmean(profile[(now - back) % WIDTH] for back in range(1, STEPS + 1))
    assert forecast_by("sliding_days", of) == pytest.approx([profile[now + step] * level for step in range(STEPS)])


def test_the_last_hour_with_readings_counts():
    unknown, working = np.full((DAYS, WIDTH), nan), np.zeros(DAYS, dtype=bool)
    of = LoadHistory(unknown, working, np.array([5.0, 7.0, nan, nan]), False, STEPS)
    assert [forecast_by(name, of) for name in METHODS] == [[6.0] * STEPS] * len(METHODS)
    nothing = LoadHistory(unknown, working, np.full(4, nan), False, STEPS)
    assert [forecast(name, nothing, None) for name in METHODS] == [None] * len(METHODS)


@pytest.mark.parametrize("gaps", [0.0, 0.05])
def test_the_tree_is_scikit_learns(gaps):
    from sklearn.tree import DecisionTreeRegressor  # a second or two of CPU, in each process that collects tests

    of = history(5, hour=7, gaps=gaps)
    rows, targets = [], []
    for day in range(1, DAYS):
        for place in range(WIDTH):
            at = day * WIDTH + place
            begin = at - at % STEPS
            hour_before = average(of.days.ravel()[begin - STEPS:begin])
            row = [place, of.free[day], of.days[day - 1, place], hour_before]
            if not any(isnan(value) for value in (*row, of.days[day, place])):
                rows.append(row)
                targets.append(of.days[day, place])
    tree = DecisionTreeRegressor(max_depth=8, min_samples_leaf=10, random_state=0).fit(rows, targets)
    level = average([*of.days.ravel(), *of.today][-STEPS:])
    now = [[7 * STEPS + step, False, of.days[-1, 7 * STEPS + step], level] for step in range(STEPS)]
    whole = [index for index, row in enumerate(now) if not any(map(isnan, row))]
    assert whole and [forecast_by("tree", of)[index] for index in whole] == pytest.approx(
        tree.predict([now[index] for index in whole]).tolist())


def test_the_autoregression_is_found_again():
    """A series that is an autoregression of its differences from the day before: coefficients and next readings."""
    rng = np.random.default_rng(1)
    true, width, count = [0.3, -0.2, 0.1, 0.05], 288, 40 * 288
    series = list(rng.normal(5, 0.1, size=width))
    differences = [0.0] * ORDER
    for at in range(width, count):
        step = 0.01 + sum(weight * differences[-1 - lag] for lag, weight in enumerate(true)) + rng.normal(0, 0.05)
        differences.append(step)
        series.append(series[at - width] + step)
    days = np.array(series).reshape(-1, width)
    coefficients = fit_arima(days, np.zeros(len(days), dtype=bool), 12)
    assert coefficients == pytest.approx([0.01, *true], abs=0.03)
    of = LoadHistory(days, np.zeros(len(days), dtype=bool), np.array([]), False, 12)
    expected, ahead = [], differences[:]
    for step in range(12):
        ahead.append(coefficients[0] + sum(weight * ahead[-1 - lag] for lag, weight in enumerate(coefficients[1:])))
        expected.append(series[-width + step] + ahead[-1])
    assert forecast("arima", of, coefficients).tolist() == pytest.approx(expected)


def test_what_is_learned_is_what_json_can_say():
    of = history(2)
    for fit in (fit_tree, fit_arima):
        learned = fit(of.days, of.free, STEPS)
        assert json.loads(json.dumps(learned)) == learned
        assert fit(of.days[:1], of.free[:1], STEPS) is None
        assert fit(np.full_like(of.days, nan), of.free, STEPS) is None


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(METHODS)), st.integers(0, 1000), st.integers(0, 23), st.integers(1, DAYS),
       st.sampled_from([0.0, 0.3, 0.9]))
def test_any_history_with_a_reading_has_a_forecast(name, seed, hour, days, gaps):
    of = history(seed, hour=hour, days=days, gaps=gaps)
    if not np.isnan(of.series).all():
        values = forecast_by(name, of)
        assert len(values) == STEPS and np.isfinite(values).all()


# figures --------------------------------------------------------------------------------------------------------------


def test_variances_are_shares_of_the_squared_mean():
    hour = [1.0, 2.0, nan, 4.0, 4.0, 4.0, 1.0, nan]
    of = LoadHistory(np.ones((1, 24 * 8)), np.array([False]), np.array(hour), False, 8)
    numbers = [value for value in hour if not isnan(value)]
    square = fmean(numbers) ** 2
    assert variances(of) == pytest.approx([pvariance([1, 2]) / square, None, 0.0, None, pvariance(numbers) / square])
    scaled = LoadHistory(of.days, of.free, of.today * 50, False, 8)
    assert variances(scaled) == pytest.approx(variances(of))
    assert variances(LoadHistory(of.days, of.free, np.zeros(8), False, 8)) == [None] * 5


def test_errors_are_of_the_readings_that_came():
    assert error_of(np.array([2.0, nan, 0.0, -4.0]), np.array([1.0, 1.0, 1.0, -5.0])) == pytest.approx((0.5 + 0.25) / 2)
    assert error_of(np.array([nan, 0.0]), np.array([1.0, 1.0])) is None


def test_chance_is_of_seed_customer_and_hour():
    def drawn(customer: str, seed: int = 1) -> list[str]:
        return [method_of(RANDOM, seed=seed, customer=customer, hour=hour) for hour in range(1_400)]

    assert drawn("a") == drawn("a") and all(150 < drawn("a").count(name) < 250 for name in METHODS)
    assert len({tuple(drawn("a")), tuple(drawn("b")), tuple(drawn("a", seed=2))}) == 3
    assert method_of("tree", seed=1, customer="a", hour=3) == "tree"


def test_each_method_says_what_it_does():
    assert list(FORECAST_METHODS) == [*METHODS, RANDOM]
