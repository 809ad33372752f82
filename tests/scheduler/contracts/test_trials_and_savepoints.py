"""Trials between versions: what one does not know is left out, what is missing has its default."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import RESTORE_POINTS, SAVEPOINTS, RestorePoint, Savepoint
from scheduler.contracts.trials import (
    TRIAL_ORDERS,
    TRIAL_PROGRESS,
    TRIAL_RESULTS,
    TrialOrder,
    TrialProgress,
    TrialSample,
)
from scheduler.contracts.trials import TrialResult as Result

names = st.text("abc", min_size=1, max_size=3)
numbers = st.floats(0.001, 1e6)
orders = st.builds(
    TrialOrder, id=names, node=names, slot=names, task_type=names,
    config=st.dictionaries(names, st.none() | st.integers() | names), threads=st.integers(1, 99), rate_per_s=numbers,
    feed=st.lists(st.fixed_dictionaries({"type": names, "config": st.just({})}), max_size=2), approved=st.booleans())
samples = st.builds(
    TrialSample, at_s=numbers, latency_s=st.none() | numbers, events_per_s=numbers, cpu=numbers, memory=numbers)
results = st.builds(
    Result, id=names, ok=st.booleans(), threads=st.integers(0, 9), selectivity=st.none() | numbers,
    latency_s=st.dictionaries(names, numbers), series=st.lists(samples, max_size=2).map(tuple),
    batches=st.lists(
        st.tuples(numbers, numbers, st.integers(0, 9), st.integers(0, 9), st.none() | numbers), max_size=2).map(tuple))
offsets = st.dictionaries(names, st.from_regex(r"\A[0-9]{1,3}-[0-9]{1,2}\Z").map(Offset))
states = st.dictionaries(names, st.lists(st.none() | names, max_size=2))
source_offsets = st.none() | st.fixed_dictionaries({"t0": st.integers(0, 9), "next": st.integers(0, 9)})
bases = st.dictionaries(names, st.integers(0, 99))
savepoints = st.builds(
    Savepoint, source_offset=source_offsets, offsets=offsets, last_offsets=offsets, batch_bases=bases, states=states)
restore_points = st.builds(
    RestorePoint, source_offset=source_offsets, offsets=offsets, batch_bases=bases, states=states)
written = st.one_of(
    st.tuples(st.just(TRIAL_ORDERS), orders), st.tuples(st.just(TRIAL_RESULTS), results),
    st.tuples(st.just(TRIAL_PROGRESS), st.builds(TrialProgress, state=names, at_ms=st.integers(0, 9), of_s=numbers)),
    st.tuples(st.just(SAVEPOINTS), savepoints), st.tuples(st.just(RESTORE_POINTS), restore_points))


@given(written=written)
def test_what_is_written_is_read_again_by_an_earlier_version_too(written):
    codec, value = written
    assert codec.loads(codec.dumps(value)) == value
    assert codec.read({**json.loads(codec.dumps(value)), "of_a_later_version": [1]}) == value


def test_an_order_of_an_earlier_site_is_read():
    order = TRIAL_ORDERS.loads(
        '{"id": "t", "node": "n", "slot": "0", "task_type": "pi", "config": {}, "threads": 1, "rate_per_s": 10}')
    assert not order.approved and order.feed == () and order.seconds == 4.0


@pytest.mark.parametrize("text", ["[1]", "no JSON", "{}", '{"id": 5, "ok": true}'])
def test_what_is_no_result_is_refused_with_the_place(text):
    with pytest.raises(InvalidContract, match=r"TrialResult cannot be read: .+ at "):
        TRIAL_RESULTS.loads(text)


def test_a_file_beside_a_checkpoint_keeps_its_names():
    point = RestorePoint(source_offset={"t0": 5, "next": 9}, offsets={"a.0": "3-0"}, batch_bases={"b.0": 4})
    document = RESTORE_POINTS.document(point)
    assert document == {"ticks": {"t0": 5, "next": 9}, "places": {"a.0": "3-0"}, "bases": {"b.0": 4}, "states": {}}
    assert set(RESTORE_POINTS.schema()["properties"]) == {
        *document, "repeats", "recorded", "reads", "gone"}, "which are left out where it is not so"
    with pytest.raises(InvalidContract, match=r"no JSON|expected"):
        RESTORE_POINTS.loads("no JSON")
