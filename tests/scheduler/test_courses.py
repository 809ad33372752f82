"""The course of what is wrong: since when, how often, and whether it gets worse."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.history.courses import COMES_AND_GOES, LASTING, NEW, course, trend, trend_of_events
from scheduler.history.series import ALARM, OVER, Annotation

NOW_S = 1_000_000


def notes(**moments: list[int]) -> list[Annotation]:
    return [Annotation(NOW_S - ago_s, what, "query", "f1-0") for what, some in moments.items() for ago_s in some]


@pytest.mark.parametrize(("moments", "since_ago_s", "kind", "began_ago_s", "begun"), [
    ({}, None, LASTING, None, 1),
    ({ALARM: [30]}, None, NEW, 30, 1),
    ({ALARM: [600]}, 3, LASTING, 600, 1),  # tried again three seconds ago, wrong for ten minutes
    ({ALARM: [600], OVER: [500]}, 3, NEW, 3, 1),  # wrong anew, and not recorded yet
    ({ALARM: [9000, 600], OVER: [8000]}, None, LASTING, 600, 2),
    ({ALARM: [1500, 900, 20], OVER: [1200, 600]}, None, COMES_AND_GOES, 20, 3),
    ({ALARM: [9000, 8000, 20], OVER: [8500, 7500]}, None, NEW, 20, 3)])
def test_the_course_says_since_when_and_how_often(
    moments: dict[str, list[int]], since_ago_s: int | None, kind: str, began_ago_s: int | None, begun: int
) -> None:
    since_s = None if since_ago_s is None else NOW_S - since_ago_s
    result = course(notes(**moments), now_s=NOW_S, since_s=since_s)
    assert (result.kind, result.begun) == (kind, begun)
    assert result.since_s == (None if began_ago_s is None else NOW_S - began_ago_s)


@given(st.lists(st.floats(1, 1e6), min_size=6, max_size=60), st.floats(1.6, 50))
def test_what_grows_is_rising_and_backwards_falling(noise: list[float], times: float) -> None:
    level = [100 + value / 1e6 for value in noise]
    growing = [value * times ** (index / (len(level) - 1) * 3) for index, value in enumerate(level)]
    assert trend(level) == "level"
    assert trend(growing) == "rising" and trend(growing[::-1]) == "falling"
    with_gaps = [value for pair in ((value, math.nan) for value in growing) for value in pair]
    assert trend(with_gaps) == "rising"


@pytest.mark.parametrize("values", [[], [1.0] * 5, [None] * 30, [1.0] * 10 + [None] * 10])
def test_of_too_little_nothing_is_said(values: list[float | None]) -> None:
    assert trend(values) == "unknown"


@pytest.mark.parametrize(("ago_s", "way"), [
    ([], "unknown"), ([5], "unknown"), ([5, 10, 15, 70], "rising"), ([55, 60, 70, 5], "falling"),
    ([5, 10, 60, 70], "level"), ([5, 60], "level"), ([500, 600, 700], "unknown")])
def test_what_happens_more_often_is_rising(ago_s: list[int], way: str) -> None:
    assert trend_of_events([NOW_S - moment for moment in ago_s], now_s=NOW_S, over_s=100) == way
