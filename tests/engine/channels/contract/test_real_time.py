"""Real-time mode: batches stay open, events go on as they come, and still each arrives exactly once."""

from __future__ import annotations

import random
import time

import pytest
from pyspark.sql import functions as F

from workers.engine.channels import open_streams
from workers.engine.channels.channel_config import OPEN_CAPACITY_BLOCKS

from .rig import Query, Rig, wait_until
from .test_exactly_once import driver

pytestmark = [pytest.mark.spark, pytest.mark.broker]
EVERY = 3  # of so many events the reader leaves out one


def source(rig: Rig, *, limit: int | None = None, rate_per_s: float = 200, is_open: bool = True) -> Query:
    ticks = rig.ticks("a", rate_per_s=rate_per_s, limit=limit, writes=("a.0",), real_time=is_open)
    return rig.start(rig.publish(ticks, "a", readers=("b",)), "a", real_time=is_open)


def reader(rig: Rig, *, is_open: bool = True) -> Query:
    events = rig.read("b", "a.0", writes=("b.0",), real_time=is_open).where(F.col("_seq") % EVERY != 0)
    return rig.start(rig.publish(events, "b"), "b", real_time=is_open)


def selected(events: int) -> list[int]:
    return [number for number in range(events) if number % EVERY]


def rests(rig: Rig, fragment: str) -> bool:
    return open_streams.rests(rig.spark, rig.config.redis_url, fragment)


def stop_between_batches(rig: Rig, query: Query, fragment: str) -> None:
    rig.channels.pause(fragment)
    wait_until(lambda: rests(rig, fragment), what="rest", alive=(query,))
    query.stop()
    rig.channels.resume(fragment)


def test_events_go_on_while_a_batch_is_open(rig: Rig) -> None:
    first, second = source(rig), reader(rig)
    wait_until(
        lambda: len(rig.events("b.0")) > 600 and rig.channels.info("b.0").blocks > 3 * len(rig.batches("b.0")),
        what="events in more blocks than batches", alive=(first, second))
    numbers = rig.numbers("b.0")
    assert numbers == selected(numbers[-1] + 1)


@pytest.mark.long  # a slot is killed in open batches: tests/engine/spark/test_real_time.py; below groups are repeated
def test_what_is_stopped_in_an_open_batch_is_read_again_and_made_once(rig: Rig) -> None:
    chance = random.Random(4)
    events = 1_500
    for turn in range(5):
        first, second = source(rig, limit=events), reader(rig)
        enough = (turn + 1) * 180
        wait_until(lambda: len(rig.events("b.0")) > enough, what="some", alive=(first, second))  # noqa: B023
        time.sleep(chance.random() / 4)
        for query in chance.sample([first, second], 2):
            query.stop()
    first, second = source(rig, limit=events), reader(rig)
    wait_until(lambda: len(rig.events("b.0")) >= len(selected(events)), what="all", alive=(first, second))
    assert rig.numbers("a.0")[-1] == events - 1
    assert rig.numbers("b.0") == selected(events)
    assert rig.channels.info("b.0").duplicates > 0


def test_who_is_stopped_again_and_again_frees_the_room_of_what_it_repeats(rig: Rig) -> None:
    ticks = rig.ticks("a", rate_per_s=40, writes=("a.0",), real_time=True)
    first = rig.start(rig.publish(ticks, "a", readers=("b",), capacity=100), "a", real_time=True)
    for _ in range(11):  # in each fewer blocks than end a batch, in all more than the channel holds
        before, second = len(rig.events("b.0")), reader(rig)
        wait_until(lambda: len(rig.events("b.0")) >= before + 7, what="events", alive=(first, second))  # noqa: B023
        second.stop()
    numbers = rig.numbers("b.0")
    assert numbers == selected(numbers[-1] + 1)


@pytest.mark.long  # a slot is killed in open batches: tests/engine/spark/test_real_time.py
@pytest.mark.parametrize("kills", [1, 3])
def test_a_killed_driver_goes_on_in_the_open_batch(rig: Rig, kills: int) -> None:
    chance = random.Random(7)
    for _ in range(kills):
        before = len(rig.events("b.0"))
        with driver(rig, "real_time"):
            wait_until(lambda: len(rig.events("b.0")) > before + 100, what="events", timeout_s=240)  # noqa: B023
            time.sleep(chance.random())
    first, second = rig_without_limit(rig)
    events = len(rig.events("b.0"))
    wait_until(lambda: len(rig.events("b.0")) > events + 100, what="events", alive=(first, second))
    stop_between_batches(rig, first, "a")
    stop_between_batches(rig, second, "b")
    numbers = rig.numbers("b.0")
    assert numbers == selected(numbers[-1] + 1)


def rig_without_limit(rig: Rig) -> tuple[Query, Query]:
    return source(rig), reader(rig)


def test_a_pause_ends_the_open_batch_and_nothing_comes_before_it_is_over(rig: Rig) -> None:
    rig.channels.pace("b", 1_000)  # it hears of it between two groups, while blocks come
    first, second = source(rig), reader(rig)
    wait_until(lambda: len(rig.events("b.0")) > 50, what="events", alive=(first, second))
    assert not rests(rig, "b")
    rig.channels.pause("b")
    wait_until(lambda: rests(rig, "b"), what="rest", alive=(first, second))
    done, events = open_streams.journal(rig.checkpoint("b"))[0], len(rig.events("b.0"))
    assert (rig.checkpoint("b") / "commits" / str(done)).exists()
    time.sleep(0.5)
    assert len(rig.events("b.0")) == events
    rig.channels.resume("b")
    wait_until(lambda: len(rig.events("b.0")) > events + 50, what="events", alive=(first, second))
    numbers = rig.numbers("b.0")
    assert numbers == selected(numbers[-1] + 1)


def test_events_are_gathered_for_as_long_as_is_asked_for_and_repeated_as_they_were(rig: Rig) -> None:
    events, asked_ms = 900, (1_000, 0, 80)
    for turn, apart_ms in enumerate(asked_ms):
        rig.channels.pace("a", apart_ms)
        first, second = source(rig, limit=events), reader(rig)
        enough = (turn + 1) * 120
        wait_until(lambda: len(rig.events("b.0")) > enough, what="some", alive=(first, second))  # noqa: B023
        if turn == 0:
            assert rig.channels.info("b.0").blocks < len(rig.events("b.0")) / 6, "some twenty of each group"
        # In the open batch, heard between two groups: what is repeated of it has groups of both kinds.
        rig.channels.pace("a", 20)
        wait_until(lambda: len(rig.events("b.0")) > enough + 40, what="more", alive=(first, second))  # noqa: B023
        first.stop()
        second.stop()
    first, second = source(rig, limit=events), reader(rig)
    wait_until(lambda: len(rig.events("b.0")) >= len(selected(events)), what="all", alive=(first, second))
    assert rig.numbers("a.0")[-1] == events - 1
    assert rig.numbers("b.0") == selected(events)
    assert rig.channels.info("a.0").duplicates > 0


def test_an_open_batch_that_hangs_is_seen_and_one_that_waits_is_not(rig: Rig) -> None:
    first = source(rig, limit=40)
    hangs = "coalesce(if(_seq = 30, reflect('java.lang.Thread', 'sleep', 600000L), ''), '') <> 'x'"
    events = rig.read("b", "a.0", writes=("b.0",), real_time=True).where(hangs)
    second = rig.start(rig.publish(events, "b"), "b", real_time=True)

    def still_ms(fragment: str) -> int:
        return open_streams.OpenTimes(rig.spark, rig.config.redis_url).still_ms(fragment)

    wait_until(lambda: still_ms("b") > 5_000, what="a batch that does not move", alive=(first, second))
    assert rig.numbers("a.0") == list(range(40))
    assert len(rig.events("b.0")) < 40
    assert still_ms("a") < 5_000, "all its events are made, and it looks for more"
    second.stop()
    assert still_ms("b") == 0
    second = rig.start(rig.publish(rig.read("b", "a.0", writes=("b.0",), real_time=True), "b"), "b", real_time=True)
    wait_until(lambda: len(rig.events("b.0")) >= 40, what="the others", alive=(first, second))
    assert rig.numbers("b.0") == list(range(40))
    rig.channels.pause("b")
    wait_until(lambda: rests(rig, "b"), what="rest", alive=(first, second))
    assert still_ms("b") == 0


def test_an_outlet_that_opens_is_in_force_long_before_the_batch_would_end(rig: Rig) -> None:
    ticks = rig.ticks("a", rate_per_s=100, writes=("a.0",), real_time=True)
    query = rig.start(rig.valve(ticks, "a"), "a", real_time=True)
    wait_until(lambda: rig.channels.meters("a").get("0:n", 0) > 20, what="events", alive=(query,))
    rig.channels.open_channel("a.0", schema_json=ticks.schema.json(), retain=10_000)
    rig.channels.open_outlet("a", 0)
    wait_until(lambda: len(rig.events("a.0")) > 50, what="events", timeout_s=30, alive=(query,))
    numbers = rig.numbers("a.0")
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


@pytest.mark.long  # in slots they do: tests/engine/spark/test_real_time.py
def test_a_query_that_rests_goes_on_in_the_other_mode(rig: Rig) -> None:
    first = source(rig)
    for turn in range(4):
        second, enough = reader(rig, is_open=turn % 2 == 0), len(rig.events("b.0")) + 60
        wait_until(lambda: len(rig.events("b.0")) > enough, what="events", alive=(first, second))  # noqa: B023
        if turn % 2 == 0:
            stop_between_batches(rig, second, "b")
        else:
            rig.rest(second, "b")
            second.stop()
            rig.channels.resume("b")
    numbers = rig.numbers("b.0")
    assert numbers == selected(numbers[-1] + 1)


def test_a_stream_is_dealt_out_to_parts_within_an_open_batch(rig: Rig) -> None:
    ticks = rig.ticks("a", rate_per_s=200, limit=600, writes=("a.0",), real_time=True)
    rig.divide(ticks, "a", weights={"b": 0.5, "c": 0.5}, capacity=OPEN_CAPACITY_BLOCKS)  # nobody reads them
    for _ in range(3):
        query = rig.start(rig.valve(ticks, "a"), "a", real_time=True)
        before = len(rig.events("a.0@b"))
        wait_until(lambda: len(rig.events("a.0@b")) > min(295, before + 60), what="events", alive=(query,))  # noqa: B023
        query.stop()
    query = rig.start(rig.valve(ticks, "a"), "a", real_time=True)
    wait_until(lambda: len(rig.events("a.0@b")) + len(rig.events("a.0@c")) >= 600, what="all", alive=(query,))
    parts = [rig.numbers("a.0@b"), rig.numbers("a.0@c")]
    assert sorted(parts[0] + parts[1]) == list(range(600))
    assert all(part == sorted(part) for part in parts)


def test_a_query_that_stands_by_does_an_empty_batch_and_then_goes_on_where_it_is_told(rig: Rig) -> None:
    first = source(rig, limit=400)
    second = reader(rig)
    wait_until(lambda: len(rig.events("b.0")) > 100, what="events", alive=(first, second))
    events = rig.read("c", "a.0", real_time=True, gate="token").where(F.col("_seq") % EVERY != 0)
    heir = rig.start(rig.valve(events, "c", channel="b.0", fence=-1, gate="token"), "c", real_time=True)
    wait_until(lambda: (rig.checkpoint("c") / "commits" / "0").exists(), what="the empty batch", alive=(heir,))
    stop_between_batches(rig, second, "b")
    place = rig.channels.info("a.0").readers["b"]
    rig.channels.join("a.0", "c", where=place)
    rig.channels.unregister("a.0", "b")
    rig.channels.open_outlet("c", 0, from_batch=0)
    base = int(rig.channels.info("b.0").last.split("-")[0])
    rig.channels.open_gate(
        "c", "token", written=["b.0"], offsets={"a.0": place}, source_offset=None, batch_bases={"b.0": base})
    wait_until(lambda: len(rig.events("b.0")) >= len(selected(400)), what="all", alive=(first, heir))
    assert rig.numbers("b.0") == selected(400)


@pytest.mark.parametrize(("make", "word"), [
    (lambda events: events.where("_seq > 3").withColumn("x", F.col("_seq") + 1), ""),
    (lambda events: events.withColumn("x", F.explode(F.sequence(F.lit(1), F.lit(3)))), ""),
    (lambda events: events.mapInArrow(lambda batches: batches, events.schema), "Python"),
    (lambda events: events.withColumn("x", F.udf(lambda number: number, "long")("_seq")), "Python"),
    (lambda events: events.withColumn("x", F.current_timestamp()), "time"),
    (lambda events: events.withColumn("x", F.rand(1)), "repeated"),
    (lambda events: events.groupBy("_seq").count(), "one event at a time"),
    (lambda events: events.dropDuplicates(["_seq"]), "one event at a time"),
    (lambda events: events.union(events), "one event at a time"),
])
def test_only_what_passes_on_one_event_at_a_time_can_run_so(rig: Rig, make, word: str) -> None:
    refused = open_streams.refusal(make(rig.valve(rig.ticks("a", rate_per_s=1), "a", fence=0)))
    assert (word in refused) if word else refused == ""
