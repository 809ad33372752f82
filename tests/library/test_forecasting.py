"""The fold of forecasts: at each hour what the pure function gives of the readings before, whatever else happens."""

from __future__ import annotations

import json
from itertools import pairwise
from math import nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.library.forecasting import DAY_MS, HOUR_MS, HourlyForecast
from workers.library.forecasts import DAYS, METHODS, RANDOM, LoadHistory, error_of, forecast, method_of, variances
from workers.library.registry import check, task_types

INTERVAL_MS = HOUR_MS // 4
WIDTH = 24 * 4
MONDAY = 19_723 * DAY_MS  # 1 January 2024


def readings(days: int, *, seed: int = 0, holidays: tuple[int, ...] = ()) -> list[tuple[int, float | None, bool, str]]:
    rng = np.random.default_rng(seed)
    values = (1 + 0.5 * np.sin(np.arange(days * WIDTH) / WIDTH * 2 * np.pi)) * rng.uniform(0.8, 1.2, days * WIDTH)
    missing = rng.random(days * WIDTH) < 0.02
    return [(MONDAY + place * INTERVAL_MS, None if gone else float(value), place // WIDTH in holidays, "c")
            for place, (value, gone) in enumerate(zip(values, missing, strict=True))]


def run(fold: HourlyForecast, events: list, state: dict | None = None) -> tuple[list, dict]:
    """What a fold gives; its state is written and read now and then, as Spark does between batches."""
    state, out = fold.start() if state is None else state, []
    for place, event in enumerate(events):
        out += fold.step(state, *event)
        if place % 97 == 0:
            state = json.loads(json.dumps(state))
    return out, state


def by_function(method: str, events: list, *, hour: int, holidays: tuple[int, ...] = ()) -> tuple[str, list, list]:
    """The forecast of an hour from all readings before it, gone through from the beginning."""
    first = MONDAY // DAY_MS
    day = hour * HOUR_MS // DAY_MS
    series = {at: value for at, value, _, _ in events if at < hour * HOUR_MS}
    rows = np.array([[nan if (value := series.get(number * DAY_MS + place * INTERVAL_MS)) is None else value
                      for place in range(WIDTH)] for number in range(day - DAYS, day)])
    free = [number >= first and ((number - first) % 7 >= 5 or number - first in holidays)
            for number in range(day - DAYS, day)]
    today = np.array([nan if (value := series.get(at)) is None else value
                      for at in range(day * DAY_MS, hour * HOUR_MS, INTERVAL_MS)])
    of = LoadHistory(rows, np.array(free), today, (day - first) % 7 >= 5 or day - first in holidays, 4)
    name = method_of(method, seed=1, customer="c", hour=hour)
    fit = METHODS[name].fit
    return name, forecast(name, of, fit(of.days, of.free, 4) if fit else None).tolist(), variances(of)


@pytest.mark.parametrize("method", [*METHODS, RANDOM])
def test_each_hour_is_what_the_pure_function_says(method):
    holidays = (3, 16)
    events = readings(17, holidays=holidays)
    out, _ = run(HourlyForecast(method, INTERVAL_MS), events)
    assert [row[0] for row in out] == [MONDAY + hour * HOUR_MS for hour in range(1, 17 * 24)]
    before: Any = None
    for row in out[:8] + out[-26:]:
        start, used, values, error, varied = row
        expected = by_function(method, events, hour=start // HOUR_MS, holidays=holidays)
        assert (used, varied) == (expected[0], expected[2]) and values == pytest.approx(expected[1])
        if before is not None and before[0] == start - HOUR_MS:
            came = [value for at, value, _, _ in events if before[0] <= at < start]
            assert error == error_of(np.array([nan if value is None else value for value in came]), np.array(before[2]))
        before = row
    assert any(row[3] for row in out)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([*METHODS, RANDOM]), st.lists(st.integers(0, 4 * WIDTH), max_size=4), st.integers(0, 99))
def test_where_the_stream_is_cut_changes_nothing(method, cuts, seed):
    """Between batches the state is written; a restart goes on with it."""
    events, fold = readings(4, seed=seed), HourlyForecast(method, INTERVAL_MS)
    whole, out, state = [], [], fold.start()
    for event in events:
        whole += fold.step(state, *event)
    bounds, state = [0, *sorted(cuts), len(events)], None
    for begin, end in pairwise(bounds):
        state = fold.start() if state is None else json.loads(json.dumps(state))
        for event in events[begin:end]:
            out += fold.step(state, *event)
    assert out == whole


@pytest.mark.parametrize("first,second", [("tree", "arima"), ("sliding_hour", "tree"), (RANDOM, "caiso")])
def test_one_method_goes_on_with_the_readings_of_another(first, second):
    events = readings(6)
    place = 5 * WIDTH
    _, state = run(HourlyForecast(first, INTERVAL_MS), events[:place])
    _, days = run(HourlyForecast(second, INTERVAL_MS), events[:place])
    switched, _ = run(HourlyForecast(second, INTERVAL_MS), events[place:], state)
    alone, _ = run(HourlyForecast(second, INTERVAL_MS), events[place:], days)
    assert [row[:3] for row in switched] == [row[:3] for row in alone]
    assert [row[3] for row in switched[1:]] == [row[3] for row in alone[1:]]


def test_a_late_reading_corrects_what_is_kept_and_no_forecast():
    events = readings(2)
    late = events[40]
    without = [*events[:40], *events[41:60]]
    fold = HourlyForecast("casce", INTERVAL_MS)
    rest, _ = run(fold, without)
    came, state = run(fold, [*without, late])
    assert came == rest, "nothing comes of it"
    _, whole = run(fold, events[:60])
    assert state["days"] == whole["days"]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(METHODS)), st.lists(st.one_of(
    st.none(), st.floats(), st.sampled_from([0.0, 5e-324, -5e-324, 1e-160, 1e12, -1e12, 1.7e308])), max_size=40))
def test_whatever_comes_what_is_said_is_numbers(method, values):
    """Two days of it, over and over, an hour a reading: overflow, underflow and what is no number."""
    events = [(MONDAY + place * HOUR_MS, value, False, "c") for place, value in enumerate(values * 3)]
    out, state = run(HourlyForecast(method, HOUR_MS // 2), events)
    json.dumps([out, state], allow_nan=False)


def test_no_more_days_are_kept_than_forecasts_read():
    _, state = run(HourlyForecast("casce", INTERVAL_MS), readings(40)[::4])
    assert len(state["days"]) == DAYS + 1


@pytest.mark.parametrize("wrong_days", [-400, -20, 5, 400])
def test_a_reading_whose_time_is_wrong_changes_nothing(wrong_days):
    events = readings(3)
    wrong = (events[150][0] + wrong_days * DAY_MS, 9.0, False, "c")
    fold = HourlyForecast("casce", INTERVAL_MS)
    assert run(fold, [*events[:150], wrong, *events[150:200], wrong, wrong, *events[200:]]) == run(fold, events)


@pytest.mark.parametrize("moved_days", [-400, 5, 400])
def test_where_all_readings_have_another_time_it_counts(moved_days):
    """A meter that was away, or whose clock was set: after an hour it is forecast again, with what is still near."""
    events = readings(3)
    moved = [(at + moved_days * DAY_MS, *rest) for at, *rest in events[200:]]
    out, state = run(HourlyForecast("casce", INTERVAL_MS), [*events[:200], *moved])
    assert out[-1][0] == moved[-1][0] // HOUR_MS * HOUR_MS and len(state["days"]) <= DAYS + 1
    assert (str(MONDAY // DAY_MS) in state["days"]) == (moved_days == 5)


def test_hours_are_those_of_the_customers_clock():
    """Where the clock is half an hour before UTC, so are hours; and a day begins when it does there."""
    events = readings(3)
    out, state = run(HourlyForecast("sliding_hour", INTERVAL_MS, offset_ms=HOUR_MS // 2), events)
    assert {row[0] % HOUR_MS for row in out} == {HOUR_MS // 2}
    assert [len(day[1]) for day in state["days"].values()] == [WIDTH, WIDTH, WIDTH, 2]


def test_an_interval_divides_an_hour():
    problem = check(task_types()["forecast"], {"interval": 420})
    assert "420 s" in problem.message and "900" in problem.remedy
    assert check(task_types()["forecast"], {"interval": 300}) is None
    assert check(task_types()["forecast"], {"by": ["start"]}) is not None
