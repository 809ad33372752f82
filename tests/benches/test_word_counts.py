"""The bench of word counts knows a wrong count, and counts as the window that it measures should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.fragment import RunningTask
from tests.benches.copied_counts import ARRIVED_MS, LINE_MS
from tests.benches.recordings import BEGAN_MS
from tests.benches.word_counts import (
    OVERLAPS,
    TOTAL_S,
    CountedText,
    CountingRun,
    WrongCounts,
    compare,
    lines_of,
    tasks_of,
    window_ms,
)
from workers.library.config import settings
from workers.library.operators import WINDOW, window_fold

TEXT = CountedText.of(4_000)  # some minutes: windows of 15 close on the way
EXPECTED = TEXT.counted("15 min")
ROWS = [{"word": word, "window_start": start_ms, "window_end": end_ms, "times": times, "late": 0}
        for (word, start_ms, end_ms), times in EXPECTED.items()]
WRONG = {
    "missing": lambda row: [], "twice": lambda row: [row, row],
    "one less": lambda row: [row | {"times": row["times"] - 1}],
    "of another window": lambda row: [row | {"window_end": row["window_end"] + LINE_MS}],
    "of another word": lambda row: [row | {"word": row["word"] + "2"}], "late": lambda row: [row | {"late": 1}]}


@given(place=st.integers(0, len(ROWS) - 1), way=st.sampled_from(sorted(WRONG)))
def test_one_wrong_count_of_all_fails(place: int, way: str) -> None:
    rows = [*ROWS[:place], *WRONG[way](ROWS[place]), *ROWS[place + 1:]]
    with pytest.raises(WrongCounts, match=r"^[12] of"):
        compare(EXPECTED, rows)


def test_right_counts_pass_in_any_order() -> None:
    assert compare(EXPECTED, reversed(ROWS)) == len(EXPECTED) > 1_000


@pytest.mark.parametrize("count", ["total", "15 min"])
def test_plain_python_counts_what_the_fold_counts(count: str) -> None:
    fold = _fold(tasks_of(count)["counts"])
    state, rows, seq = fold.start(), [], 0
    lines = [*((BEGAN_MS + LINE_MS * number, line) for number, line in enumerate(TEXT.lines)),
             (BEGAN_MS + 2000 * TOTAL_S, "closing")]
    for time_ms, line in lines:
        for word in line.split(" "):
            rows += fold.step(state, word, time_ms, seq, ARRIVED_MS, word, None)
            seq += 1
    names = ("_seq", "_time", "_born", "word", "window_start", "window_end", "times", "late")
    expected = TEXT.counted(count)
    assert compare(expected, [dict(zip(names, row, strict=True)) for row in rows]) == len(expected)
    assert seq == TEXT.words and sum(expected.values()) == (seq - 1) * (1 if count == "total" else OVERLAPS)
    assert {end_ms - start_ms for _, start_ms, end_ms in expected} == {window_ms(count)[0]}


def _fold(task: RunningTask) -> Any:
    return window_fold(settings(WINDOW, task.config))[1]


def test_a_round_that_time_cut_short_counts_for_nothing() -> None:
    def run(cpu_s: float) -> CountingRun:
        return CountingRun(words=1_000, cpu_s=cpu_s, other_cpu_s=1.0, whole=2, state_kb=9, rows=5)

    runs = {("total", 0): [run(1.0)], ("total", 1): [run(1.25), run(9.0)], ("1 h", 0): [], ("1 h", 1): [run(1.0)]}
    runs |= {("15 min", 0): [run(1.0)], ("15 min", 1): [replace(run(1.25), whole=0)]}  # no copy, no cost
    assert [(line["count"], line["copies"], line["rounds"], line["words a core-second"], line["less"])
            for line in lines_of(runs, [0, 1])] == [("total", 0, 1, 1_000, "0%"), ("total", 1, 1, 800, "20%"),
        ("15 min", 0, 1, 1_000, "0%"), ("15 min", 1, 1, 800, None)]
