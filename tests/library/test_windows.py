"""Windows, repetitions and pairs against references that see all events at once; and their states through JSON."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from statistics import fmean, median, stdev

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workers.library.aggregates import KINDS, read_aggregates
from workers.library.config import InvalidConfig
from workers.library.repetitions import Deduplicated
from workers.library.windows import JoinFold, Windowed

AGGREGATES = read_aggregates(["n=count(*)", "v=count(x)", "total=sum(x)", "lo=min(x)", "hi=max(x)", "sd=stddev(x)",
                              "mid=median(x)", "one=first(x)", "end=last(x)", "all=collect(x)", "d=count_distinct(x)"])
values = st.one_of(st.none(), st.integers(-50, 50).map(float))
keys = st.sampled_from(["a", "b"])
in_order = st.lists(st.tuples(keys, st.integers(0, 12), values), max_size=40)
anyhow = st.lists(st.tuples(keys, st.integers(0, 100), values), max_size=40)


def run(fold, events):
    """What comes out event by event, the state written and read as JSON in between, as Spark keeps it."""
    return run_on(fold, events)[1]


def run_on(fold, events, state=None):
    """The state in the end as well, from a first one on."""
    state, out = fold.start() if state is None else state, []
    for event in events:
        state = json.loads(json.dumps(state))
        out.append(list(fold.step(state, *event)))
    return state, out


def window_events(drawn, *, times_add_up: bool):
    time, events = 0, []
    for seq, (key, moment, value) in enumerate(drawn):
        time = time + moment if times_add_up else moment
        events.append((key, time, seq, seq + 100_000, key, *[value] * len(AGGREGATES)))
    return events


def results_of(inside: list[tuple]) -> tuple:
    """The aggregates of events (time, value) in their order, as Python computes them."""
    values = [value for value in inside if value is not None]
    return (
        len(inside), len(values), sum(values) if values else None, min(values, default=None), max(values, default=None),
        stdev(values) if len(values) > 1 else None, median(values) if values else None, values[0] if values else None,
        values[-1] if values else None, values, len(set(values)))


def same(one, other) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(one, other, strict=True))


@given(in_order, st.sampled_from([(10, 10), (10, 5), (12, 4)]))
def test_windows_of_events_in_order_hold_what_is_in_their_interval(drawn, sizes):
    size, slide = sizes
    events = window_events(drawn, times_add_up=True)
    out = [row for rows in run(Windowed(size, slide, 0, False, 1, AGGREGATES), events) for row in rows]
    last = events[-1][1] if events else 0
    expected = {}
    for key, time, *_ in events:
        for begin in range((time // slide) * slide, time - size, -slide):
            inside = [event for event in events if event[0] == key and begin <= event[1] < begin + size]
            if begin + size <= last:
                expected[key, begin] = (inside[-1][2], results_of([event[5] for event in inside]))
    assert {(row[3], row[4]) for row in out} == expected.keys() and len(out) == len(expected)
    for row in out:
        seq, results = expected[row[3], row[4]]
        assert row[0] == seq and row[2] == seq + 100_000, "Weir's columns are those of the last event in it"
        assert row[5] == row[4] + size and same(row[6:-1], results) and row[-1] == 0
    assert [row[5] for row in out] == sorted(row[5] for row in out)


@given(in_order, st.integers(1, 8))
def test_sessions_end_where_no_event_follows(drawn, gap):
    events = window_events(drawn, times_add_up=True)
    out = [row for rows in run(Windowed(gap, 0, 0, False, 1, AGGREGATES), events) for row in rows]
    sessions = defaultdict(list)
    for event in events:
        mine = sessions[event[0]]
        if mine and event[1] < mine[-1][-1][1] + gap:
            mine[-1].append(event)
        else:
            mine.append([event])
    last = events[-1][1] if events else 0
    expected = {(key, session[0][1]): session for key, mine in sessions.items() for session in mine
                if session[-1][1] + gap <= last}
    assert {(row[3], row[4]) for row in out} == expected.keys()
    for row in out:
        session = expected[row[3], row[4]]
        assert row[5] == session[-1][1] + gap and same(row[6:-1], results_of([event[5] for event in session]))


@given(anyhow, st.sampled_from([(20, 20), (20, 10), (15, 0)]), st.sampled_from([0, 15, 40]))
def test_every_event_counts_once_in_each_of_its_windows_or_is_told_to_be_late(drawn, sizes, lateness):
    """Out of order: what is dropped is counted, what is marked comes out, and no event does both."""
    size, slide = sizes
    events = window_events(drawn, times_add_up=False)
    end = ("z", 10_000, len(events), 100_000, "z", *[None] * len(AGGREGATES))
    late_keys = [(key, 10_000 + place, len(events) + 1, 100_000, key, *[None] * len(AGGREGATES))
                 for place, key in enumerate("ab")]  # so that what was late last is told, too
    final = ("z", 20_000, len(events) + 9, 100_000, "z", *[None] * len(AGGREGATES))
    events = [*events, end, *late_keys, final]
    folds = [Windowed(size, slide, lateness, mark, 1, AGGREGATES) for mark in (False, True)]
    runs = [run_on(fold, events) for fold in folds]
    dropped, marked = ([row for rows in out for row in rows if row[3] != "z"] for _, out in runs)
    late = [row for row in marked if row[-1]]
    assert [row[:-1] for row in dropped] == [row[:-1] for row in marked if not row[-1]]
    counted = [fold.late(state) for fold, (state, _) in zip(folds, runs, strict=True)]
    assert counted == [len({row[0] for row in late})] * 2
    assert sum(row[-1] for row in dropped) <= len(late), "of a key without a result soon, the task's count tells"
    times = size // slide if slide else 1
    assert sum(row[6] for row in marked) == times * (len(events) - 2)
    if lateness >= 100:
        assert not late


def test_an_event_at_the_edge_belongs_to_the_next_window_and_lateness_is_waited_for():
    fold = Windowed(10, 10, 5, False, 0, read_aggregates(["n=count(*)"]))
    out = run(fold, [("", time, seq, 100, None) for seq, time in enumerate([0, 9, 10, 14, 3, 15, 4, 30])])
    assert out[5] == [(4, 3, 100, 0, 10, 3, 0)], "time 10 belongs to the next window, time 3 was waited for"
    assert out[7] == [(5, 15, 100, 10, 20, 3, 1)], "the event of time 4 came late, and is counted in the next result"
    assert sum(map(len, out)) == 2


@given(st.lists(st.tuples(keys, st.integers(0, 9)), max_size=60), st.integers(1, 20))
def test_of_events_in_order_the_first_passes_and_no_other_within_its_time(drawn, within):
    time, events = 0, []
    for key, later in drawn:
        time += later
        events.append((key, time))
    out = run(Deduplicated(within), [(*event, 0, 1000) for event in events])
    passed: dict[str, int] = {}
    for (key, at), rows in zip(events, out, strict=True):
        passes = key not in passed or at - passed[key] >= within
        assert rows == ([()] if passes else [])
        if passes:
            passed[key] = at


@given(st.lists(st.tuples(keys, st.integers(0, 200)), max_size=60), st.integers(1, 30))
@example([("a", 148), ("a", 89), ("a", 118)], 30)
def test_out_of_order_no_repetition_passes_that_is_not_too_late(drawn, within):
    passed = defaultdict(list)
    latest = 0
    out = run(Deduplicated(within), [(*event, 0, 1000) for event in drawn])
    for (key, at), rows in zip(drawn, out, strict=True):
        latest = max(latest, at)
        near = bool(passed[key]) and abs(at - max(passed[key])) < within
        if at >= latest - within and near:
            assert rows == []
        if not near and all(abs(at - other) >= within for other in passed[key]):
            assert rows == [()]
        if rows:
            passed[key].append(at)


def test_what_is_forgotten_leaves_the_state():
    fold = Deduplicated(10)
    state = fold.start()
    for number in range(1000):
        fold.step(state, f"k{number}", number, number, number)
    assert len(state["passed"]) <= 31


joined_events = st.lists(st.tuples(st.sampled_from(["=a", "=b", None]), st.integers(-8, 12), st.sampled_from("LRB")),
                         max_size=30)


@given(joined_events, st.integers(0, 10), st.integers(0, 10), st.sampled_from([0, 4, 100]), st.booleans())
def test_pairs_are_all_that_the_interval_allows_and_each_once(drawn, before, after, lateness, outer):
    time, events = 0, []
    for seq, (key, later, side) in enumerate(drawn):
        time = max(0, time + later)
        text = f"e{seq}"
        events.append((key, time, seq, seq + 20_000, text if side in "LB" else None, text if side in "RB" else None))
    events.append((None, 10_000, len(events), 4_000_000, None, None))
    out = [row for rows in run(JoinFold(before, after, lateness, outer), events) for row in rows]
    mark, expected, lefts, seen = None, [], [], []
    for key, at, seq, _, left, right in events:
        if mark is not None and at < mark:
            continue
        mark = at - lateness if mark is None else max(mark, at - lateness)
        for other_key, other_at, _, other_left, other_right in seen:
            if key is None or other_key != key:
                continue
            if left and other_right and at - before <= other_at <= at + after:
                expected.append((seq, left, other_right))
            if right and other_left and other_at - before <= at <= other_at + after:
                expected.append((seq, other_left, right))
        seen.append((key, at, seq, left, right))
        lefts += [left] if left else []
    pairs = [(row[0], row[3], row[4]) for row in out if row[4] is not None]
    assert sorted(pairs) == sorted(expected)
    alone = sorted(row[3] for row in out if row[4] is None)
    assert alone == (sorted(set(lefts) - {left for _, left, _ in expected}) if outer else [])


@pytest.mark.parametrize("entry", ["n", "n=count", "n=sum(*)", "n=nothing(x)", "2=sum(x)", "p=percentile(x, 3)"])
def test_what_is_no_aggregate_is_refused_with_the_functions_there_are(entry):
    with pytest.raises(InvalidConfig) as caught:
        read_aggregates([entry])
    assert caught.value.facts["value"] == entry


def test_every_aggregate_of_parts_is_that_of_the_whole():
    numbers = [3.5, -1.0, 2.0, 2.0, 8.25, 0.5]
    for name, kind in KINDS.items():
        whole, left, right = kind.start(), kind.start(), kind.start()
        for number in numbers:
            kind.add(whole, number)
        for number in numbers[:2]:
            kind.add(left, number)
        for number in numbers[2:]:
            kind.add(right, number)
        kind.merge(left, right)
        kind.merge(left, kind.start())
        one, other = kind.result(whole, 0.5), kind.result(left, 0.5)
        assert one == pytest.approx(other) and one is not None, name
    assert KINDS["avg"].result([2, 5.0], 0.5) == fmean([2.0, 3.0])
