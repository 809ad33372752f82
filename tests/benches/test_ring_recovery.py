"""Copies and take-over: what is said to survive does, for every set of machines; and what is not, is lost with some."""

from __future__ import annotations

import doctest
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.elasticity.copies import BundleHome, Survival, lost_with, survival
from scheduler.model.ring import KEY_GROUPS
from tests.benches import ring_takeover
from tests.benches.elastic_ring import ElasticRing
from tests.benches.ring_holders import holders
from tests.benches.ring_takeover import found_by, inherit, watched, zones_in_turn

NAMES = [f"f1-{number}" for number in range(7)]
homes_of = st.fixed_dictionaries({name: st.builds(
    BundleHome, machine=st.sampled_from([f"m{n}" for n in range(6)]), zone=st.just("")) for name in NAMES}).map(
    lambda homes: {name: BundleHome(home.machine, "abc"[int(home.machine[1:]) % 3]) for name, home in homes.items()})
rings = st.dictionaries(st.integers(0, KEY_GROUPS - 1), st.sampled_from(NAMES), min_size=1, max_size=10).map(
    lambda tokens: ElasticRing(("k",), tokens))


def zoned(bundles: int, zones: int) -> dict[str, BundleHome]:
    return {f"f1-{n}": BundleHome(f"m{n}", "abcdef"[n * zones // bundles]) for n in range(bundles)}


@given(rings, homes_of, st.integers(0, 3))
def test_copies_are_on_other_machines_and_in_zones_in_turn(ring: ElasticRing, homes, copies: int) -> None:
    for token, bundles in holders(ring, homes, copies=copies).items():
        machines = [homes[bundle].machine for bundle in bundles]
        assert bundles[0] == ring.tokens[token] and len(set(machines)) == len(machines)
        taken = {homes[bundle] for bundle in ring.served}
        assert len(bundles) == min(copies + 1, len({home.machine for home in taken}))
        # As many zones as there can be: a copy in one that has none comes before a second one elsewhere.
        assert len({homes[bundle].zone for bundle in bundles}) == min(len(bundles), len({home.zone for home in taken}))


@settings(max_examples=40, deadline=None)
@given(rings, homes_of, st.integers(0, 3))
def test_what_is_said_to_survive_does_and_nothing_more(ring: ElasticRing, homes, copies: int) -> None:
    held = holders(ring, homes, copies=copies)
    survives = survival(held, homes)
    machines = sorted({homes[bundle].machine for bundle in ring.served})

    def is_lost(dead: set[str], part: str = "machine") -> bool:
        living = [bundle for bundle in ring.served if getattr(homes[bundle], part) not in dead]
        return not living or bool(inherit(ring, held, living).lost)

    assert not any(is_lost(set(dead)) for dead in combinations(machines, survives.machines))
    assert any(is_lost(set(dead)) for dead in combinations(machines, survives.machines + 1))
    zones = {homes[bundle].zone for bundle in ring.served}
    assert {zone for zone in zones if not is_lost({zone}, "zone")} == set(survives.zones)


@given(
    st.dictionaries(st.integers(0, 9), st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), min_size=1),
    st.fixed_dictionaries({name: st.integers(0, 4) for name in NAMES}),
    st.fixed_dictionaries({machine: st.sampled_from(["", "a", "b"]) for machine in range(5)}))
def test_whoever_holds_what_each_choice_of_losses_is_judged_rightly(held, machines, zones) -> None:
    homes = {name: BundleHome(f"m{machine}", zones[machine]) for name, machine in machines.items()}
    survives = survival(held, homes)

    def lost(dead: set[int]) -> set[int]:
        return {state for state, names in held.items() if {machines[name] for name in names} <= dead}

    choices = [set(dead) for count in range(6) for dead in combinations(range(5), count)]
    assert survives.machines + 1 == min(len(dead) for dead in choices if lost(dead))
    for zone in "ab":
        dead = {machine for machine, named in zones.items() if named == zone}
        is_holding = any(machines[name] in dead for names in held.values() for name in names)
        assert (zone in survives.zones) == (is_holding and not lost(dead))
    assert "" not in survives.zones, "machines without a zone do not fail together"
    places = {name: home.machine for name, home in homes.items()}
    assert all(set(lost_with(held, places, f"m{machine}")) == lost({machine}) for machine in range(5))


@given(rings, homes_of, st.sets(st.sampled_from(NAMES), max_size=6))
def test_the_first_living_holder_takes_over_and_no_other_range_moves(ring: ElasticRing, homes, dead: set[str]) -> None:
    held, living = holders(ring, homes, copies=2), set(ring.served) - dead
    if not living:
        with pytest.raises(ValueError, match="all bundles of the ring are dead"):
            inherit(ring, held, living)
        return
    after = inherit(ring, held, living)
    assert set(after.ring.served) <= living and not after.ring.why_not
    assert {move.bundle for move, _ in ring.moved_to(after.ring)} <= dead
    for piece in ring.ranges:
        heir = next((bundle for bundle in held[piece.token] if bundle in living), None)
        assert (heir is None) == (piece in after.lost)
        assert after.ring.owner(piece.token) == (heir or after.takers[piece.token])
    finders = found_by(ring, living)
    assert sorted(token for tokens in finders.values() for token in tokens) == sorted(after.takers)
    assert set(finders) <= living


def test_each_watches_the_one_before_it_and_a_row_is_found_by_who_is_behind_it() -> None:
    ring = ElasticRing.even(["k"], ["a", "b", "c", "d"])
    assert watched(ring) == {"a": ("d",), "b": ("a",), "c": ("b",), "d": ("c",)}
    b, c = (piece.token for piece in ring.ranges[1:3])
    assert found_by(ring, {"a", "d"}) == {"d": (b, c)}
    assert watched(ElasticRing.even(["k"], ["a"])) == {}


@pytest.mark.parametrize(("copies", "bundles"), [(1, 12), (2, 12), (3, 12)])
def test_up_to_r_in_a_row_and_all_but_every_last_one_survive(copies: int, bundles: int) -> None:
    homes = zoned(bundles, 1)
    ring = ElasticRing.even(["k"], zones_in_turn(homes))
    held, order = holders(ring, homes, copies=copies), [piece.bundle for piece in ring.ranges]
    for first in range(bundles):
        row = {order[(first + step) % bundles] for step in range(copies)}
        assert not inherit(ring, held, set(order) - row).lost
        one_more = row | {order[(first + copies) % bundles]}
        assert len(inherit(ring, held, set(order) - one_more).lost) == 1
    most = {bundle for place, bundle in enumerate(order) if place % (copies + 1)}
    assert len(most) == bundles * copies // (copies + 1)
    assert not inherit(ring, held, set(order) - most).lost


@pytest.mark.parametrize(("zones", "words"), [
    (1, "any one machine"), (2, "any one machine, or zone a, or zone b"),
    (3, "any one machine, or zone a, or zone b, or zone c")])
def test_neighbours_are_in_different_zones_so_that_a_zone_may_go(zones: int, words: str) -> None:
    homes = zoned(12, zones)
    ring = ElasticRing.even(["k"], zones_in_turn(homes))
    order = [homes[piece.bundle].zone for piece in ring.ranges]
    assert zones == 1 or all(zone != order[place - 1] for place, zone in enumerate(order))
    held = holders(ring, homes, copies=1)
    assert str(survival(held, homes)) == words
    assert zones == 1 or all(bundles[1] == next(ring.clockwise(token)).bundle for token, bundles in held.items())


def test_the_words_hold() -> None:
    assert doctest.testmod(ring_takeover).failed == 0
    assert str(Survival(3, ("a", "b"))) == "any three machines, or zone a, or zone b"
