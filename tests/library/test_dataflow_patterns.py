"""Synchronised merges, landmarks and streams that are dealt out, against references that see all events at once."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.library.aggregates import read_aggregates
from workers.library.alignment import Alignment, align_check
from workers.library.config import InvalidConfig
from workers.library.landmarks import LandmarkWindowed
from workers.library.operators import window_check
from workers.library.splits import RoundRobin, key_split_check, round_robin_check


def run(fold, events) -> list[tuple]:
    """What comes out; the state is written and read as JSON after each event, as it is kept."""
    state, out = fold.start(), []
    for event in events:
        state = json.loads(json.dumps(state))
        out += fold.step(state, *event)
    return out


def on_a_side(side: int, sides: int, seq: int) -> tuple:
    """An event of one side; its text names side and number."""
    return seq, seq % 7, 100 + seq, *(f"{side}:{seq}" if place == side else None for place in range(sides))


@given(st.lists(st.integers(0, 2), max_size=40), st.randoms(use_true_random=False))
def test_the_nth_events_of_all_sides_are_one_however_they_interleave(drawn, chance):
    by_side = defaultdict(list)
    for seq, side in enumerate(drawn):
        by_side[side].append(on_a_side(side, 3, seq))
    expected = []
    for group in zip(*(by_side[side] for side in range(3)), strict=False):
        last = max(group, key=lambda event: event[2])
        expected.append((last[0], max(event[1] for event in group), last[2],
                         *(group[side][3 + side] for side in range(3))))
    queues = [list(events) for events in by_side.values()]
    interleaved = []
    while any(queues):
        interleaved.append(chance.choice([queue for queue in queues if queue]).pop(0))
    assert run(Alignment(3, 1_000, emits=False), interleaved) == expected


@given(st.lists(st.integers(0, 1), max_size=30), st.integers(1, 3))
def test_a_number_that_is_given_up_is_given_up_on_all_sides(drawn, most):
    events = [on_a_side(side, 2, seq) for seq, side in enumerate(drawn)]
    out = run(Alignment(2, most, emits=True), events)
    numbers = [{}, {}]
    for seq, side in enumerate(drawn):
        numbers[side][f"{side}:{seq}"] = len(numbers[side])
    got = [[numbers[side][row[3 + side]] for row in out if row[3 + side] is not None] for side in range(2)]
    assert all(sorted(set(side)) == side for side in got), "each at most once, in order"
    for number, row in enumerate(out):
        assert {numbers[side][row[3 + side]] for side in range(2) if row[3 + side] is not None} == {number}
    assert run(Alignment(2, most, emits=False), events) == [row for row in out if None not in row[3:]]


AGGREGATES = read_aggregates(["n=count(*)", "total=sum(x)"])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans() | st.none(), st.integers(0, 9)), max_size=40))
def test_a_landmark_ends_the_windows_of_all_keys(drawn):
    events = [(key, ends, time, seq, 100 + seq, key, None, float(seq)) for seq, (key, ends, time) in enumerate(drawn)]
    expected, inside = [], []
    for event in events:
        inside.append(event)
        if event[1]:
            keys = list(dict.fromkeys(other[0] for other in inside))
            for key in keys:
                of_key = [other for other in inside if other[0] == key]
                expected.append((event[3], event[2], event[4], key, of_key[0][2], event[2], len(of_key),
                                 sum(other[7] for other in of_key), 0))
            inside = []
    assert run(LandmarkWindowed(1, AGGREGATES), events) == expected


@given(st.integers(2, 5), st.integers(0, 40))
def test_parts_by_turns_are_each_event_once(of, count):
    parts = []
    for part in range(1, of + 1):
        fold, passed = RoundRobin(part, of), []
        state = fold.start()
        for seq in range(count):
            if list(fold.step(state, seq * 2)):  # numbers with gaps are dealt out by turns all the same
                passed.append(seq)
        parts.append(passed)
    assert sorted(seq for part in parts for seq in part) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


SIDES = {"side": "kind", "sides": ["a", "b"], "columns": ["a.x"]}


@pytest.mark.parametrize("check,config,parameter", [
    (align_check, SIDES | {"sides": ["a"]}, "sides"), (align_check, SIDES | {"sides": ["a", "a"]}, "sides"),
    (align_check, SIDES | {"columns": ["c.x"]}, "columns"), (align_check, SIDES | {"columns": ["x"]}, "columns"),
    (align_check, SIDES | {"columns": ["a.x", "b.x"]}, "columns"),
    (align_check, SIDES | {"columns": ["x=b.y"], "on": ["x"]}, "columns"),
    (align_check, SIDES | {"columns": ["_time=a.x"]}, "columns"),
    (round_robin_check, {"of": 2, "part": 3}, "part"), (key_split_check, {"of": 2, "part": 3, "by": ["a"]}, "part"),
    (key_split_check, {"of": 2, "part": 1, "by": []}, "by"),
    (window_check, {"aggregates": ["n=count(*)"], "kind": "landmark"}, "landmark"),
    (window_check, {"aggregates": ["n=count(*)"], "landmark": "ok"}, "landmark"),
])
def test_a_config_that_cannot_be_built_is_refused_with_a_remedy(check, config, parameter):
    with pytest.raises(InvalidConfig) as caught:
        check(config)
    assert caught.value.facts["parameter"] == parameter and caught.value.remedy
