"""Counters of what is used, as they come together from reports, meters and channels."""

from __future__ import annotations

import json

import pytest
import redis

from scheduler.model.fragment import Fragment
from scheduler.performance.attribution import query_work
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.counters import read_counters

pytestmark = pytest.mark.broker
USED = {"since_ms": 5, "cpu_ms": 700, "memory_mb_s": 90}


def publish(broker: redis.Redis, slots: dict) -> None:
    broker.set(keys.observed("n1"), json.dumps({"node": "n1", "slots": slots}))


def test_counters_of_slots_queries_and_channels(broker: redis.Redis) -> None:
    answers = {
        "f1-0": Fragment("f1-0", ("a", "b"), "n1/0", active=2),
        "f2-0": Fragment("f2-0", ("c",), "n1/0", active=1, channels={"c": "f0-0.3"}),
    }
    publish(broker, {"0": {"used": USED, "fragments": {
        "f1-0": {"busy_ms": 30, "batches": 4}, "f2-0": {"busy_ms": 5, "batches": 1}, "gone": {"busy_ms": 2}}}})
    broker.hset(keys.meter("f1-0"), mapping={
        "0:n": 10, "1:n": 8, "0:lat:7": 3, "in:n": 12, "in:bytes": 600, "in:chan:4": 2, "throttled_by": "f1-0.1"})
    broker.hset(keys.meter("gone"), "0:n", 1)
    broker.hset(keys.meta("f1-0.1"), "bytes", 4_000)
    broker.hset(keys.meta("f0-0.3"), "bytes", 50)
    requests = []

    def look_up(ids):
        requests.append(sorted(ids))
        return answers

    assert read_counters(broker, look_up) == {"n1/0": {**USED, "queries": {
        "f1-0": {"busy_ms": 30, "batches": 4, "0:n": 10, "1:n": 8, "in:n": 12, "in:bytes": 600, "ch:f1-0.1": 4_000},
        "f2-0": {"busy_ms": 5, "batches": 1, "ch:f0-0.3": 50},
        "gone": {"busy_ms": 2, "batches": 0, "0:n": 1},
    }}}
    assert requests == [["f1-0", "f2-0", "gone"]]


def test_bytes_of_a_divided_stream_are_those_of_its_parts(broker: redis.Redis) -> None:
    publish(broker, {"0": {"used": USED, "fragments": {"f1-0": {"busy_ms": 30, "batches": 4}}}})
    channels = Channels(broker)
    channels.route("f1-0", 0, "f2-0", {"f2-0": 0.5, "f3-0": 0.5}, from_batch=0)
    for part, count in (("f1-0.0@f2-0", 70), ("f1-0.0@f3-0", 30), ("f1-0.0@gone", 9), ("f1-0.0", 5)):
        broker.hset(keys.meta(part), "bytes", count)
    counters = read_counters(broker, lambda ids: {"f1-0": Fragment("f1-0", ("a",), "n1/0", active=1)})
    counts = counters["n1/0"]["queries"]["f1-0"]
    assert counts == {"busy_ms": 30, "batches": 4, "ch:f1-0.0": 5, "ch:f1-0.0@f2-0": 70, "ch:f1-0.0@f3-0": 30}
    work = query_work(counts, [("a", 1.0, "f1-0.0")])
    assert work.tasks[0].traffic_bytes == 105, "what was written to both and to the whole"


def test_what_a_node_has_on_disk_for_a_query_is_among_its_counters(broker: redis.Redis) -> None:
    slots = {"0": {"used": USED, "fragments": {"f1-0": {"busy_ms": 30, "batches": 4}, "f2-0": {}}}}
    broker.set(keys.observed("n1"), json.dumps({"node": "n1", "slots": slots, "spilled_kb_s": {"f1-0": 70, "x": 9}}))
    queries = read_counters(broker, lambda ids: {})["n1/0"]["queries"]
    assert queries["f1-0"]["spilled_kb_s"] == 70 and "spilled_kb_s" not in queries["f2-0"]


def test_a_slot_that_is_not_metered_is_left_out(broker: redis.Redis) -> None:
    publish(broker, {
        "0": {"used": None, "fragments": {}}, "1": {"fragments": {}}, "2": {"used": USED, "fragments": {}}})
    assert read_counters(broker, lambda ids: {}) == {"n1/2": {**USED, "queries": {}}}


def test_without_reports_there_is_nothing(broker: redis.Redis) -> None:
    assert read_counters(broker, lambda ids: {}) == {}
