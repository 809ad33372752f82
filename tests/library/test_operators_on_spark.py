"""Operators on Spark: batches and restarts change nothing, and what travels through a state arrives as it was."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from workers.library.state import going_on

from .conftest import START_MS, build

pytestmark = pytest.mark.spark
EVENTS = ("_seq bigint, _time bigint, _born bigint, sensor string, n bigint, value double, ok boolean, at timestamp, "
          "tags array<string>, place struct<x:double,y:int>, d date, cost decimal(38,4), raw binary")


def events(count: int) -> list[tuple]:
    """Events of two sensors, some late, with what text, pandas and JSON could lose."""
    chance = random.Random(3)
    return [(
        seq, START_MS + seq * 1000 - chance.choice([0, 0, 0, 4_000, 30_000]), START_MS + seq * 1000 + 500,
        chance.choice(["a", "b", None]), chance.choice([2**53 + seq % 3, None, -1]),
        chance.choice([1.5, math.nan, math.inf, None, -0.0, 0.1 + 0.2]), chance.choice([True, None]),
        datetime(2024, 1, 1, 12, 0, 0, 123_456 + seq % 2, tzinfo=UTC), chance.choice([None, [], ["x", None]]),
        chance.choice([None, {"x": 0.5, "y": None}]), date(2024, 2, 29),
        chance.choice([None, Decimal("12345678901234567890123456789012.0001"), Decimal("-0.1")]),
        chance.choice([None, b"", b"\x00\xff\x1f"]),
    ) for seq in range(count)]


CONFIGS = {
    "deduplicate": {"by": ["sensor", "n"], "within": 5},
    "window": {"aggregates": ["count=count(*)", "mean=avg(n)", "last=last(value)", "on=max(ok)", "all=collect(value)",
                              "least=min(n)", "cost=sum(cost)", "costs=collect(cost)"],
               "size": 10, "by": ["sensor", "n"], "lateness": 2, "late": "mark"},
    "window, sessions": {"aggregates": ["count=count(*)"], "kind": "session", "size": 3, "by": ["sensor"]},
    "window, landmarks": {"aggregates": ["count=count(*)", "mean=avg(n)"], "kind": "landmark", "landmark": "ok",
                          "by": ["sensor"]},
    "align": {"side": "n", "sides": ["-1", "9007199254740992"], "columns": ["-1.at", "two=9007199254740992.value"],
              "on": ["sensor"], "most": 2, "incomplete": "emit"},
    "join": {"on": ["sensor"], "left": "n > 0", "right": "value IS NOT NULL AND n IS NULL", "before": 4, "after": 4,
             "left_columns": ["n", "at", "tags"], "right_columns": ["value", "right_place=place"], "unmatched": "emit",
             "lateness": 10, "late": "mark"},
}


# Of the others test_state_store.py says the same without Spark, and below repetitions are dropped on Spark.
IN_SHORT = {"window", "join", "align"}


@pytest.mark.parametrize("case", [
    case if case in IN_SHORT else pytest.param(case, marks=pytest.mark.long) for case in CONFIGS])
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


@pytest.mark.parametrize("name,config", [("round_robin", {}), ("key_split", {"by": ["sensor", "n"]})])
def test_the_parts_of_a_split_are_the_stream(name, config, stream):
    source = stream(EVENTS)
    source.add(events(30), sizes=[7, 12])
    whole = source.run(lambda frame: frame)
    parts = []
    for part in (1, 2):
        source = stream(EVENTS)
        source.add(events(30), sizes=[7, 12])
        parts.append(source.run(lambda frame: build(name, frame, of=2, part=part, **config)))  # noqa: B023
    assert sorted(map(repr, parts[0] + parts[1])) == sorted(map(repr, whole))
    if name == "round_robin":
        assert [len(part) for part in parts] == [15, 15]
    else:
        assert not {row[3:5] for row in parts[0]} & {row[3:5] for row in parts[1]}


def test_windows_keep_whole_numbers_as_keys(stream):
    source = stream(EVENTS)
    source.add(events(40), sizes=[])
    rows = source.run(lambda frame: build("window", frame, by=["n"], size=5, aggregates=["c=count(*)"]))
    assert {row[3] for row in rows} == {None, -1, 2**53, 2**53 + 1, 2**53 + 2}


NUMBERS = "_seq bigint, _time bigint, _born bigint, n bigint, cost decimal(12,2), small int"


def test_no_double_is_between_a_number_and_an_aggregate_of_it(stream):
    ids = [2**53 + 1, 2**53, 2**53 + 3, None]
    costs = [Decimal("9999999999.99"), Decimal("0.01"), None, Decimal("0.01")]
    source = stream(NUMBERS)
    source.add([(seq, START_MS, START_MS, ids[seq], costs[seq], [7, None, -7, 7][seq]) for seq in range(4)]
               + [(4, START_MS + 60_000, START_MS + 60_000, None, None, None)], sizes=[2])
    functions = ("first", "last", "min", "max", "sum", "collect", "count_distinct", "avg", "median")
    aggregates = [f"{function}_{name}={function}({name})" for name in ("n", "cost", "small") for function in functions]
    [row] = source.run(lambda frame: build("window", frame, aggregates=aggregates, size=10))
    given = dict(zip((entry.partition("=")[0] for entry in aggregates), row[5:], strict=False))
    assert [given[f"{function}_n"] for function in functions[:7]] == [
        2**53 + 1, 2**53 + 3, 2**53, 2**53 + 3, 3 * 2**53 + 4, ids[:3], 3]
    assert [given[f"{function}_cost"] for function in functions[:7]] == [
        costs[0], costs[3], costs[1], costs[0], Decimal("10000000000.01"), [costs[0], costs[1], costs[3]], 2]
    assert [given[f"{function}_small"] for function in functions] == [7, 7, -7, 7, 7, [7, -7, 7], 2, 7 / 3, 7.0]
    assert (given["avg_n"], given["median_n"]) == ((3 * 2**53 + 4) / 3, float(2**53 + 1))


def test_a_sum_that_its_type_does_not_hold_is_null(stream):
    source = stream(NUMBERS)
    source.add([(seq, START_MS, START_MS, 2**63 - 1, None, 0) for seq in range(2)]
               + [(2, START_MS + 60_000, START_MS + 60_000, None, None, None)], sizes=[])
    [row] = source.run(lambda frame: build("window", frame, aggregates=["all=sum(n)", "most=max(n)"], size=10))
    assert row[5:7] == (None, 2**63 - 1)


KEYS = "_seq bigint, _time bigint, _born bigint, x double, one string, other string, cost decimal(4,2)"
SAME, ODD = [0.0, -0.0, math.nan, math.nan, None, None, math.inf, 1.5], [
    ("x\x1fy", "z"), ("x", "y\x1fz"), ("x\x1by", "z"), ("x\x1buy", "z"), ("\x00", ""), (None, ""), ("", "\x00"),
    ("\x1b0", ""), ("", None), ("", "")]


def keyed(place: int, x: float | None, texts: tuple) -> tuple:
    return place, START_MS, START_MS, x, *texts, Decimal("1.50")


def test_equal_keys_are_one_key_and_others_are_others(stream):
    doubles = stream(KEYS)
    doubles.add([keyed(place, x, ("a", "b")) for place, x in enumerate(SAME)]
                + [(99, START_MS + 60_000, START_MS + 60_000, 9.0, "", "", None)], sizes=[3])
    rows = doubles.run(lambda frame: build("window", frame, aggregates=["n=count(*)"], by=["x", "cost"], size=10))
    assert sorted((repr(row[3]), row[4], row[7]) for row in rows) == sorted(
        (key, Decimal("1.50"), n) for key, n in (("0.0", 2), ("nan", 2), ("None", 2), ("inf", 1), ("1.5", 1)))
    texts = stream(KEYS)
    texts.add([keyed(place, None, pair) for place, pair in enumerate(ODD * 2)], sizes=[])
    passed = texts.run(lambda frame: build("deduplicate", frame, by=["one", "other"], within=5))
    assert [row[4:6] for row in passed] == ODD
    averages = stream(KEYS + ", value double")
    averages.add([(*keyed(place, x, ("a", "b")), 1.0) for place, x in enumerate([0.0, -0.0, math.nan, None])], sizes=[])
    rows = averages.run(lambda frame: build("block_average", frame, by=["x"], window=1))
    assert [repr(row[3]) for row in rows] == ["0.0", "-0.0", "nan", "None"], "an event's own key, as it came"
