"""The slope of latency, which one late batch does not bend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.slope import slope


@given(growth=st.floats(-1, 1), start=st.floats(0, 5))
def test_the_slope_of_a_line_is_that_of_the_line(growth: float, start: float):
    at = list(range(30))
    assert slope(at, [start + growth * t for t in at]) == pytest.approx(growth, abs=1e-9)


def test_one_late_batch_bends_no_slope():
    at, latencies = [0.5 * number for number in range(9)], [0.4] * 9
    latencies[-1] = 2.0
    assert slope(at, latencies) == pytest.approx(0.0)


def test_what_says_nothing_has_no_finite_slope():
    assert slope([], []) == slope([1, 1], [1, 2]) == float("inf")
