"""How a stream is divided is a value, by weights or by tokens; desired states have weights alone, as before."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.desired import WANTED_FRAGMENTS, WantedFragment
from scheduler.contracts.partitioning import Quota, partitioning_of
from scheduler.model.dataflow import Task
from scheduler.model.ring import KEY_GROUPS, Ring

weights = st.dictionaries(st.sampled_from(["f1-0", "f1-1", "f2-0", "f3-7"]), st.floats(0.0, 1.0), min_size=1)

tokens = st.dictionaries(st.integers(0, KEY_GROUPS - 1), st.sampled_from(["f1-0", "f1-1", "f2-0"]), min_size=1)
rings = st.builds(Ring, by=st.just(("sensor", "obs")), tokens=tokens, leaving=st.sampled_from([(), ("f3-7",)]))
ways = st.one_of(weights.map(Quota), rings)


@given(ways)
def test_every_way_survives_the_broker(how: Quota | Ring) -> None:
    read = partitioning_of(json.loads(json.dumps(how.document())))
    assert read == how and type(read) is type(how) and partitioning_of(how) is how


@given(ways)
def test_every_way_says_who_has_a_part_and_who_gets_events(how: Quota | Ring) -> None:
    assert set(how.served) <= set(how.bundles) and list(how.bundles) == sorted(set(how.bundles))
    assert bool(how.why_not) == (not how.served)
    parts = how.renamed(lambda bundle: f"f1-0.0@{bundle}")
    assert parts.bundles == tuple(f"f1-0.0@{bundle}" for bundle in how.bundles)
    assert parts.renamed(lambda part: part.rpartition("@")[2]) == how


@given(weights)
def test_contracts_have_the_weights_alone(given_weights: dict[str, float]) -> None:
    fragment = WantedFragment("f1-0", (Task("s", "any"),), routes={0: {"f1-1": Quota(given_weights)}})
    text = WANTED_FRAGMENTS.dumps(fragment)
    assert json.loads(text)["routes"] == {"0": {"f1-1": given_weights}}
    read = WANTED_FRAGMENTS.loads(text)
    assert read == fragment and isinstance(read.routes[0]["f1-1"], Quota)


@given(weights)
def test_who_is_served_has_a_weight(given_weights: dict[str, float]) -> None:
    quota = partitioning_of(given_weights)
    assert set(quota.bundles) == set(given_weights)
    assert set(quota.served) == {bundle for bundle, weight in given_weights.items() if weight > 0}
    assert bool(quota.why_not) == (not quota.served)


def test_what_cannot_be_is_said() -> None:
    for wrong in ({}, {"a": 0.0}, {"a": 1.0, "b": -0.5}, {"a": float("nan"), "b": 1.0}, {"a": float("inf")}):
        assert "cannot be divided by the weights" in Quota(wrong).why_not
    for by, where, leaving in (
        ((), {0: "a"}, ()), (("k",), {}, ()), (("k",), {-1: "a"}, ()), (("k",), {KEY_GROUPS: "a"}, ()), (
            ("k",), {0: "a"}, ("a",))):
        assert "cannot be divided by the keys" in Ring(by, where, leaving).why_not
