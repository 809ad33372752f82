"""Observation: rates from two readings, percentiles from histograms."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.histograms import mean_ms, percentile_ms
from scheduler.model.fragment import Fragment, RunningBundle
from workers.engine import observed
from workers.engine.channels import keys
from workers.engine.channels.channel_config import CAPACITY_BLOCKS
from workers.engine.channels.channel_registry import Channels
from workers.engine.observed import Meters, channel_blocks, flows

FRAGMENTS = [
    Fragment("f1-0", ("s", "p", "gone"), "n1/0", 2, {"s": ("f2-0",)}),
    Fragment("f2-0", ("k",), "n1/1", 1),
]
PARENTS = {"s": (), "p": ("s",), "k": ("s",)}


def bucket_of(ms: float) -> int:
    return math.floor(4 * math.log2(ms + 1))


def test_rates_come_from_the_difference_of_two_readings():
    before = Meters(1_000, {"f1-0": {"0:n": 100, "1:n": 50}})
    after = Meters(3_000, {"f1-0": {"0:n": 140, "1:n": 60, "2:n": 9}, "f2-0": {"0:n": 30, "in:n": 30}})
    measured = flows(before, after, FRAGMENTS, PARENTS)
    assert {name: (flow.rate_per_s, flow.events) for name, flow in measured.tasks.items()} == {
        "s": (20.0, 140), "p": (5.0, 60), "k": (15.0, 30)
    }
    assert {pair: flow.rate_per_s for pair, flow in measured.streams.items()} == {("s", "p"): 20.0, ("s", "k"): 20.0}


def test_the_flows_of_a_divided_fragment_are_those_of_its_bundles_together():
    bundles = (RunningBundle("f2-0", "n1/1", 2, 0.75), RunningBundle("f3-0", "n1/0", 1, 0.25))
    divided = [FRAGMENTS[0], Fragment("f2-0", ("k",), "n1/1", 1, bundles=bundles)]
    fast = bucket_of(20)
    assert observed.queries_of(divided) == {"f1-0", "f2-0", "f3-0"}
    before = Meters(0, {"f2-0": {"0:n": 10}, "f3-0": {"0:n": 5}})
    after = Meters(2_000, {
        "f1-0": {"0:n": 60}, "f2-0": {"in:n": 24, "0:n": 40, f"0:lat:{fast}": 3, f"in:chan:{fast}": 3},
        "f3-0": {"in:n": 12, "0:n": 15, f"0:lat:{fast}": 1}})
    measured = flows(before, after, divided, PARENTS)
    assert (measured.tasks["k"].rate_per_s, measured.tasks["k"].events) == (20.0, 55)
    assert measured.queries == {"f1-0": 30.0, "f2-0": 12.0, "f3-0": 6.0}, "what a source makes, and what others read"
    assert 15 < measured.tasks["k"].latency_p99_ms < 30 and 15 < measured.streams["s", "k"].channel_p50_ms < 30


def test_what_tasks_make_of_what_they_read():
    bundles = (RunningBundle("f2-0", "n1/1", 2, 0.75), RunningBundle("f3-0", "n1/0", 1, 0.25))
    divided = [FRAGMENTS[0], Fragment("f2-0", ("k",), "n1/1", 1, bundles=bundles)]
    meters = Meters(0, {
        "f1-0": {"0:n": 400, "1:n": 100}, "f2-0": {"in:n": 300, "0:n": 60}, "f3-0": {"in:n": 100, "0:n": 20}})
    assert observed.selectivities(meters, divided, least=400) == {"p": 0.25, "k": 0.2}, "a source reads nothing"
    assert observed.selectivities(meters, divided, least=401) == {}


def test_latencies_are_of_the_time_between_the_readings():
    slow, fast = bucket_of(5_000), bucket_of(20)
    before = Meters(0, {"f2-0": {f"0:lat:{slow}": 1_000}})
    after = Meters(1_000, {"f2-0": {
        f"0:lat:{slow}": 1_000, f"0:lat:{fast}": 10, f"in:chan:{fast}": 4, f"in:wait:{slow}": 4
    }})
    measured = flows(before, after, FRAGMENTS, PARENTS)
    assert 15 < measured.tasks["k"].latency_p50_ms <= measured.tasks["k"].latency_p99_ms < 30
    channel = measured.streams["s", "k"]
    assert channel.channel_p50_ms < 30 < 4_000 < channel.wait_p50_ms
    fused = measured.streams["s", "p"]
    assert fused.channel_p50_ms is None and fused.wait_p99_ms is None


def test_a_counter_that_went_backwards_counts_from_zero():
    measured = flows(Meters(0, {"f2-0": {"0:n": 500}}), Meters(1_000, {"f2-0": {"0:n": 20}}), FRAGMENTS, PARENTS)
    assert measured.tasks["k"].rate_per_s == 20.0


def test_the_same_moment_twice_gives_no_rate():
    reading = Meters(1_000, {"f2-0": {"0:n": 5}})
    assert flows(reading, reading, FRAGMENTS, PARENTS).tasks["k"].rate_per_s == 0.0


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_lies_in_the_bucket_of_the_true_one(latencies_ms, share):
    histogram: dict[int, int] = {}
    for latency_ms in latencies_ms:
        histogram[bucket_of(latency_ms)] = histogram.get(bucket_of(latency_ms), 0) + 1
    true_ms = sorted(latencies_ms)[math.ceil(share * len(latencies_ms)) - 1]
    low, high = 2 ** (bucket_of(true_ms) / 4) - 1, 2 ** ((bucket_of(true_ms) + 1) / 4) - 1
    assert low - 1e-6 <= percentile_ms(histogram, share) <= high + 1e-6


def test_nothing_counted_has_no_percentile():
    assert percentile_ms({}, 0.5) is None and percentile_ms({3: 0}, 0.99) is None


@pytest.mark.broker
def test_reports_and_meters_are_read_from_the_broker(broker):
    broker.set("weir:observed:n1", json.dumps({"node": "n1", "version": 1, "slots": {}}))
    broker.hset("weir:meter:f1-0", mapping={"0:n": 5, "throttled_by": "f1-0.2"})
    assert set(observed.read_reports(broker)) == {"n1"}
    reading = observed.read_meters(broker, ["f1-0", "f9-9"])
    assert reading.counts == {"f1-0": {"0:n": 5}, "f9-9": {}}
    assert observed.read_meters(broker, []).at_ms >= reading.at_ms > 0


@pytest.mark.broker
def test_a_meter_that_says_the_same_again_is_not_counted_again(broker):
    before: observed.MeterAnswers = {}
    for name in ("f1-0", "f2-0", "f3-0"):
        broker.hset(f"weir:meter:{name}", mapping={"0:n": 5, "1:n": 7})
    first = observed.read_meters(broker, ["f1-0", "f2-0", "f3-0"], before=before).counts
    broker.hincrby("weir:meter:f2-0", "1:n", 1)
    broker.delete("weir:meter:f3-0")
    second = observed.read_meters(broker, ["f1-0", "f2-0", "f3-0", "f4-0"], before=before).counts
    assert second["f1-0"] is first["f1-0"] and second.keys() == before.keys()
    assert second == observed.read_meters(broker, second).counts == {
        "f1-0": {"0:n": 5, "1:n": 7}, "f2-0": {"0:n": 5, "1:n": 8}, "f3-0": {}, "f4-0": {}}


def test_a_watermark_is_of_the_bundle_that_is_furthest_behind():
    behind = flows(Meters(), Meters(9_000, {"f2-0": {"0:n": 5, "0:time": 8_400}}), FRAGMENTS, PARENTS).tasks
    assert behind["k"].watermark_lag_ms == 600.0
    assert {flow.watermark_lag_ms for task, flow in behind.items() if task != "k"} == {None}


def test_late_events_are_counted_by_task() -> None:
    before = Meters(0, {"f2-0": {"0:n": 5, "0:late": 3}})
    tasks = flows(before, Meters(2_000, {"f2-0": {"0:n": 5, "0:late": 13}}), FRAGMENTS, PARENTS).tasks
    assert (tasks["k"].late, tasks["k"].late_per_s) == (13, 5.0)
    assert {(flow.late, flow.late_per_s) for task, flow in tasks.items() if task != "k"} == {(0, 0.0)}


def test_the_youngest_and_the_oldest_event_are_told_by_the_ends_of_their_buckets() -> None:
    before = Meters(0, {"f1-0": {"0:lat:20": 9, "0:lat:40": 1}})
    after = Meters(2_000, {"f1-0": {"0:n": 40, "0:lat:20": 9, "0:lat:24": 3, "0:lat:32": 7, "0:lat:40": 1}})

    flow = flows(before, after, FRAGMENTS, PARENTS).tasks["s"]

    assert (flow.latency_min_ms, flow.latency_max_ms) == (2 ** 6 - 1, 2 ** 8.25 - 1)
    assert flow.latency_min_ms < flow.latency_p50_ms < flow.latency_max_ms


def test_mean_latencies_are_exact_and_of_the_time_between_the_readings() -> None:
    before = Meters(0, {"f1-0": {"0:age": 900_000, "0:aged": 100}})
    after = Meters(2_000, {"f1-0": {"0:n": 40, "0:age": 912_000, "0:aged": 140, "1:n": 3}})

    tasks = flows(before, after, FRAGMENTS, PARENTS).tasks

    assert tasks["s"].latency_mean_ms == 300.0
    assert tasks["p"].latency_mean_ms is None


@given(st.dictionaries(st.floats(0, 60_000), st.integers(1, 50), min_size=1, max_size=20))
def test_the_mean_of_a_histogram_is_near_to_that_of_what_it_holds(latencies: dict[float, int]) -> None:
    histogram: dict[int, int] = {}
    for ms, count in latencies.items():
        histogram[bucket_of(ms)] = histogram.get(bucket_of(ms), 0) + count
    mean = sum(ms * count for ms, count in latencies.items()) / sum(latencies.values())

    assert abs(mean_ms(histogram) - mean) <= 0.1 * (mean + 1)


@pytest.mark.broker
def test_blocks_of_a_channel_with_more_room_count_for_less(broker) -> None:
    channels = Channels(broker)
    for name, capacity in (("a.0", CAPACITY_BLOCKS), ("b.0", 8 * CAPACITY_BLOCKS)):
        channels.open_channel(name, schema_json="{}", capacity=capacity, readers=["r"])
        for block in range(16):
            broker.xadd(keys.channel(name), {"b": b""}, id=f"{block + 1}-0")
    assert channel_blocks(broker, ["a.0", "b.0", "c.0"]) == {"a.0": 16, "b.0": 2, "c.0": 0}
