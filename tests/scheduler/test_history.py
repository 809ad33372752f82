"""Points of history: folding onto coarser grids, and which grain a range is read in."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.history.points import Points, coarser, folded, grid
from scheduler.history.series import (
    GRAINS,
    METRICS,
    MINUTE,
    SECOND,
    TEN_SECONDS,
    Series,
    grain_for,
    metric_named,
    of_limit,
)

VALUES = st.lists(st.one_of(st.floats(0, 1e6, width=32), st.just(math.nan)), min_size=1, max_size=60)


def by_hand(values: list[float], fold: str) -> float:
    present = [value for value in values if not math.isnan(value)]
    if not present:
        return math.nan
    return {"max": max, "min": min}.get(fold, lambda numbers: sum(numbers) / len(numbers))(present)


@given(VALUES, st.sampled_from(["mean", "max", "min"]))
def test_a_group_is_folded_over_what_is_there(values: list[float], fold: str) -> None:
    result = folded(np.array([values, values[::-1]], dtype=np.float32), len(values), fold)
    assert result.shape == (2, 1) and result.dtype == np.float32
    np.testing.assert_allclose(result[:, 0], [by_hand(values, fold)] * 2, rtol=1e-5)


@given(st.integers(0, 10_000), VALUES, st.integers(1, 20), st.sampled_from(["mean", "max", "min"]))
def test_coarser_points_keep_range_and_values(begin: int, values: list[float], most: int, fold: str) -> None:
    points = Points(begin * 10, 10, np.array(values, dtype=np.float32))
    fewer = coarser(points, most, fold)
    assert len(fewer.values) <= most + 1  # a range that does not begin with a bucket has one more
    assert fewer.begin_s % fewer.step_s == 0 or fewer is points
    assert fewer.begin_s <= points.begin_s
    for at_s, value in zip(fewer.times_s.tolist(), fewer.values.tolist(), strict=True):
        within = [old for when, old in zip(points.times_s.tolist(), values, strict=True)
                  if at_s <= when < at_s + fewer.step_s]
        np.testing.assert_allclose(value, by_hand(within, fold), rtol=1e-5)


def test_a_grid_has_every_point_with_a_part_in_the_range() -> None:
    assert grid(100, 130, 10) == (100, 3)
    assert grid(101, 130, 10) == (100, 3)
    assert grid(109, 111, 10) == (100, 2)
    assert grid(100, 100, 10) == (100, 0)


@pytest.mark.parametrize(("ago_s", "length_s", "grain"), [
    (300, 300, SECOND), (900, 900, SECOND), (901, 901, TEN_SECONDS), (86_400, 600, TEN_SECONDS),
    (86_400, 86_400, MINUTE), (90 * 86_400, 3_600, MINUTE), (90 * 86_400, 90 * 86_400, MINUTE)])
def test_a_range_is_read_in_the_finest_grain_that_has_it(ago_s: int, length_s: int, grain: object) -> None:
    now_s = 10_000_000
    assert grain_for(now_s - ago_s, now_s - ago_s + length_s, now_s=now_s, most_points=2_000) is grain


def test_grains_are_whole_multiples_and_metrics_are_well_formed() -> None:
    for fine, coarse in pairwise(GRAINS):
        assert coarse.step_s % fine.step_s == 0 and coarse.keep_s > fine.keep_s
    assert {metric_named(of_limit("latency_limit_ms", number)) for number in range(20)} == {METRICS["latency_limit_ms"]}
    assert [metric_named(name) for name in ("latency_limit_1_ms", "latency_limit_21_ms", "batch_2_ms", "other")] == [
        None] * 4
    assert all(metric.doc.endswith(".") and metric.kinds for metric in METRICS.values())
    assert Series("task", "t", "latency_p99_ms").fold == "max"
    assert Series("task", "t", "of a later version").fold == "mean"
