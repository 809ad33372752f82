"""Loads of keys: what writers counted, put together, and ranges that are cut by it; held to the loads of each group."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.key_division import fullest, ranges_of, ring_cut, whole_groups
from scheduler.model.key_loads import MEMORY_MS, STRETCH, STRETCHES, DividedKeys, FrequentKey, KeyCounts, KeyLoads
from scheduler.model.ring import KEY_GROUPS, KeyRange, key_group

EVEN = KeyLoads((10.0,) * STRETCHES)


@st.composite
def worlds(draw: st.DrawFn):
    """Events by key: many that are alike, and some that are more frequent; and what a writer knows of them."""
    texts = [f"key {number}" for number in range(draw(st.integers(200, 2_000)))]
    hot = draw(st.lists(st.integers(500, 40_000), max_size=5))
    events = dict.fromkeys(texts, 10.0) | {f"hot {number}": float(count) for number, count in enumerate(hot)}
    by_stretch = [0.0] * STRETCHES
    for text, count in events.items():
        by_stretch[key_group(text) // STRETCH] += count
    total = sum(events.values())
    frequent = tuple(FrequentKey(text, key_group(text), count) for text, count in events.items() if count > total / 100)
    return events, KeyLoads(tuple(by_stretch), frequent)


def had(events: dict[str, float], piece: KeyRange) -> float:
    return sum(count for text, count in events.items() if piece.has(key_group(text)))


@settings(max_examples=60, deadline=None)
@given(world=worlds(), parts=st.lists(st.floats(0.2, 1), min_size=1, max_size=12))
def test_ranges_have_their_parts_of_the_events_but_for_a_stretch_and_keys_that_are_more(world, parts):
    events, loads = world
    shares = {place: part / sum(parts) for place, part in enumerate(parts)}
    cut = ring_cut(shares, dict.fromkeys(shares, "any"), DividedKeys(loads, {}))
    ranges = [KeyRange(first, size, "") for ((first, size),) in cut.values()]
    assert [piece.token for piece in ranges] == [sum(piece.size for piece in ranges[:place]) for place in shares]
    assert sum(piece.size for piece in ranges) == KEY_GROUPS and min(piece.size for piece in ranges) >= 1
    total, largest = sum(events.values()), max(events.values())
    within = max(
        (count - sum(key.events for key in loads.frequent if key.group // STRETCH == place))
        for place, count in enumerate(loads.by_stretch))  # what is spread unevenly within a stretch
    for piece, share in zip(ranges, shares.values(), strict=True):
        assert had(events, piece) <= share * total + largest + 2 * within + 1e-6
        assert loads.share(piece) == pytest.approx(had(events, piece) / total, abs=2 * within / total + 1e-9)
    evenly = {place: (key_range,) for place, key_range in enumerate(ranges_of(list(whole_groups(shares).values())))}
    assert fullest(cut, shares, loads) <= fullest(evenly, shares, loads) + (largest + within) / total / min(
        shares.values())


def test_ranges_that_go_over_the_rings_end_have_both_of_its_ends():
    over, rest = KeyRange(60_000, 10_000, "a"), KeyRange(4_464, 55_536, "b")
    assert EVEN.share(over) == pytest.approx(10_000 / KEY_GROUPS)
    assert EVEN.share(over) + EVEN.share(rest) == pytest.approx(1)


def test_a_key_that_is_more_than_a_part_has_one_to_itself_and_the_others_share_the_rest():
    hot = FrequentKey("m1", 30_000, 6_000.0)
    stretches = [4_000 / STRETCHES] * STRETCHES
    stretches[30_000 // STRETCH] += hot.events
    loads = KeyLoads(tuple(stretches), (hot,))
    shares = dict.fromkeys(range(4), 0.25)
    cut = ring_cut(shares, dict.fromkeys(shares, "any"), DividedKeys(loads, {}))
    parts = sorted(loads.share(KeyRange(*key_range, "")) for (key_range,) in cut.values())
    assert parts == pytest.approx([0.1, 0.1, 0.2, 0.6], abs=0.08) and parts[-1] == pytest.approx(0.6, abs=0.01)


def test_without_figures_or_with_too_few_events_nothing_is_said_of_ranges():
    shares, slots = {0: 0.5, 1: 0.5}, {0: "n1/0", 1: "n1/1"}
    few = KeyLoads.of_writers([KeyCounts(0, (1.0,) * STRETCHES)])
    assert few is None and KeyLoads.of_writers([]) is None
    for keys in (None, DividedKeys(None, {})):
        assert ring_cut(shares, slots, keys) == {}


def test_ranges_stay_until_another_cut_spares_the_fullest_a_tenth():
    """Half of all keys at three times the rate: 30,000 groups have 0.54 of the events, 20,000 have 0.46."""
    shares, slots = {0: 0.5, 1: 0.5}, {0: "n1/0", 1: "n1/1"}
    skewed = KeyLoads((30.0,) * 128 + (10.0,) * 128)
    for first, stays in ((20_000, True), (21_000, True), (KEY_GROUPS // 2, False)):
        half = first // 2  # whose ranges are in two places stays likewise
        now = {"n1/1": ((0, half), (half + 100, first - half)), "n1/0": (
            (half, 100), (first + 100, KEY_GROUPS - first - 100))}
        cut = ring_cut(shares, slots, DividedKeys(skewed, now))
        assert (cut == {0: now["n1/0"], 1: now["n1/1"]}) == stays, first
        if not stays:
            assert skewed.share(KeyRange(*cut[0][0], "")) == pytest.approx(0.5, abs=0.001)
        elsewhere = ring_cut(shares, slots, DividedKeys(skewed, {**now, "n1/2": ((0, 1),)}))
        assert skewed.share(KeyRange(*elsewhere[0][0], "")) == pytest.approx(0.5, abs=0.001)


def test_writers_are_put_together_as_of_the_newest():
    key = FrequentKey("m1", 5, 1_000.0)
    one = KeyCounts(0, (4_000.0, *[0.0] * (STRETCHES - 1)), (key,))
    other = KeyCounts(int(MEMORY_MS), (2_000.0, *[0.0] * (STRETCHES - 1)), (replace(key, events=500.0),))
    loads = KeyLoads.of_writers([one, other])
    assert loads.events == pytest.approx(4_000 / math.e + 2_000)
    assert loads.share_of(loads.frequent[0]) == pytest.approx(0.25) and len(loads.frequent) == 1


@pytest.mark.parametrize("document", [
    {}, {"at_ms": 1}, {"at_ms": 1, "by_stretch": [1], "frequent": []},
    {"at_ms": 1, "by_stretch": [-1] * STRETCHES, "frequent": []},
    {"at_ms": 1, "by_stretch": [float("nan")] * STRETCHES, "frequent": []},
    {"at_ms": 1, "by_stretch": [1] * STRETCHES, "frequent": [["a", KEY_GROUPS, 1]]},
    {"at_ms": 1, "by_stretch": [1] * STRETCHES, "frequent": [["a", 1]]},
    {"at_ms": "x", "by_stretch": [1] * STRETCHES, "frequent": []},
])
def test_what_is_no_report_is_refused(document):
    with pytest.raises((ValueError, KeyError, TypeError)):
        KeyCounts.of(document)


def test_what_a_writer_tells_is_bounded():
    counts = KeyCounts.of({
        "at_ms": 1, "by_stretch": [1] * STRETCHES, "frequent": [["x" * 10_000, 1, 1]] * 1_000, "more": "y"})
    assert len(counts.frequent) == 16 and len(counts.frequent[0].text) == 64
