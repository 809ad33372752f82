"""The bench of killed bundles sees each row that is missing, doubled, wrong, or out of its key's order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benches.counted_output import DisturbedOutput, check_counts

KEYS = 3
# By key how many events it has had, and in which order keys take turns in the output.
OUTPUTS = st.lists(st.integers(0, KEYS - 1), min_size=KEYS, max_size=40)


def _rows(turns: list[int]) -> list[tuple[int, int]]:
    """Number and count of each row of an output, by a plain loop."""
    counts, rows = [0] * KEYS, []
    for key in turns:
        rows.append((key + KEYS * counts[key], counts[key] + 1))
        counts[key] += 1
    return rows


def _check(rows: list[tuple[int, int]]) -> int:
    numbers, counts = np.array(rows).reshape(-1, 2).T
    return check_counts(numbers, counts, KEYS)


@given(OUTPUTS)
def test_an_undisturbed_output_passes_however_keys_take_turns(turns: list[int]) -> None:
    assert _check(_rows(turns)) == min(turns.count(key) for key in range(KEYS))


@given(OUTPUTS, st.data())
def test_a_disturbed_one_does_not(turns: list[int], data: st.DataObject) -> None:
    rows = _rows(turns)
    place = data.draw(st.integers(0, len(rows) - 1))
    number, count = rows[place]
    later = [other for other in range(place + 1, len(rows)) if rows[other][0] % KEYS == number % KEYS]
    disturbed = [[*rows[:place], rows[place], *rows[place:]],
                 [*rows[:place], (number, count + 1), *rows[place + 1:]]]
    if later:
        disturbed.append([*rows[:place], *rows[place + 1:]])
        swapped = list(rows)
        swapped[place], swapped[later[0]] = rows[later[0]], rows[place]
        disturbed.append(swapped)
    for wrong in disturbed:
        with pytest.raises(DisturbedOutput):
            _check(wrong)
