"""A channel is bounded, trimmed behind its slowest reader, and says so when it cannot give what is asked."""

from __future__ import annotations

import pytest
import redis
from pyspark.sql import functions as F

from tests.written_blocks import read_blocks
from workers.engine.channels import keys

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def test_a_full_channel_stops_its_writer_until_it_has_room(rig: Rig) -> None:
    small_batches = rig.with_config(max_rows=200)
    ticks = small_batches.ticks("a", rate_per_s=1_000, limit=1_000, writes=("a.0",))
    writer = rig.start(rig.publish(ticks, "a", readers=("b",), capacity=3), "a")
    wait_until(lambda: rig.channels.meters("a").get("throttled_by") == "a.0", what="a full channel", alive=(writer,))
    stood = rig.channels.info("a.0")
    assert stood.is_full and stood.blocks == 4
    reader = rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b")
    wait_until(lambda: len(rig.events("b.0")) == 1_000, what="all events", alive=(writer, reader))
    assert rig.numbers("b.0") == list(range(1_000))
    wait_until(lambda: "throttled_by" not in rig.channels.meters("a"), what="an end of the throttling")


def test_every_reader_gets_everything_and_the_slowest_holds_the_trimming(rig: Rig, broker: redis.Redis) -> None:
    ticks = rig.ticks("a", rate_per_s=1_000, limit=1_000)
    writer = rig.start(rig.publish(ticks, "a", readers=("b", "c")), "a")
    fast = rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b")
    wait_until(lambda: len(rig.events("b.0")) == 1_000, what="the fast reader", alive=(writer, fast))
    assert rig.numbers("a.0") == list(range(1_000))  # nothing was freed: c has read nothing
    slow = rig.start(rig.publish(rig.read("c", "a.0"), "c"), "c")
    wait_until(lambda: len(rig.events("c.0")) == 1_000, what="the slow reader", alive=(slow,))
    assert rig.numbers("b.0") == rig.numbers("c.0") == list(range(1_000))
    written = int(broker.hget(keys.meta("a.0"), "bytes"))
    assert written > 1_000
    # More where a busy machine let what was read ahead go, and it was fetched again.
    wait_until(
        lambda: all(int(rig.channels.meters(reader).get("in:bytes") or 0) >= written for reader in "bc"),
        what="bytes read")


def test_blocks_are_freed_behind_the_only_reader(rig: Rig) -> None:
    writer = rig.start(rig.publish(rig.ticks("a", rate_per_s=500), "a", readers=("b",)), "a")
    reader = rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b")
    wait_until(lambda: rig.channels.info("a.0").trimmed != "0-0", what="freed blocks", alive=(writer, reader))
    info = rig.channels.info("a.0")
    assert info.trimmed == info.readers["b"]
    assert all(entry > info.trimmed for entry, _ in read_blocks(rig.channels, "a.0") if len(entry) == len(info.trimmed))


def test_a_reader_that_joins_later_starts_from_now(rig: Rig) -> None:
    writer = rig.start(rig.publish(rig.ticks("a", rate_per_s=200), "a", readers=("b",)), "a")
    wait_until(lambda: rig.channels.info("a.0").blocks > 3, what="a past", alive=(writer,))
    rig.channels.register_readers("a.0", ["c"])
    joined_at = rig.channels.info("a.0").readers["c"]
    reader = rig.start(rig.publish(rig.read("c", "a.0"), "c"), "c")
    wait_until(lambda: len(rig.events("c.0")) > 20, what="new events", alive=(writer, reader))
    later = [row["_seq"] for _, rows in read_blocks(rig.channels, "a.0", after=joined_at, count=1_000) for row in rows]
    numbers = rig.numbers("c.0")
    assert numbers == later[: len(numbers)]
    assert numbers[0] > 0


def test_channels_interleave_and_lack_each_others_columns(rig: Rig) -> None:
    left = rig.ticks("l", rate_per_s=1_000, limit=500).withColumn("left", F.col("_seq"))
    right = rig.ticks("r", rate_per_s=1_000, limit=700).withColumn("right", F.lit("x"))
    queries = (
        rig.start(rig.publish(left, "l", readers=("b",)), "l"),
        rig.start(rig.publish(right, "r", readers=("b",)), "r"),
        rig.start(rig.publish(rig.read("b", "l.0", "r.0"), "b"), "b"),
    )
    wait_until(lambda: len(rig.events("b.0")) == 1_200, what="both inputs", alive=queries)
    events = rig.events("b.0")
    assert [row["_seq"] for row in events if row["left"] is not None] == list(range(500))
    assert [row["_seq"] for row in events if row["right"] == "x"] == list(range(700))
    assert all((row["left"] is None) != (row["right"] is None) for row in events)


def test_a_reader_must_be_registered(rig: Rig) -> None:
    rig.channels.open_channel("a.0", schema_json=rig.ticks("a", rate_per_s=1).schema.json())
    query = rig.start(rig.valve(rig.read("b", "a.0"), "b"), "b")
    wait_until(lambda: not query.isActive, what="the failure")
    assert "'b' is not a reader of channel a.0" in str(query.exception())


def test_lost_entries_are_an_error_and_not_skipped(rig: Rig, broker: redis.Redis) -> None:
    writer = rig.start(rig.publish(rig.ticks("a", rate_per_s=500, limit=500), "a", readers=("b",)), "a")
    reader = rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b")
    wait_until(lambda: len(rig.events("b.0")) == 500, what="all events", alive=(writer, reader))
    writer.stop()
    reader.stop()
    broker.delete(keys.channel("a.0"), keys.meta("a.0"))  # a broker that lost its data
    rig.channels.open_channel("a.0", schema_json=rig.ticks("a", rate_per_s=1).schema.json(), readers=["b"])
    again = rig.start(rig.valve(rig.read("b", "a.0"), "b"), "b")
    wait_until(lambda: not again.isActive, what="the failure")
    assert "WEIRGAP channel a.0 lost events" in str(again.exception())


def test_entries_freed_beyond_a_readers_checkpoint_are_an_error(rig: Rig) -> None:
    writer = rig.start(rig.publish(rig.ticks("a", rate_per_s=200), "a", readers=("b", "c")), "a")
    reader = rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b")
    # Of a second batch: then the checkpoint has a place, and the reader need not be registered to know its own.
    wait_until(lambda: len(rig.batches("b.0")) > 1, what="a second batch", alive=(writer, reader))
    reader.stop()
    rig.channels.unregister("a.0", "b")
    ahead = rig.start(rig.publish(rig.read("c", "a.0"), "c"), "c")
    wait_until(lambda: len(rig.events("c.0")) > len(rig.events("b.0")) + 50, what="the other reader", alive=(ahead,))
    again = rig.start(rig.valve(rig.read("b", "a.0"), "b"), "b")
    wait_until(lambda: not again.isActive, what="the failure")
    assert "was freed" in str(again.exception())


def test_a_paused_fragment_plans_no_batch_until_it_is_resumed(rig: Rig) -> None:
    query = rig.start(rig.publish(rig.ticks("a", rate_per_s=200), "a"), "a")
    wait_until(lambda: rig.channels.info("a.0").blocks > 2, what="first blocks", alive=(query,))
    rig.channels.pause("a")
    stood = []

    def stands_still() -> bool:
        stood.append(rig.channels.info("a.0").last)
        return len(stood) > 10 and len(set(stood[-10:])) == 1

    wait_until(stands_still, what="a standstill", alive=(query,))
    rig.channels.resume("a")
    wait_until(lambda: rig.channels.info("a.0").last != stood[-1], what="new blocks", alive=(query,))


def test_a_deleted_channel_refuses_writes(rig: Rig) -> None:
    query = rig.start(rig.publish(rig.ticks("a", rate_per_s=200), "a"), "a")
    wait_until(lambda: rig.channels.info("a.0").blocks > 2, what="first blocks", alive=(query,))
    rig.channels.delete_channel("a.0")
    wait_until(lambda: not query.isActive, what="the failure")
    assert "WEIRCLOSED" in str(query.exception())
    assert rig.channels.info("a.0") is None
