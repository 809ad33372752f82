"""A ring of tokens: who has which keys, and that a change of one token moves the keys beside it and no other."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.model.ring import KEY_GROUPS, key_group
from scheduler.model.xxhash64 import xxhash64
from tests.benches.elastic_ring import ElasticRing

groups = st.integers(0, KEY_GROUPS - 1)
rings = st.dictionaries(groups, st.sampled_from([f"f1-{n}" for n in range(9)]), min_size=1, max_size=12).map(
    lambda tokens: ElasticRing(("sensor",), tokens))
KEYS = [f"sensor {number}" for number in range(4_000)]


def nearest(ring: ElasticRing, group: int) -> str:
    """Who has a group, by walking counter-clockwise to the first token."""
    return ring.tokens[min(ring.tokens, key=lambda token: (group - token) % KEY_GROUPS)]


@given(rings, st.lists(groups, min_size=1, max_size=30))
def test_a_key_belongs_to_the_nearest_token_counter_clockwise(ring: ElasticRing, some: list[int]) -> None:
    for group in some:
        assert ring.owner(group) == nearest(ring, group) == ring.range_of(group).bundle
        assert ring.range_of(group).has(group)


@given(rings)
def test_ranges_are_the_ring(ring: ElasticRing) -> None:
    assert sum(piece.size for piece in ring.ranges) == KEY_GROUPS
    first, *others = ring.ranges
    assert list(ring.clockwise(first.token)) == others
    small = [piece for piece in ring.ranges if piece.size < 50]
    assert all(ring.owner(group) == piece.bundle for piece in small for group in piece.groups)


@given(rings, groups)
def test_another_token_takes_of_the_range_that_it_stands_in_and_of_no_other(ring: ElasticRing, token: int) -> None:
    assume(token not in ring.tokens)
    after = ring.with_token(token, "f2-0")
    was = ring.range_of(token)
    assert [(move.bundle, to) for move, to in ring.moved_to(after)] == [(was.bundle, "f2-0")]
    moved = ring.moved_to(after)[0][0]
    assert moved.token == token and was.has(token) and moved.size == was.size - (token - was.token) % KEY_GROUPS


@given(rings, st.data())
def test_a_token_that_moves_changes_hands_with_its_neighbour_alone(ring: ElasticRing, data: st.DataObject) -> None:
    moving = data.draw(st.sampled_from(ring.ranges))
    to = data.draw(groups)
    try:
        after = ring.with_token_moved(moving.token, to)
    except ValueError:
        return
    beside = {moving.bundle, ring.range_of((moving.token - 1) % KEY_GROUPS).bundle}
    assert all({move.bundle, new} <= beside for move, new in ring.moved_to(after))
    for move, new in ring.moved_to(after):
        assert after.owner(move.token) == new and ring.owner(move.token) == move.bundle


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 40))
def test_a_bundle_more_or_less_moves_about_one_nth_of_the_keys(bundles: int) -> None:
    names = [f"f1-{number}" for number in range(bundles)]
    ring = ElasticRing.even(["sensor"], names)
    sizes = [piece.size for piece in ring.ranges]
    assert max(sizes) - min(sizes) <= 1 and sum(sizes) == KEY_GROUPS
    less = ring.with_owner(ring.ranges[-1].token, names[-2])
    moved = [key for key in KEYS if ring.owner(key_group(key)) != less.owner(key_group(key))]
    assert {ring.owner(key_group(key)) for key in moved} <= {names[-1]}
    # Of 4,000 keys so many are in one of n equal ranges, but for five standard deviations.
    expected, deviation = len(KEYS) / bundles, (len(KEYS) / bundles * (1 - 1 / bundles)) ** 0.5
    assert abs(len(moved) - expected) <= 5 * deviation + 1


@given(rings)
def test_a_change_is_undone_by_the_way_back(ring: ElasticRing) -> None:
    even = ElasticRing.even(ring.by, ["a", "b", "c"])
    forth, back = ring.moved_to(even), even.moved_to(ring)
    assert [(move.token, move.size, move.bundle, to) for move, to in forth] == [
        (move.token, move.size, to, move.bundle) for move, to in back]
    assert not ring.moved_to(ring)


@given(rings)
def test_tokens_that_make_no_difference_go(ring: ElasticRing) -> None:
    merged = ring.merged()
    assert not ring.moved_to(merged) and merged.served == ring.served
    ranges = merged.ranges
    assert len(ranges) == 1 or all(
        piece.bundle != ranges[place - 1].bundle for place, piece in enumerate(ranges))


@pytest.mark.parametrize("change", [
    lambda ring: ring.with_token(0, "f2-0"),
    lambda ring: ring.with_token(KEY_GROUPS, "f2-0"),
    lambda ring: ring.with_token_moved(100, 0),
    lambda ring: ring.with_token_moved(7, 8),
    lambda ring: ring.with_owner(7, "f2-0"),
])
def test_what_no_token_can_do_is_refused(change) -> None:
    with pytest.raises(ValueError, match=r"token \d+ cannot|there is no token"):
        change(ElasticRing(("sensor",), {0: "f1-0", 100: "f1-1"}))


@given(st.text(max_size=100))
def test_a_group_is_the_upper_sixteen_bits(text: str) -> None:
    assert key_group(text) == xxhash64(text.encode()) // 2**48 < KEY_GROUPS
