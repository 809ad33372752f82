"""Operators on Spark: batches and restarts change nothing, and what travels through a state arrives as it was."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime

import pytest

from workers.library.state import going_on

from .conftest import START_MS, build

pytestmark = pytest.mark.spark
EVENTS = ("_seq bigint, _time bigint, _born bigint, sensor string, n bigint, value double, ok boolean, at timestamp, "
          "tags array<string>, place struct<x:double,y:int>, d date")


def events(count: int) -> list[tuple]:
    """Events of two sensors, some late, with what text, pandas and JSON could lose."""
    chance = random.Random(3)
    return [(
        seq, START_MS + seq * 1000 - chance.choice([0, 0, 0, 4_000, 30_000]), START_MS + seq * 1000 + 500,
        chance.choice(["a", "b", None]), chance.choice([2**53 + seq % 3, None, -1]),
        chance.choice([1.5, math.nan, math.inf, None, -0.0, 0.1 + 0.2]), chance.choice([True, None]),
        datetime(2024, 1, 1, 12, 0, 0, 123_456 + seq % 2, tzinfo=UTC), chance.choice([None, [], ["x", None]]),
        chance.choice([None, {"x": 0.5, "y": None}]), date(2024, 2, 29),
    ) for seq in range(count)]


CONFIGS = {
    "deduplicate": {"by": ["sensor", "n"], "within": 5},
    "window": {"aggregates": ["count=count(*)", "mean=avg(n)", "last=last(value)", "on=max(ok)", "all=collect(value)"],
               "size": 10, "by": ["sensor", "n"], "lateness": 2, "late": "mark"},
    "window, sessions": {"aggregates": ["count=count(*)"], "kind": "session", "size": 3, "by": ["sensor"]},
    "join": {"on": ["sensor"], "left": "n > 0", "right": "value IS NOT NULL AND n IS NULL", "before": 4, "after": 4,
             "left_columns": ["n", "at", "tags"], "right_columns": ["value", "right_place=place"], "unmatched": "emit",
             "lateness": 10, "late": "mark"},
}


@pytest.mark.parametrize("case", [  # sessions are kept as other windows are: test_windows.py
    pytest.param(case, marks=pytest.mark.long) if case == "window, sessions" else case for case in CONFIGS])
def test_batches_and_restarts_change_nothing(case, stream, tmp_path):
    """Nor does it that state is kept by key, as it is where there is much."""
    name, config = case.partition(",")[0], CONFIGS[case]
    rows = events(90)
    whole = stream(EVENTS)
    whole.add(rows, sizes=[])
    expected = whole.run(lambda frame: build(name, frame, **config))

    def by_key(frame):
        with going_on("t", stores=tmp_path / "folds", fragment="f1-0", large=40):
            return build(name, frame, **config)

    cut = stream(EVENTS)
    cut.add(rows[:70], sizes=[1, 30])  # each batch costs seconds
    results = cut.run(by_key)
    cut.add(rows[70:], sizes=[])
    results += cut.run(by_key)

    assert len(list((tmp_path / "folds").glob("*.fold"))) == 1
    assert len(expected) >= 10
    assert list(map(repr, results)) == list(map(repr, expected))


def test_what_passes_is_as_it_came(stream):
    rows = events(90)
    source = stream(EVENTS)
    source.add(rows, sizes=[])
    passed = source.run(lambda frame: build("deduplicate", frame, by=["sensor", "n"], within=5))
    untouched = stream(EVENTS)
    untouched.add(rows, sizes=[])
    by_seq = {row[0]: repr(row) for row in untouched.run(lambda frame: frame)}
    assert 20 < len(passed) < 90
    assert [repr(row) for row in passed] == [by_seq[row[0]] for row in passed]


def test_windows_keep_whole_numbers_as_keys(stream):
    source = stream(EVENTS)
    source.add(events(40), sizes=[])
    rows = source.run(lambda frame: build("window", frame, by=["n"], size=5, aggregates=["c=count(*)"]))
    assert {row[3] for row in rows} == {None, -1, 2**53, 2**53 + 1, 2**53 + 2}
