"""What a slot wrote into the broker that is none: whoever reads the same of all queries goes on, and knows the rest."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis

from scheduler.contracts.copy_reports import COPY_REPORTS, CopyReport
from scheduler.contracts.switches import SWITCHES, AlternateSwitch
from scheduler.model.fragment import Fragment
from scheduler.model.key_loads import LEAST_EVENTS, STRETCHES
from workers.engine import counters, newest_blocks, observed, qos_store, search_store, waiting
from workers.engine.channels import keys
from workers.engine.channels.block_codec import encode_block
from workers.engine.channels.channel_config import BLOCK_ROWS
from workers.engine.channels.channel_registry import Channels
from workers.engine.key_meters import key_loads
from workers.engine.lost_nodes import holders_of
from workers.engine.noted_switches import noted_key_switches, noted_switches
from workers.engine.slot_values import table_of
from workers.engine.taps import Tapped, copied_blocks, newest_events

pytestmark = pytest.mark.broker
FORGED, HONEST = "f9-0", "f1-0"
VALUES = {
    "5,000 digits": b"9" * 5_000, "400 digits": b"9" * 400, "20 digits": b"9" * 20, "a word": b"x", "NaN": b"nan",
    "less than nothing": b"-1", "nothing": b"", "no UTF-8": b"\xff\xfe", "zero": b"0", "a list": b"[1]",
    "an object": b"{}", "deep": b"[" * 100_000, "no time": b'{"by_stretch": [], "frequent": [], "at_ms": 1e400}'}
FIELDS = ("0:n", "in:n", "0:lat:5", "0:lat:5000", "0:lat:²".encode(), "0:time", "0:age", "0:aged", "0:late", b"\xff:n",
          "reader", "0:route:f2-0:1", "0:route:1", "0:alternate:1", "throttled_by", "in:chan:7")
HASHES = (keys.meter(FORGED), keys.channel_meters(FORGED), keys.valve(FORGED), keys.meta(f"{FORGED}.0"),
          keys.readers(f"{FORGED}.0"), keys.switches(FORGED), keys.key_switches(FORGED), keys.copies(FORGED),
          keys.key_meters(FORGED))


def fragment(name: str) -> Fragment:
    return Fragment(name, ("t" if name == HONEST else FORGED,), "n1/0", active=1)


def flows(broker: redis.Redis) -> Any:
    running, nothing = [fragment(HONEST), fragment(FORGED)], observed.Meters()
    return observed.flows(nothing, observed.read_meters(broker, [HONEST, FORGED]), running, {}).tasks["t"].events


def counters_written(broker: redis.Redis) -> Any:
    running = {name: fragment(name) for name in (HONEST, FORGED)}
    return counters._written(broker, running)[HONEST]


READINGS: dict[str, tuple[Callable[[redis.Redis], Any], Any]] = {  # what is read of the honest query
    "rates": (flows, 5),
    "selectivities": (lambda broker: observed.selectivities(
        observed.read_meters(broker, [HONEST, FORGED]), [fragment(FORGED), fragment(HONEST)], least=1)["t"], 0.5),
    "blocks": (lambda broker: observed.channel_blocks(broker, [f"{FORGED}.0", f"{HONEST}.0"])[f"{HONEST}.0"], 1),
    "sizes": (lambda broker: observed.event_bytes(broker, [f"{FORGED}.0", f"{HONEST}.0"])[f"{HONEST}.0"], 7.0),
    "limits": (lambda broker: qos_store.fetch(broker, "n1", [FORGED, HONEST]).meters[HONEST]["0:n"], 5),
    "bytes": (counters_written, {f"ch:{HONEST}.0": 14}),
    "what waits": (lambda broker: waiting.waiting_events(
        broker, {FORGED: [f"{FORGED}.0"], HONEST: [f"{HONEST}.0"]})[HONEST], 2),
    "copies": (lambda broker: holders_of(broker, [FORGED, HONEST], living=["n2"])[HONEST], "n2"),
    "keys": (lambda broker: key_loads(broker, {"reader": [FORGED, HONEST]})["reader"].events, 2 * LEAST_EVENTS),
    "switches": (lambda broker: [len(noted_switches(broker, task)) for task in (FORGED, HONEST)], [0, 1]),
    "switches of keys": (lambda broker: len(noted_key_switches(broker, FORGED)), 0),
    "events": (lambda broker: newest_events(
        broker, Tapped("t", [HONEST], earlier=[FORGED]), count=5).events, [{"a": 2}, {"a": 1}]),
    "events that are kept": (lambda broker: newest_events(
        broker, Tapped("t", [], retained_in=[f"{FORGED}.0", f"{HONEST}.0"]), count=5).events, [{"a": 2}, {"a": 1}]),
    "events of an output": (lambda broker: Channels(broker).tail(f"{HONEST}.0"), [{"a": 1}, {"a": 2}])}


def written(broker: redis.Redis) -> None:
    """What an honest query wrote."""
    block = encode_block(pa.record_batch({"a": [1, 2]}))
    broker.hset(keys.meter(HONEST), mapping={"0:n": 5, "in:n": 10})
    Channels(broker).open_channel(f"{HONEST}.0", schema_json="{}", readers=[HONEST])
    broker.hset(keys.meta(f"{HONEST}.0"), mapping={"bytes": 14, "events": 2})
    broker.xadd(keys.channel(f"{HONEST}.0"), {"b": block, "n": 2}, id="1-1")
    broker.hset(keys.switches(HONEST), "a", SWITCHES.dumps(AlternateSwitch("few", HONEST, 1, 1, 1)))
    broker.lpush(keys.tapped("t", HONEST), block)
    for name in (HONEST, FORGED):
        broker.hset(keys.copies(name), "n2", COPY_REPORTS.dumps(CopyReport(1, {f"{name}.0": (1, 1)})))
    counted = {"at_ms": 1, "by_stretch": [2 * LEAST_EVENTS, *[0] * (STRETCHES - 1)], "frequent": []}
    broker.hset(keys.key_meters(HONEST), "reader", json.dumps(counted))


@pytest.mark.parametrize("reading", READINGS)
def test_one_that_wrote_what_is_none_keeps_nobody_from_the_others(broker: redis.Redis, reading: str) -> None:
    read, expected = READINGS[reading]
    for value in VALUES.values():
        broker.flushall()
        written(broker)
        for name in HASHES:
            broker.hset(name, mapping=dict.fromkeys(FIELDS, value) | {
                "capacity": value, "bytes": value, "events": value, FORGED: value})
        broker.xadd(keys.channel(f"{FORGED}.0"), {"b": value, "n": value})
        broker.sadd(keys.tapped("t"), value)
        broker.lpush(keys.tapped("t", FORGED), value)
        assert read(broker) == expected, value[:10]


@pytest.mark.parametrize("reading", READINGS)
def test_one_that_wrote_another_kind_of_value_does_so_neither(broker: redis.Redis, reading: str) -> None:
    read, expected = READINGS[reading]
    written(broker)
    for name in (*HASHES, keys.channel(f"{FORGED}.0"), keys.tapped("t"), keys.tapped("t", FORGED)):
        broker.set(name, "x")
    assert read(broker) == expected


def test_a_block_of_few_bytes_that_is_many_events_is_not_decoded(broker: redis.Redis) -> None:
    block = packed(pa.array(np.zeros(30_000_000, np.int8)))
    assert len(block) < 10_000
    broker.xadd(keys.channel(f"{FORGED}.0"), {"b": block})
    broker.lpush(keys.tapped("t", FORGED), block)
    assert Channels(broker).tail(f"{FORGED}.0") == []
    assert newest_events(broker, Tapped("t", [FORGED]), count=5).events == []


def test_who_looks_reads_no_more_of_blocks_than_may_be_read(
    broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred blocks of 256 MB each could be read before, at one look: of a channel, and of each query's copies."""
    block = encode_block(pa.record_batch({"a": pa.array(np.arange(1_000))}))
    monkeypatch.setattr(newest_blocks, "MOST_BYTES", 5 * len(block))
    names = [f"f{number}-0" for number in range(4)]
    for name in names:
        broker.lpush(keys.tapped("t", name), *[block] * 10)
        for _ in range(10):
            broker.xadd(keys.channel(f"{name}.0"), {"b": block})
    channel = keys.channel(f"{names[0]}.0")
    taken = [len(newest_blocks.newest_blocks(broker, [channel], count=count)[0]) for count in (3, 100)]
    assert taken == [3, 5]
    for stream in (Tapped("t", names), Tapped("t", [], retained_in=[f"{name}.0" for name in names])):
        assert len(copied_blocks(broker, stream)) == len(names), "one of each, as an even part holds"
        assert len(newest_events(broker, stream, count=8).events) == 8
    assert len(Channels(broker).tail(f"{names[0]}.0", 50)) == 50
    monkeypatch.setattr(newest_blocks, "MOST_BYTES", len(block) - 1)
    assert copied_blocks(broker, Tapped("t", names)) == []


MANY = 2_500_001  # values; a message has fewer
ZEROS = pa.array(np.zeros(MANY, np.int8))


def lists(values: pa.Array, *ends: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), values)


AS_PYTHON = {  # of a column of a block of a few kB, what of its events is shown
    "nulls": (pa.nulls(MANY), 5), "zeros": (ZEROS, 5), "a list": (lists(ZEROS, 0, 0, MANY), 0),
    "lists of records": (lists(pa.StructArray.from_arrays([ZEROS], ["b"]), 1, MANY - 1, MANY), 1),
    "unions": (pa.UnionArray.from_sparse(pa.array([0] * 5, pa.int8()), [pa.nulls(5)]), 0)}


def packed(column: pa.Array) -> bytes:
    sink, batch = pa.BufferOutputStream(), pa.record_batch([column], names=["a"])
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("name", AS_PYTHON)
def test_of_a_block_no_more_is_made_to_python_s_values_than_is_shown(broker: redis.Redis, name: str) -> None:
    column, shown = AS_PYTHON[name]
    block = packed(column)
    assert len(block) < 10_000
    for _ in range(2):
        broker.xadd(keys.channel(f"{FORGED}.0"), {"b": block})
    broker.lpush(keys.tapped("t", FORGED), block, block)
    stream = Tapped("t", [FORGED])
    tracemalloc.start()
    try:
        assert len(Channels(broker).tail(f"{FORGED}.0", 5)) == shown
        assert len(newest_events(broker, stream, count=5).events) == shown
        assert max(len(block.events) for block in search_store.new_blocks(broker, "s", stream)) <= BLOCK_ROWS
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


TEXT = pa.array(["abcdefgh", "x"])
BEYOND = {  # columns of texts, and the bytes of their offsets
    "texts": (TEXT, (0, 8, 9)), "bytes": (TEXT.cast(pa.binary()), (0, 8, 9)),
    "in lists": (lists(TEXT, 1, 2), (0, 8, 9)), "in records": (pa.StructArray.from_arrays([TEXT], ["b"]), (0, 8, 9)),
    "in maps": (pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), TEXT, TEXT), (0, 8, 9)),
    "of lists": (lists(pa.array([7, 8]), 1, 2), (0, 1, 2))}


@pytest.mark.parametrize("name", BEYOND)
def test_a_block_that_refers_to_what_is_not_in_it_is_none_for_who_writes_it_on(name: str) -> None:
    """The connector host holds what all teams' sinks log in with."""
    column, offsets = BEYOND[name]
    good, (first, middle, last) = encode_block(pa.record_batch([column], names=["a"])), offsets
    assert table_of(good).to_pydict() == {"a": column.to_pylist()}
    was = struct.pack("<3i", *offsets)
    assert was in good
    for forged in ((first, 60_000, last), (first, middle, 60_000), (-60_000, middle, last)):
        with pytest.raises(pa.ArrowInvalid):
            table_of(good.replace(was, struct.pack("<3i", *forged)))


def test_what_spark_writes_is_a_block_for_who_writes_it_on() -> None:
    """Texts of any bytes, nulls in lists, and empty columns."""
    columns = [TEXT.cast(pa.binary()).view(pa.string()), lists(pa.nulls(2), 1, 2), pa.nulls(2)]
    block = encode_block(pa.record_batch(columns, names=["a", "b", "c"])).replace(b"abcdefgh", b"\xff" * 8)
    rows = table_of(block)
    assert rows["a"].cast(pa.binary()).to_pylist() == [b"\xff" * 8, b"x"]
    assert rows.select(["b", "c"]).to_pydict() == {"b": [[None], [None]], "c": [None, None]}


@pytest.mark.parametrize("column", [pa.array(["x" * 1_000_000] * 1_000).dictionary_encode(), pa.nulls(20_000_001)])
def test_a_block_that_is_too_much_is_none_either(column: pa.Array) -> None:
    with pytest.raises(ValueError, match="more than"):
        table_of(packed(column))


def test_a_report_counts_for_the_node_under_whose_name_it_is_alone(broker: redis.Redis) -> None:
    for name, node in (("n1", "n1"), ("n2", "n1"), ("z:f1-0", "n3")):
        broker.set(keys.observed(name), f'{{"node": "{node}", "version": 7}}', px=9_000)
    assert set(observed.read_reports(broker)) == {"n1"}
