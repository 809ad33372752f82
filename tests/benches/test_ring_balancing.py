"""Balancing: overloaded bundles give to neighbours with room, or get a new one; idle ones go; then nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.elasticity.uneven_keys import KeyedLoad
from scheduler.model.ring import KEY_GROUPS
from tests.benches.elastic_ring import ElasticRing
from tests.benches.ring_balancing import BalanceThresholds, RingBalance, RingChange, balance_ring

HIGH, LOW, MIDDLE = KeyedLoad(5_000, 1.0), KeyedLoad(0, 0.1), KeyedLoad(0, 0.6)
NAMES = ["a", "b", "c", "d", "e"]


def decide(ring: ElasticRing, loads: Mapping[str, KeyedLoad], by_group: Sequence[float] = (), **more) -> RingBalance:
    numbers = count()
    return balance_ring(ring, loads, name=lambda: f"new-{next(numbers)}", by_group=by_group, **more)


def only(balance: RingBalance) -> RingChange:
    """The one change of it."""
    (change,) = balance.changes
    assert change.before.moved_to(change.after) == change.moves and balance.ring == change.after
    return change


def load_of(ring: ElasticRing, by_group: Sequence[float]) -> dict[str, float]:
    """What each bundle has to do, group by group."""
    loads = dict.fromkeys(ring.bundles, 0.0)
    for group, load in enumerate(by_group):
        loads[ring.owner(group)] += load
    return loads


def test_the_clockwise_neighbour_takes_half_of_the_interval() -> None:
    ring = ElasticRing(("k",), {0: "a", 20_000: "b", 40_000: "c"})
    change = only(decide(ring, {"a": HIGH, "b": LOW, "c": MIDDLE}))
    assert (change.kind, dict(change.after.tokens), change.messages) == ("share", {0: "a", 10_000: "b", 40_000: "c"}, 2)


def test_a_full_neighbour_asks_on_before_it_takes() -> None:
    ring = ElasticRing(("k",), {0: "a", 20_000: "b", 40_000: "c"})
    change = only(decide(ring, {"a": HIGH, "b": MIDDLE, "c": LOW}))
    assert (dict(change.after.tokens), change.messages) == ({0: "a", 10_000: "b", 30_000: "c"}, 4)


def test_where_all_are_full_a_bundle_begins_between_the_two() -> None:
    ring = ElasticRing(("k",), {0: "a", 20_000: "b"})
    change = only(decide(ring, {"a": HIGH, "b": MIDDLE}))
    assert (change.kind, change.added) == ("add", "new-0")
    assert dict(change.after.tokens) == {0: "a", 10_000: "new-0", 20_000: "b"}
    alone = only(decide(ElasticRing(("k",), {7: "a"}), {"a": HIGH}))
    assert dict(alone.after.tokens) == {7: "a", 7 + KEY_GROUPS // 2: "new-0"} and alone.messages == 0


def test_a_bundle_and_its_neighbour_that_are_idle_become_one() -> None:
    ring = ElasticRing(("k",), {0: "a", 20_000: "b", 40_000: "c"})
    change = only(decide(ring, {"a": LOW, "b": LOW, "c": MIDDLE}))
    assert (change.kind, dict(change.after.tokens), change.after.leaving) == ("remove", {0: "b", 40_000: "c"}, ("a",))
    nearly = KeyedLoad(0, 0.44)
    assert not decide(ring, {"a": nearly, "b": nearly, "c": MIDDLE}).changes, "one would be added again"
    assert not decide(ElasticRing(("k",), {0: "a"}), {"a": LOW}).changes


def test_both_thresholds_must_be_passed() -> None:
    ring = ElasticRing(("k",), {0: "a", 20_000: "b"})
    for load in (KeyedLoad(5_000, 0.5), KeyedLoad(0, 1.0)):
        assert decide(ring, {"a": load, "b": MIDDLE}).changes == ()


def test_who_changed_a_moment_ago_neither_gives_nor_takes() -> None:
    ring = ElasticRing(("k",), {0: "a", 20_000: "b", 40_000: "c"})
    assert decide(ring, {"a": HIGH, "b": LOW, "c": LOW}, resting=["b"]).changes == ()
    assert decide(ring, {"a": HIGH, "b": LOW, "c": LOW}, resting=["a"]).changes == ()
    assert only(decide(ring, {"a": HIGH, "b": MIDDLE, "c": MIDDLE}, resting=["b"])).kind == "add"


def test_ranges_are_cut_by_what_they_have_to_do() -> None:
    by_group = [0.0] * KEY_GROUPS
    by_group[100:104] = [30.0, 30.0, 30.0, 30.0]  # all at the beginning of a's range: half of it has nothing to do
    by_group[30_000] = 20.0
    ring = ElasticRing(("k",), {0: "a", 20_000: "b"})
    change = only(decide(ring, {"a": HIGH, "b": LOW}, by_group))
    assert load_of(change.after, by_group) in ({"a": 60.0, "b": 80.0}, {"a": 90.0, "b": 50.0})


def test_a_hot_group_gets_a_bundle_of_its_own_and_is_told_where_it_is_too_much() -> None:
    by_group = [1.0] * KEY_GROUPS
    by_group[500] = 100_000.0
    ring = ElasticRing(("k",), {0: "a", 20_000: "b"})
    balance = decide(ring, {"a": HIGH, "b": LOW}, by_group)
    change = only(balance)
    assert (change.kind, dict(change.after.tokens)) == (
        "set apart", {0: "a", 500: "new-0", 501: "a", 20_000: "b"})
    assert not balance.hot, "100,000 of 119,999 are not as much as a bundle may have"
    alone = decide(change.after, {"new-0": HIGH, "a": MIDDLE, "b": LOW}, by_group)
    assert not alone.changes and [(hot.group, hot.bundle, hot.cpu) for hot in alone.hot] == [(500, "new-0", 1.0)]
    by_group[500] = 1_000_000.0
    assert [hot.group for hot in decide(ring, {"a": HIGH, "b": LOW}, by_group).hot] == [500]


def test_a_key_that_nobody_can_help_keeps_no_idle_bundle() -> None:
    ring = ElasticRing(("k",), {0: "a", 1: "b", 20_000: "c"})
    balance = decide(ring, {"a": HIGH, "b": LOW, "c": LOW})
    assert only(balance).kind == "remove" and [hot.bundle for hot in balance.hot] == ["a"]
    assert not decide(ring, {"a": HIGH, "b": HIGH, "c": MIDDLE}, resting=["b"]).changes


@pytest.mark.parametrize("group", [0, 19_999, KEY_GROUPS - 1, 20_000])
def test_a_hot_group_at_the_end_of_a_range_takes_nothing_else_along(group: int) -> None:
    by_group = [0.001] * KEY_GROUPS
    by_group[group] = 500.0
    ring = ElasticRing(("k",), {0: "a", 20_000: "b"})
    owner = ring.owner(group)
    change = only(decide(ring, {owner: HIGH, "ab".replace(owner, ""): LOW}, by_group))
    assert [(move.token, move.size, to) for move, to in change.moves] == [(group, 1, "new-0")]


loads = st.sampled_from([HIGH, LOW, MIDDLE, KeyedLoad(2_000, 0.9), KeyedLoad(50, 0.3)])
rings = st.dictionaries(st.integers(0, KEY_GROUPS - 1), st.sampled_from(NAMES), min_size=1, max_size=8).map(
    lambda tokens: ElasticRing(("k",), tokens))
spread = st.one_of(st.just(()), st.lists(st.floats(0.0, 9.0), min_size=1, max_size=7).map(
    lambda some: tuple(some[group % len(some)] for group in range(KEY_GROUPS))))


@settings(max_examples=60, deadline=None)
@given(rings, st.data())
def test_changes_are_apart_and_leave_a_ring(ring: ElasticRing, data: st.DataObject) -> None:
    given_loads = {bundle: data.draw(loads) for bundle in ring.served}
    resting = data.draw(st.sets(st.sampled_from(NAMES)))
    balance = decide(ring, given_loads, data.draw(spread), resting=resting)
    assert not balance.ring.why_not
    seen: set[str] = set(resting)
    now = ring
    for change in balance.changes:
        assert change.before == now and not change.after.why_not and change.moves == now.moved_to(change.after)
        parts = {bundle for move, to in change.moves for bundle in (move.bundle, to)}
        assert parts and not parts & seen, "a bundle takes part in one change at most"
        seen |= parts
        now = change.after
    assert now == balance.ring
    # None depends on the ones before it: those that take longer can be made when others are.
    again = ring
    for change in reversed(balance.changes):
        again = change.on(again)
    assert again == balance.ring


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.0, 3.0), min_size=5, max_size=60), st.integers(1, 4))
def test_under_a_constant_load_changes_come_to_an_end(weights: list[float], bundles: int) -> None:
    """Each bundle sustains 1,000: whoever has more has a queue, and the ring grows and shrinks until nobody has."""
    by_group = [0.0] * KEY_GROUPS
    for place, weight in enumerate(weights):
        by_group[place * KEY_GROUPS // len(weights)] = 300 * weight
    ring, numbers = ElasticRing.even(["k"], [f"old-{number}" for number in range(bundles)]), count()
    for _ in range(60):
        work = load_of(ring, by_group)
        now = {bundle: KeyedLoad(9_000.0 if work[bundle] > 1_000 else 0.0, min(1.0, work[bundle] / 1_000))
               for bundle in ring.served}
        balance = balance_ring(ring, now, name=lambda: f"new-{next(numbers)}", by_group=by_group)
        if not balance.changes:
            break
        ring = balance.ring
    else:
        pytest.fail("the ring still changes")
    assert max(load_of(ring, by_group).values()) <= 1_000


def test_thresholds_leave_room_between_adding_and_removing() -> None:
    thresholds = BalanceThresholds()
    assert not thresholds.fits(thresholds.cpu_high) and thresholds.fits(thresholds.cpu_low)
