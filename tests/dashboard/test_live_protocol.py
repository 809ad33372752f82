"""Merge patches, and versions in the broker."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from dashboard.live.live_protocol import difference, without_nulls
from dashboard.live.state_versions import INTERVAL_S, KEPT_PATCHES, LiveView, Versions

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers() | st.none(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=4), max_leaves=12)
states = st.dictionaries(st.sampled_from("abcd"), values, max_size=4).map(without_nulls)


def applied(state: Any, patch: Any) -> Any:
    """The state after a merge patch, as RFC 7386 has it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(state) if isinstance(state, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@given(states, states)
def test_a_patch_makes_one_state_into_the_other(before, after):
    patch = difference(before, after)
    assert applied(before, patch) == after
    assert bool(patch) is (json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True))  # 1 is not true


def test_one_and_true_differ():
    assert difference({"a": 1}, {"a": True}) == {"a": True}


# The examples of RFC 7386, appendix A.
@pytest.mark.parametrize(("original", "patch", "result"), [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}), ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}), ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}), ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}), ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}), (["a", "b"], ["c", "d"], ["c", "d"]), ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None), ({"a": "foo"}, "bar", "bar"), ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}), ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
])
def test_the_examples_of_the_standard(original, patch, result):
    assert applied(original, patch) == result


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def versions(broker: redis.Redis, clock: Clock) -> Versions:
    return Versions(broker, now_s=clock)


@pytest.mark.broker
def test_versions_are_built_at_most_twice_a_second_and_numbered(versions: Versions, clock: Clock):
    built = []

    def build(state):
        built.append(state)
        return state

    first = versions.refresh(LiveView("t", "s", lambda: build({"n": 1})))
    assert versions.refresh(LiveView("t", "s", lambda: build({"n": 2}))) == first
    clock.now_s += INTERVAL_S
    assert versions.refresh(LiveView("t", "s", lambda: build({"n": 1}))) == first  # nothing new: no new number
    clock.now_s += INTERVAL_S
    second = versions.refresh(LiveView("t", "s", lambda: build({"n": 2})))
    assert (second.seq, second.state, built) == (first.seq + 1, {"n": 2}, [{"n": 1}, {"n": 1}, {"n": 2}])
    assert versions.refresh(LiveView("t", "other", lambda: {"n": 9})).state == {"n": 9}


@pytest.mark.broker
def test_patches_lead_from_a_number_to_the_newest(versions: Versions, clock: Clock):
    numbers = []
    for n in range(KEPT_PATCHES + 5):
        numbers.append(versions.refresh(LiveView("t", "s", lambda n=n: {"n": n, "same": "x"})))
        clock.now_s += INTERVAL_S
    newest = numbers[-1]
    assert versions.patches_since("t", "s", newest.seq, until=newest.seq) == []
    chain = versions.patches_since("t", "s", numbers[-4].seq, until=newest.seq)
    state = numbers[-4].state
    for patch in chain:
        state = applied(state, patch.patch)
    assert (len(chain), state) == (3, newest.state)
    assert versions.patches_since("t", "s", numbers[0].seq, until=newest.seq) is None  # no longer kept
    assert versions.patches_since("t", "s", 0, until=newest.seq) is None


@pytest.mark.broker
def test_numbers_grow_also_after_the_broker_lost_everything(versions: Versions, clock: Clock, broker: redis.Redis):
    before = versions.refresh(LiveView("t", "s", lambda: {"n": 1}))
    broker.flushall()
    clock.now_s += 5
    assert versions.refresh(LiveView("t", "s", lambda: {"n": 1})).seq > before.seq


@pytest.mark.broker
def test_of_many_who_refresh_at_once_all_agree(broker: redis.Redis):
    clock, barrier = Clock(), threading.Barrier(6)

    def refresh(n: int):
        barrier.wait()
        return Versions(broker, now_s=clock).refresh(LiveView("t", "s", lambda: {"n": n}))

    with ThreadPoolExecutor(6) as pool:
        refreshed = list(pool.map(refresh, range(6)))
    by_seq = {version.seq: version.state for version in refreshed}
    assert all(by_seq[version.seq] == version.state for version in refreshed)
    assert len(by_seq) == 1
