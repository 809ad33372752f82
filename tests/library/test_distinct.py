"""HyperLogLog against a straightforward one, and against the truth."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.library.distinct import DistinctCount
from workers.library.folds import hash64


def plain_estimate(values: set[str], precision: int) -> float:
    """The estimate from all values at once, with registers in a dictionary and bits in a string."""
    registers: dict[str, int] = {}
    for value in values:
        bits = f"{hash64(value):064b}"
        place, rest = bits[:precision], bits[precision:]
        rank = len(rest) - len(rest.lstrip("0")) + 1
        registers[place] = max(rank, registers.get(place, 0))
    size = 2**precision
    empty = size - len(registers)
    alpha = {4: 0.673, 5: 0.697, 6: 0.709}.get(precision, 0.7213 / (1 + 1.079 / size))
    raw = alpha * size**2 / (empty + sum(2.0**-rank for rank in registers.values()))
    return size * math.log(size / empty) if raw <= 2.5 * size and empty else raw


def run(fold: DistinctCount, values: list[str | None]) -> list[list[tuple]]:
    state = fold.start()
    return [list(fold.step(state, value)) for value in values]


@given(st.lists(st.none() | st.integers(0, 30).map(str), max_size=80), st.integers(4, 8))
def test_a_running_count_is_that_of_all_values_so_far(values, precision):
    counted: list[str] = []
    for value, output in zip(values, run(DistinctCount(precision, 0), values), strict=True):
        if value is None:
            assert output == []
            continue
        counted.append(value)
        assert output == [(pytest.approx(plain_estimate(set(counted), precision)), len(counted))]


@given(st.lists(st.integers(0, 30).map(str), max_size=60), st.integers(1, 10))
def test_a_window_counts_itself_alone(values, window):
    outputs = [output for outputs in run(DistinctCount(6, window), values) for output in outputs]
    blocks = [values[start:start + window] for start in range(0, len(values) - window + 1, window)]
    assert outputs == [(pytest.approx(plain_estimate(set(block), 6)), window) for block in blocks]


@pytest.mark.parametrize("truth", [10, 300, 5_000, 20_000])
def test_the_error_is_what_the_precision_promises(truth):
    fold = DistinctCount(precision=10, window=0)
    state = fold.start()
    for number in range(truth):
        [(count, _)] = fold.step(state, f"sensor-{number}")
    assert count == pytest.approx(truth, rel=4 * 1.04 / math.sqrt(2**10))
