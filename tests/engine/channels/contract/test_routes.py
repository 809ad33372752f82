"""A stream is dealt out to the bundles of a divided reader: each event to one, by weight, and the same way again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.engine.channels import keys
from workers.engine.spark import queries

from ..reference import QuotaPartitioner
from .rig import Query, Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
WEIGHTS = {"r": 0.5, "s": 0.3, "t": 0.2}


def dealt(numbers: list[int], batch: int, weights: Mapping[str, float]) -> dict[str, list[int]]:
    """What each bundle should get of a batch."""
    partitioner = QuotaPartitioner.of(dict(sorted(weights.items())))
    indexes = partitioner.deal(batch, 0, len(numbers))
    return {
        part: [number for number, index in zip(numbers, indexes, strict=True) if index == part_index]
        for part_index, part in enumerate(partitioner.parts)
    }


def wait_for_all(rig: Rig, events: int, query: Query) -> None:
    """Until so many are there as a whole and in the parts: of a batch, one may be written a moment before the other."""
    parts = [keys.part("a.0", bundle) for bundle in WEIGHTS]
    wait_until(
        lambda: len(rig.events("a.0")) == sum(len(rig.events(part)) for part in parts) == events,
        what="all events", alive=(query,))


def assert_dealt(rig: Rig, weights_of: Mapping[int, Mapping[str, float]]) -> None:
    """Every batch of ``a.0`` is in the parts as its weights say: those of the last boundary up to it."""
    whole = rig.batches("a.0")
    bundles = sorted({bundle for weights in weights_of.values() for bundle in weights})
    batches_of = {bundle: rig.batches(keys.part("a.0", bundle)) for bundle in bundles}
    for batch, numbers in whole.items():
        weights = weights_of[max(first for first in weights_of if first <= batch)]
        expected = dealt(numbers, batch, weights)
        assert {bundle: batches_of[bundle].get(batch, []) for bundle in bundles} == {
            bundle: expected.get(bundle, []) for bundle in bundles
        }
    assert {batch for parts in batches_of.values() for batch in parts} <= set(whole)


def test_each_event_goes_to_one_bundle_by_weight(rig: Rig) -> None:
    rig = rig.with_config(block_rows=100)
    ticks = rig.ticks("a", rate_per_s=4_000, limit=1_500)
    rig.divide(ticks, "a", weights=WEIGHTS)
    query = rig.start(rig.publish(ticks, "a"), "a")  # whole, too: for one who is not divided
    wait_for_all(rig, 1_500, query)
    query.stop()
    assert_dealt(rig, {0: WEIGHTS})
    parts = {bundle: rig.numbers(keys.part("a.0", bundle)) for bundle in WEIGHTS}
    assert sorted(number for numbers in parts.values() for number in numbers) == list(range(1_500))
    for bundle, weight in WEIGHTS.items():
        assert abs(len(parts[bundle]) - 1_500 * weight) < 2 * len(rig.batches("a.0"))


def test_the_java_side_deals_out_as_the_reference_does(rig: Rig) -> None:
    doubles = rig.spark._jvm.double

    @settings(max_examples=60, deadline=None)
    @given(
        weights=st.lists(st.one_of(st.floats(0.001, 1.0), st.sampled_from([1.0, 1.0, 2.0])), min_size=1, max_size=12),
        batch=st.integers(0, 2**40), count=st.integers(1, 500))
    def alike(weights, batch, count) -> None:
        array = rig.spark._sc._gateway.new_array(doubles, len(weights))
        for index, weight in enumerate(weights):
            array[index] = weight
        reference = QuotaPartitioner.of({str(index): weight for index, weight in enumerate(weights)})
        assert list(rig.probe.dealt(array, batch, count)) == list(reference.deal(batch, 0, count))

    alike()


@pytest.mark.long
def test_weights_change_between_two_batches_and_lose_nothing(rig: Rig) -> None:
    ticks = rig.ticks("a", rate_per_s=500)
    rig.divide(ticks, "a", weights={"r": 1.0})
    query = rig.start(rig.publish(ticks, "a"), "a")
    rig.open_parts(ticks, "a.0", WEIGHTS)
    weights_of = {0: {"r": 1.0}}
    for weights in ({"r": 0.2, "s": 0.8}, WEIGHTS, {"s": 0.5, "t": 0.5}, {"r": 1, "s": 0}):
        batches = len(rig.batches("a.0"))
        wait_until(lambda batches=batches: len(rig.batches("a.0")) > batches + 3, what="batches", alive=(query,))
        assert rig.channels.route("a", 0, "r", weights)
        route = wait_until(
            lambda: (route := rig.channels.routed("a", 0, "r")) and route.effective and route,
            what="the boundary", alive=(query,),
        )
        weights_of[route.from_batch] = weights
    # Between two batches: one that is stopped in the middle may be there as a whole and not yet in its parts.
    assert queries.rest(query, pause=lambda: rig.channels.pause("a"))
    query.stop()
    numbers = rig.numbers("a.0")
    assert numbers == list(range(len(numbers)))
    assert_dealt(rig, weights_of)


@pytest.mark.long
def test_a_settled_route_gives_nothing_more_to_who_leaves(rig: Rig) -> None:
    ticks = rig.ticks("a", rate_per_s=500)
    rig.divide(ticks, "a", weights={"r": 0.5, "s": 0.5})
    writer = rig.start(rig.valve(ticks, "a"), "a")
    reader = rig.start(rig.publish(rig.read("s", "a.0@s"), "s"), "s")
    wait_until(lambda: len(rig.events("s.0")) > 50, what="events", alive=(writer, reader))
    rig.channels.route("a", 0, "r", {"r": 1.0})
    wait_until(lambda: rig.channels.routed("a", 0, "r").effective, what="the boundary", alive=(writer,))
    last = rig.channels.info("a.0@s").last
    wait_until(lambda: rig.channels.info("a.0@s").readers["s"] == last, what="the last event read", alive=(reader,))
    others = rig.channels.info("a.0@r").last
    wait_until(lambda: rig.channels.info("a.0@r").last != others, what="more events", alive=(writer,))
    assert rig.channels.info("a.0@s").last == last
    numbers = sorted(rig.numbers("a.0@r") + rig.numbers("s.0"))
    assert numbers == list(range(len(numbers)))


@pytest.mark.long
def test_a_full_part_stops_its_writer_until_it_has_room(rig: Rig) -> None:
    small = rig.with_config(max_rows=50)
    ticks = small.ticks("a", rate_per_s=1_000, limit=2_000, writes=("a.0",))
    rig.divide(ticks, "a", weights={"r": 0.5, "s": 0.5}, capacity=3)
    writer = rig.start(rig.valve(ticks, "a"), "a")
    fast = rig.start(rig.publish(rig.read("r", "a.0@r"), "r"), "r")
    wait_until(lambda: rig.channels.meters("a").get("throttled_by") == "a.0@s", what="a full part")
    assert rig.channels.info("a.0@s").blocks == 4
    slow = rig.start(rig.publish(rig.read("s", "a.0@s"), "s"), "s")
    wait_until(lambda: len(rig.events("r.0") + rig.events("s.0")) == 2_000, what="the rest", alive=(writer, fast, slow))
    assert sorted(rig.numbers("r.0") + rig.numbers("s.0")) == list(range(2_000))


def test_a_query_that_stops_and_starts_deals_out_the_same(rig: Rig) -> None:
    small = rig.with_config(max_rows=40)

    def source():
        ticks = small.ticks("a", rate_per_s=2_000, limit=1_200)
        rig.divide(ticks, "a", weights={"r": 1.0})
        return rig.start(rig.publish(ticks, "a"), "a")

    rig.open_parts(rig.ticks("a", rate_per_s=1), "a.0", WEIGHTS)
    first = source()
    wait_until(lambda: len(rig.events("a.0")) > 300, what="first events", alive=(first,))
    rig.channels.route("a", 0, "r", WEIGHTS)
    first.stop()  # wherever it is
    second = source()
    wait_for_all(rig, 1_200, second)
    second.stop()
    route = rig.channels.routed("a", 0, "r")
    assert_dealt(rig, {0: {"r": 1.0}, route.from_batch: WEIGHTS})
