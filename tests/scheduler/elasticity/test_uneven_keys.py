"""Keys that are spread unevenly: another cut is worth it where a full bundle has less by it, and then no more."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.elasticity.uneven_keys import KeyedLoad, uneven_keys
from scheduler.key_division import ranges_of, ring_cut, whole_groups
from scheduler.model.fragment import RunningBundle
from scheduler.model.key_loads import STRETCHES, DividedKeys, KeyLoads
from scheduler.model.ring import KEY_GROUPS, KeyRange

FULL, CALM = KeyedLoad(5_000.0, 0.97), KeyedLoad(0.0, 0.97)


def share(loads: KeyLoads, bundle: RunningBundle) -> float:
    """Its part of the events for its part of them as planned, counted stretch by stretch."""
    shares = [loads.share(KeyRange(first, size, "")) for first, size in bundle.key_ranges]
    return sum(shares) / bundle.weight


@st.composite
def tasks(draw: st.DrawFn) -> tuple[list[RunningBundle], KeyLoads]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    weights = whole_groups({place: size / sum(sizes) for place, size in enumerate(sizes)})
    ranges = ranges_of(list(weights.values()))
    slots = draw(st.lists(st.integers(0, 9), min_size=len(sizes), max_size=len(sizes)))
    bundles = [RunningBundle(f"f1-{place}", f"n/{slots[place]}", 1, weight, key_ranges=(ranges[place],))
               for place, weight in weights.items()]
    heavy = draw(st.dictionaries(st.integers(0, STRETCHES - 1), st.floats(10.0, 5_000.0), max_size=6))
    return bundles, KeyLoads(tuple(10.0 + heavy.get(place, 0.0) for place in range(STRETCHES)))


@settings(max_examples=300, deadline=None)
@given(tasks())
def test_another_cut_is_worth_it_where_the_fullest_has_a_tenth_less_and_then_no_more(task) -> None:
    bundles, loads = task
    shares = {place: bundle.weight for place, bundle in enumerate(bundles)}
    anew = ring_cut(shares, dict.fromkeys(shares, ""), DividedKeys(loads, {}))
    then = [replace(bundle, key_ranges=anew[place]) for place, bundle in enumerate(bundles)]
    before, after = (max(share(loads, bundle) for bundle in cut_bundles) for cut_bundles in (bundles, then))
    uneven = uneven_keys("t", bundles, loads, {bundle.id: FULL for bundle in bundles})
    assert (uneven is not None) == (before > 1.1 * after)
    if uneven is not None:
        assert abs(uneven.events / uneven.wanted - before) < 1e-9 and abs(uneven.then / uneven.wanted - after) < 1e-9
        assert uneven.cut != uneven.other_cut
    assert uneven_keys("t", then, loads, {bundle.id: FULL for bundle in bundles}) is None


def test_nothing_is_cut_where_the_fullest_bundle_keeps_up_or_is_not_known() -> None:
    half = KEY_GROUPS // 2
    bundles = [RunningBundle("a", "n/0", 1, 0.5, key_ranges=((0, half),)),
               RunningBundle("b", "n/1", 1, 0.5, key_ranges=((half, half),))]
    loads = KeyLoads((30.0,) * (STRETCHES // 2) + (10.0,) * (STRETCHES // 2))
    uneven = uneven_keys("t", bundles, loads, {"a": FULL})
    assert uneven is not None and (uneven.bundle, uneven.events, uneven.cut) == ("a", 0.75, "50.00% + 50.00%")
    assert uneven.other_cut == "33.33% + 66.67%" and abs(uneven.then - 0.5) < 1e-4
    for working in ({}, {"a": CALM, "b": FULL}, {"a": KeyedLoad(5_000.0, 0.5)}):
        assert uneven_keys("t", bundles, loads, working) is None
