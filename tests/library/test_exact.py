"""Exact sums and what is made of them: no grouping changes a bit."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.canonical import canonical_config
from workers.library import registry
from workers.library.exact import ExactAverage, ExactSum, RollUp

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NASTY = FINITE | st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 1.0, 5e-324, 1.7e308, -0.0])


def summed(numbers):
    total = ExactSum()
    for number in numbers:
        total = total + ExactSum.of(number)
    return total


@given(st.lists(NASTY, min_size=1, max_size=30))
def test_a_sum_is_exact_and_its_mean_is_rounded_once(numbers):
    total, exact = summed(numbers), sum(map(Fraction, numbers))
    assert Fraction(total.mantissa) * Fraction(2) ** total.exponent == exact
    assert total.mean(len(numbers)) == float(exact / len(numbers))


@given(st.lists(NASTY | st.just(math.inf) | st.just(-math.inf), min_size=1, max_size=20), st.data())
def test_how_parts_are_grouped_changes_no_bit(numbers, data):
    cut = data.draw(st.integers(0, len(numbers)))
    parts = summed(numbers[:cut]) + ExactSum.parse(str(summed(numbers[cut:])))
    assert str(parts) == str(summed(numbers)) == str(summed(data.draw(st.permutations(numbers))))


def run(fold, readings):
    state = fold.start()
    return [out for reading in readings for out in fold.step(state, *reading)]


@given(
    st.lists(st.none() | NASTY | st.just(math.inf) | st.just(-math.inf), max_size=60), st.integers(1, 4),
    st.integers(2, 4))
def test_blocks_of_blocks_are_the_longer_blocks_to_the_last_bit(readings, window, blocks):
    readings = [(reading,) for reading in readings]
    fine = run(ExactAverage(window), readings)
    rolled = run(RollUp(blocks), [(count, total) for _, count, total in fine])
    assert list(map(repr, rolled)) == list(map(repr, run(ExactAverage(window * blocks), readings)))


def test_a_floating_point_sum_would_not_do():
    """Why block_average has no rule: its sums depend on where blocks begin."""
    assert (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3)
    assert summed([0.1, 0.2]) + summed([0.3]) == summed([0.1]) + summed([0.2, 0.3])


def contains(name, wide, narrow):
    task_type = registry.task_types()[name]
    return registry.refinement(task_type, canonical_config(task_type, wide), canonical_config(task_type, narrow))


@pytest.mark.parametrize(
    ("name", "wide", "narrow", "is_contained"),
    [
        ("range_filter", {"ranges": {"t": [0, 40]}}, {"ranges": {"t": [0, 30]}}, True),
        ("range_filter", {"ranges": {"t": [0, 40]}}, {"ranges": {"t": [0, 40], "u": [1, 2]}}, True),
        ("range_filter", {"ranges": {"t": [0, 40], "u": [1, 2]}}, {"ranges": {"t": [0, 30]}}, False),
        ("range_filter", {"ranges": {"t": [0, 40]}}, {"ranges": {"t": [-1, 30]}}, False),
        ("range_filter", {"ranges": {"t": [0, 40]}}, {"ranges": {"t": [0, 40]}}, False),
        ("range_filter", {"ranges": {"t": [0, 40]}, "outside": "blank"}, {"ranges": {"t": [0, 30]}}, False),
        ("range_filter", {"ranges": {"t": [0, 40]}}, {"ranges": {"t": [0, 30]}, "outside": "blank"}, False),
        ("range_filter", {"ranges": {"t": [0, 40]}, "outside": "blank"},
         {"ranges": {"t": [0, 30]}, "outside": "blank"}, True),
        ("bloom_filter", {"members": ["a", "b"]}, {"members": ["b"]}, True),
        ("bloom_filter", {"members": ["a", "b"]}, {"members": ["b", "c"]}, False),
        ("bloom_filter", {"members": ["a", "b"]}, {"members": ["b"], "expected_insertions": 7}, False),
        ("bloom_filter", {"prefix": "s", "count": 9}, {"prefix": "s", "count": 4}, True),
        ("bloom_filter", {"prefix": "s", "count": 9}, {"prefix": "u", "count": 4}, False),
        ("exact_average", {"window": 5}, {"window": 60}, True),
        ("exact_average", {"window": 7}, {"window": 60}, False),
        ("exact_average", {"window": 60}, {"window": 60}, False),
        ("exact_average", {"window": 5, "fields": ["t"]}, {"window": 60}, False),
        ("exact_average", {"window": 5, "by": ["obs"]}, {"window": 60}, False),
        ("block_average", {"window": 5}, {"window": 60}, False),
    ],
)
def test_what_is_contained_in_what(name, wide, narrow, is_contained):
    assert (contains(name, wide, narrow) is not None) == is_contained
