"""A valve opens and closes at batch boundaries, passes on what it should, and counts."""

from __future__ import annotations

import pytest
import redis
from pyspark.sql import functions as F

from tests.written_blocks import read_blocks
from workers.engine.channels import block_codec, keys
from workers.engine.channels.histogram import histogram_of
from workers.engine.taps import SEARCHED_EVENTS, Tapped, copied_blocks, newest_events

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
FIRST, SECOND = Tapped("a.0", ["a"]), Tapped("a.1", ["a"])  # streams of `two_tasks`


def two_tasks(rig: Rig, *, rate_per_s: float = 200, limit: int | None = None):
    """Ticks published from the beginning at position 0, and a task behind them at position 1 with a closed outlet."""
    first = rig.publish(rig.ticks("a", rate_per_s=rate_per_s, limit=limit), "a", 0)
    second = first.withColumn("double", F.col("_seq") * 2)
    rig.channels.open_channel("a.1", schema_json=second.schema.json(), retain=100_000)
    return rig.start(rig.valve(second, "a", 1), "a")


def test_an_outlet_opens_at_a_batch_boundary_and_misses_nothing_after_it(rig: Rig) -> None:
    query = two_tasks(rig)
    wait_until(lambda: len(rig.batches("a.0")) > 3, what="some batches", alive=(query,))
    before = max(rig.batches("a.0"))
    assert rig.channels.open_outlet("a", 1)
    assert not rig.channels.open_outlet("a", 1)
    wait_until(lambda: len(rig.batches("a.1")) > 3, what="published batches", alive=(query,))
    query.stop()
    wait_until(lambda: not query.isActive, what="the stop")

    control = rig.channels.control("a")
    published, all_batches = rig.batches("a.1"), rig.batches("a.0")
    assert min(published) == int(control["1:from"]) > before
    # A batch that was stopped in the middle may be in one channel and not yet in the other: it would be repeated.
    last = max(published)
    if last not in all_batches:
        del published[last]
    whole = range(min(published), max(published) + 1)
    assert published == {batch: rows for batch, rows in all_batches.items() if batch in whole}
    assert all(row["double"] == 2 * row["_seq"] for row in rig.events("a.1"))


def test_a_closed_outlet_publishes_no_more_and_can_open_again(rig: Rig) -> None:
    query = two_tasks(rig)
    rig.channels.open_outlet("a", 1)
    wait_until(lambda: rig.batches("a.1") and rig.batches("a.0"), what="published batches", alive=(query,))
    rig.channels.close_outlet("a", 1)
    closed = max(rig.batches("a.0"))
    wait_until(lambda: max(rig.batches("a.0")) > closed + 3, what="batches behind it", alive=(query,))
    gone = rig.channels.info("a.1").last
    wait_until(lambda: max(rig.batches("a.0")) > closed + 6, what="more batches", alive=(query,))
    assert rig.channels.info("a.1").last == gone
    assert rig.channels.open_outlet("a", 1)
    wait_until(lambda: rig.channels.info("a.1").last != gone, what="a second opening", alive=(query,))


def test_a_closed_tail_passes_nothing_on_while_the_outlet_continues(rig: Rig) -> None:
    query = two_tasks(rig)
    rig.channels.open_outlet("a", 1)
    wait_until(lambda: rig.batches("a.1"), what="published batches", alive=(query,))
    rig.channels.close_tail("a", 0)
    boundary = int(wait_until(
        lambda: rig.channels.control("a").get("tail:from"), what="the boundary", alive=(query,)
    ))
    wait_until(lambda: max(rig.batches("a.0")) > boundary + 3, what="batches behind it", alive=(query,))
    assert max(rig.batches("a.1")) == boundary - 1
    assert rig.batches("a.1")[boundary - 1] == rig.batches("a.0")[boundary - 1]
    rig.channels.open_tail("a")
    wait_until(lambda: max(rig.batches("a.1")) > boundary, what="an open tail", alive=(query,))


def test_meters_count_every_event_and_sample_latency(rig: Rig, broker: redis.Redis) -> None:
    # Names of its own: what a query of the test before counted last is told up to half a second after its end.
    ticks = rig.ticks("m", rate_per_s=2_000, limit=5_000)
    first = rig.publish(ticks, "m", 0, readers=("n",))
    source = rig.start(rig.valve(first.where("_seq % 5 = 0"), "m", 1), "m")
    copy = rig.start(rig.publish(rig.read("n", "m.0"), "n"), "n")
    wait_until(lambda: rig.channels.meters("n").get("0:n") == 5_000, what="all events", alive=(source, copy))
    wait_until(lambda: rig.channels.meters("m").get("1:n") == 1_000, what="every fifth event", alive=(source,))
    m, n = rig.channels.meters("m"), rig.channels.meters("n")
    assert m["0:n"] == 5_000
    assert n["in:n"] == 5_000
    assert n["0:time"] == m["0:time"] == max(row["_time"] for row in rig.events("n.0"))  # how far event time has come
    batches = len(rig.batches("n.0"))
    assert batches <= sum(histogram_of(n, "0:lat").values()) < 5_000
    assert sum(histogram_of(n, "in:chan").values()) == sum(histogram_of(n, "in:wait").values()) > 0
    of_channel = {name.decode(): int(count) for name, count in broker.hgetall(keys.channel_meters("n")).items()}
    assert of_channel.keys() == {"m.0:blocks", "m.0:chan", "m.0:wait"}, "it reads one"
    assert broker.ttl(keys.channel_meters("n")) > 0
    assert of_channel["m.0:blocks"] == sum(histogram_of(n, "in:chan").values())
    assert of_channel["m.0:chan"] >= of_channel["m.0:wait"] >= 0
    assert "throttled_by" not in m


def test_a_batch_goes_over_in_blocks(rig: Rig) -> None:
    rig = rig.with_config(block_rows=100)
    query = rig.start(rig.publish(rig.ticks("a", rate_per_s=1_000_000, limit=1_050), "a"), "a", trigger_ms=500)
    wait_until(lambda: len(rig.events("a.0")) == 1_050, what="all events", alive=(query,))
    sizes: dict[str, list[int]] = {}
    for entry, rows in read_blocks(rig.channels, "a.0", count=1_000):
        sizes.setdefault(entry.split("-")[0], []).append(len(rows))
    assert all(size == 100 for blocks in sizes.values() for size in blocks[:-1])
    assert rig.numbers("a.0") == list(range(1_050))


def test_a_valve_behind_several_partitions_writes_one_ordered_channel(rig: Rig) -> None:
    ticks = rig.ticks("a", rate_per_s=5_000, limit=500)
    both = ticks.union(ticks.withColumn("_seq", F.col("_seq") + 10_000))
    query = rig.start(rig.publish(both, "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) >= 1_000, what="both branches", alive=(query,))
    query.stop()
    assert sorted(rig.numbers("a.0")) == [*range(500), *range(10_000, 10_500)]
    assert rig.channels.info("a.0").rejected == 0


def test_a_valve_under_two_branches_publishes_once(rig: Rig) -> None:
    published = rig.publish(rig.ticks("a", rate_per_s=5_000, limit=500), "a", 0)
    both = published.union(published.where("_seq % 2 = 0"))
    query = rig.start(rig.valve(both, "a", 1), "a")
    wait_until(lambda: rig.channels.meters("a").get("1:n", 0) >= 750, what="both branches", alive=(query,))
    wait_until(lambda: len(rig.events("a.0")) >= 500, what="the valve before it", alive=(query,))
    query.stop()
    assert rig.numbers("a.0") == list(range(500))


def test_a_valve_keeps_its_place_and_its_columns_whatever_stands_behind_it(rig: Rig) -> None:
    first = rig.publish(rig.ticks("a", rate_per_s=5_000, limit=300).withColumn("kept", F.col("_seq") + 1), "a", 0)
    # The next task wants one column of every tenth event; the outlet has all columns of all events.
    second = rig.publish(first.where("_seq % 10 = 0").select("_seq"), "a", 1)
    query = rig.start(second, "a")
    wait_until(lambda: len(rig.events("a.1")) == 30, what="every tenth event", alive=(query,))
    # The last valve of a batch ends first: the one before it may still be writing its last block.
    wait_until(lambda: len(rig.events("a.0")) >= 300, what="every event", alive=(query,))
    assert [row["kept"] for row in rig.events("a.0")] == list(range(1, 301))


def test_a_tap_shows_a_stream_that_is_in_no_channel_and_changes_nothing(rig: Rig) -> None:
    """Both streams are shown while somebody looks, though the second is published nowhere; the first one's channel
    holds exactly what it would."""
    broker = redis.Redis.from_url(rig.config.redis_url)
    query = two_tasks(rig, limit=1_000)
    second = wait_until(
        lambda: newest_events(broker, SECOND, count=5).events, what="events of the second task", alive=(query,))
    first = newest_events(broker, FIRST, count=5)
    assert all(event["double"] == 2 * event["_seq"] for event in second)
    assert newest_events(broker, SECOND, count=5).types["double"] == "bigint"
    numbers = [event["_seq"] for event in first.events]
    assert numbers and numbers == sorted(set(numbers), reverse=True)
    wait_until(lambda: len(rig.events("a.0")) == 1_000, what="all events", alive=(query,))
    assert [event["_seq"] for event in rig.events("a.0")] == list(range(1_000))
    assert rig.events("a.1") == []


def test_more_of_each_batch_is_copied_for_who_searches(rig: Rig) -> None:
    """And no more than there is room for; who looks meanwhile takes nothing away."""
    broker = redis.Redis.from_url(rig.config.redis_url)
    query = two_tasks(rig, limit=100_000)

    def sizes() -> list[int]:
        newest_events(broker, SECOND, count=5)
        return [sum(batch.num_rows for batch in block_codec.decode_block(block))
                for block in copied_blocks(broker, SECOND)]

    wait_until(lambda: max(sizes(), default=0) > 5, what="more than somebody sees who looks", alive=(query,))
    assert max(sizes()) <= SEARCHED_EVENTS


def test_nothing_is_copied_while_nobody_looks(rig: Rig) -> None:
    broker = redis.Redis.from_url(rig.config.redis_url)
    copied = [name for task in ("a.0", "a.1") for name in (keys.tapped(task), keys.tapped(task, "a"))]
    query = two_tasks(rig)

    def counted(events: int) -> bool:
        return rig.channels.meters("a").get("1:n", 0) >= events

    # An earlier test has looked at queries of the same name, in the same process.
    wait_until(lambda: counted(200), what="some batches", alive=(query,))
    broker.delete(*copied)
    wait_until(lambda: counted(400), what="further batches", alive=(query,))
    assert not broker.exists(*copied)
    wait_until(lambda: newest_events(broker, SECOND, count=5).events, what="a look", alive=(query,))
    broker.delete(keys.tap("a"))
    looked_at = max(rig.batches("a.0")) + 2
    wait_until(lambda: max(rig.batches("a.0")) > looked_at, what="batches behind it", alive=(query,))
    # What was copied before goes to the broker with these counts, or went before.
    events = len(rig.events("a.0"))
    wait_until(lambda: counted(events), what="their counts", alive=(query,))
    broker.delete(*copied)
    wait_until(lambda: counted(events + 200), what="counts of later batches", alive=(query,))
    assert not broker.exists(*copied)
