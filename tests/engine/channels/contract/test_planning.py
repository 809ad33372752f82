"""What the next batch of a source takes of its channels, and how it is cut for several threads. Without a query."""

from __future__ import annotations

import itertools
from threading import Timer

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.engine.channels import keys, scripts

from .rig import Rig

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def write(
    broker: redis.Redis, channel: str, token: int, batch: int, *, events: int = 10, at_ms: int = 0,
    block: bytes = b"block",
) -> None:
    names = [keys.channel(channel), keys.meta(channel), keys.readers(channel)]
    scripts.run(broker, "write", names, [token, batch, 0, events, block, at_ms])


@pytest.fixture
def divided(rig: Rig, broker: redis.Redis) -> Rig:
    """A stream of two blocks with the readers r and w; r goes on with its part of it, and one more block is there."""
    rig.channels.open_channel("f.0", schema_json="{}", capacity=64, readers=["r", "w"])
    rig.channels.open_channel("f.0@r", schema_json="{}", readers=["r"])
    token = rig.channels.take_fence("f.0")
    for batch in (1, 2):
        write(broker, "f.0", token, batch)
    assert rig.channels.route("f", 0, "r", {"r": 0.5, "s": 0.5}, from_batch=2, instead=True)
    write(broker, "f.0", token, 3)
    return rig


def test_a_reader_reads_up_to_where_its_parts_begin_and_no_further(divided: Rig) -> None:
    channels = divided.channels
    assert channels.routed("f", 0, "r").effective and channels.info("f.0").limits == {"r": "2-0"}
    assert divided.source("r", "f.0").next({"f.0": "1-0"}) == {"f.0": "2-0"}
    assert divided.source("w", "f.0").next({"f.0": "1-0"}) == {"f.0": "3-0"}
    assert channels.info("f.0").readers["r"] == "1-0", "until it has read them, its blocks are kept"
    channels.commit("f.0", "w", "3-0")
    assert channels.info("f.0").blocks == 2
    assert divided.source("r", "f.0").next({"f.0": "2-0"}) == {"f.0": "2-0"}
    assert channels.info("f.0").readers == {"w": "3-0"} and channels.info("f.0").blocks == 0
    still = divided.source("r", "f.0").next({"f.0": "2-0"})
    assert still == {"f.0": "2-0"}, "what is freed beyond its limit it does not miss"


def test_a_reader_goes_on_with_its_part_when_it_has_read_the_whole_up_to_its_limit(divided: Rig) -> None:
    end = divided.source("r", "f.0").next(divided.source("r", "f.0").first())
    assert end == {"f.0": "2-0"}
    with pytest.raises(Exception, match="no longer read by r, which is at 1-0 there, but it holds events up to 2-0"):
        divided.source("r", "f.0@r").next({"f.0": "1-0"})
    assert divided.source("r", "f.0").next(end) == end
    assert "r" not in divided.channels.info("f.0").readers
    assert divided.source("r", "f.0").first() == {"f.0": "2-0"}, "what it read is repeated from there"
    assert divided.source("r", "f.0@r").next(end) == end, "nothing has come in its part"


def test_a_query_that_runs_reads_other_channels_from_its_next_batch_on(rig: Rig, broker: redis.Redis) -> None:
    for channel in ("a.0", "b.0", "c.0"):
        rig.channels.open_channel(channel, schema_json="{}", readers=["r", "q"])
    tokens = {channel: rig.channels.take_fence(channel) for channel in ("a.0", "b.0", "c.0")}
    source = rig.source("r", "a.0", wait_ms=60_000, blocks_each=2, max_blocks=2)
    for batch in (1, 2, 3, 4):
        write(broker, "a.0", tokens["a.0"], batch)
        write(broker, "b.0", tokens["b.0"], batch)
    assert source.next({"a.0": "0-0"}) == {"a.0": "2-0"}
    rig.tell("r", ["a.0", "b.0"])
    [[[planned, *_]]] = source.slices({"a.0": "0-0"}, {"a.0": "2-0"})
    assert planned == "a.0", "the batch that is planned stays as it is"
    assert source.next({"a.0": "2-0"}) == {"a.0": "4-0", "b.0": "2-0"}, "from where it was registered; so many of each"
    rig.tell("r", ["b.0", "c.0"])
    with pytest.raises(Exception, match=r"WEIRGAP channel a\.0 is no longer read by r"):
        source.next({"a.0": "2-0", "b.0": "2-0"})
    assert source.next({"a.0": "4-0", "b.0": "2-0"}) == {"b.0": "4-0", "c.0": "0-0"}
    Timer(0.5, write, (broker, "c.0", tokens["c.0"], 1)).start()
    assert source.next({"b.0": "4-0", "c.0": "0-0"}) == {"b.0": "4-0", "c.0": "1-0"}, "it hears of its new channel"


def test_a_channel_that_was_left_out_and_comes_back_begins_where_its_reader_is_registered_anew(
    rig: Rig, broker: redis.Redis
) -> None:
    for channel in ("a.0", "b.0"):
        rig.channels.open_channel(channel, schema_json="{}", readers=["r", "q"])
        write(broker, channel, rig.channels.take_fence(channel), 1)
    source = rig.source("r", "a.0")
    assert source.next({"a.0": "0-0"}) == {"a.0": "1-0"}
    rig.tell("r", ["a.0", "b.0"])
    assert source.next({"a.0": "1-0"}) == {"a.0": "1-0", "b.0": "1-0"}
    rig.tell("r", ["a.0"])
    write(broker, "a.0", rig.channels.take_fence("a.0"), 2)
    assert source.next({"a.0": "1-0", "b.0": "1-0"}) == {"a.0": "2-0"}
    rig.channels.unregister("b.0", "r")
    token = rig.channels.take_fence("b.0")
    write(broker, "b.0", token, 2)
    rig.channels.join("b.0", "r")
    write(broker, "b.0", token, 3)
    rig.tell("r", ["a.0", "b.0"])
    end = source.next({"a.0": "2-0"})
    [[[channel, start, *_]]] = source.slices({"a.0": "2-0"}, end)
    assert end == {"a.0": "2-0", "b.0": "3-0"} and (channel, start) == ("b.0", "2-0"), "it reads again what it has read"


def test_each_stream_of_a_query_that_runs_is_told_its_own_channels(rig: Rig, broker: redis.Redis) -> None:
    for channel in ("a.0", "b.0", "c.0"):
        rig.channels.open_channel(channel, schema_json="{}", readers=["r"])
        write(broker, channel, rig.channels.take_fence(channel), 1)
    first = rig.source("r", "a.0", siblings="a.0,b.0")
    second = rig.source("r", "b.0", siblings="a.0,b.0", stream=1)
    rig.tell("r", ["a.0"], ["b.0", "c.0"])
    assert first.next({"a.0": "0-0"}) == {"a.0": "1-0"} and second.next({"b.0": "1-0"}) == {"b.0": "1-0", "c.0": "1-0"}
    second.stop()
    rig.sources.remove(second)
    with pytest.raises(Exception, match="no query of r reads a stream 1 in this driver"):
        rig.tell("r", ["c.0"], ["b.0"])
    assert first.next({"a.0": "1-0"}) == {"a.0": "1-0"}, "all streams are told, or none"


def test_of_several_channels_those_blocks_are_planned_that_were_written_first(rig: Rig, broker: redis.Redis) -> None:
    """Fair by age, bounded in blocks and events, one block always."""
    for channel, times in {"a.0": [1, 4, 5], "b.0": [2, 3, 6]}.items():
        rig.channels.open_channel(channel, schema_json="{}", readers=["r"])
        token = rig.channels.take_fence(channel)
        for batch, at_ms in enumerate(times, start=1):
            write(broker, channel, token, batch, at_ms=at_ms)

    def plan(blocks: int, events: int, *after: str) -> list[str]:
        source = rig.source("r", "a.0", "b.0", max_blocks=blocks, max_rows=events)
        end = source.next(dict(zip(("a.0", "b.0"), after, strict=True)))
        return [end["a.0"], end["b.0"]]

    assert plan(64, 1_000, "0-0", "0-0") == ["3-0", "3-0"]
    assert plan(3, 1_000, "0-0", "0-0") == ["1-0", "2-0"]
    assert plan(64, 45, "0-0", "0-0") == ["2-0", "2-0"]
    assert plan(64, 5, "0-0", "0-0") == ["1-0", "0-0"]
    assert plan(64, 5, "1-0", "0-0") == ["1-0", "1-0"]
    assert plan(64, 1_000, "3-0", "3-0") == ["3-0", "3-0"]


@pytest.mark.parametrize(("sizes_mb", "ends"), [
    ({"a.0": [30, 30, 30, 0, 80, 0]}, [[2], [4], [6]]),
    ({"a.0": [30, 30, 30, 0, 80, 0], "b.0": [20, 20, 20]}, [[1, 1], [2, 2], [4, 3], [6, 3]]),
])
def test_no_more_bytes_are_planned_than_a_driver_takes_at_a_time(
    rig: Rig, broker: redis.Redis, sizes_mb: dict[str, list[int]], ends: list[list[int]]
) -> None:
    """64 MiB, or one block that is larger; what is small goes with it, and every channel comes to its turn."""
    for channel, sizes in sizes_mb.items():
        rig.channels.open_channel(channel, schema_json="{}", readers=["r"])
        token = rig.channels.take_fence(channel)
        for batch, size_mb in enumerate(sizes, start=1):
            write(broker, channel, token, batch, at_ms=batch, block=bytes(size_mb << 20 or 9))
    source, offsets = rig.source("r", *sizes_mb), [dict.fromkeys(sizes_mb, "0-0")]
    while (end := source.next(offsets[-1])) != offsets[-1]:
        offsets.append(end)
    assert [[int(end[channel].partition("-")[0]) for channel in sizes_mb] for end in offsets[1:]] == ends


@pytest.mark.parametrize(("start", "trimmed", "last", "how"), [
    ("4-0", "4-0", "9-1", ""), ("5-1", "4-0", "9-1", ""), ("9-1", "0-0", "9-1", ""), ("9-0", "8-2", "10-0", ""),
    ("4-0", "4-1", "9-1", "up to 4-1 was freed"), ("9-9", "10-0", "12-0", "up to 10-0 was freed"),
    ("9-2", "4-0", "9-1", "the channel ends at 9-1"), ("1-0", "0-0", "0-0", "the channel ends at 0-0"),
])
def test_a_reader_that_lacks_entries_is_told_which(rig: Rig, start: str, trimmed: str, last: str, how: str) -> None:
    if not how:
        return rig.probe.checkUnbroken("a.0", start, trimmed, last)
    with pytest.raises(Exception, match=f"WEIRGAP channel a.0 lost events: .*{how}"):
        rig.probe.checkUnbroken("a.0", start, trimmed, last)


BLOCKS = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=6), max_size=4)


def test_slices_in_their_order_are_the_batch_in_its_order(rig: Rig, broker: redis.Redis) -> None:
    names = itertools.count()

    @settings(max_examples=60, deadline=None)
    @given(blocks=BLOCKS, threads=st.integers(1, 9))
    def cut_evenly(blocks: list[list[int]], threads: int) -> None:
        entries: dict[str, list[tuple[str, int]]] = {}
        for counts in blocks or [[]]:
            channel = f"c{next(names):06d}"  # a source reads in the order of its channels' names
            rig.channels.open_channel(channel, schema_json="{}", readers=["r"])
            token = rig.channels.take_fence(channel)
            for batch, events in enumerate(counts, start=1):
                write(broker, channel, token, batch, events=events)
            entries[channel] = [(f"{batch}-0", events) for batch, events in enumerate(counts, start=1)]
        everything = [
            (channel, entry, event)
            for channel, sizes in entries.items() for entry, count in sizes for event in range(count)]
        source = rig.source("r", *entries, threads=threads)
        start = source.first()
        slices = source.slices(start, source.next(start))
        source.stop()
        rig.sources.remove(source)
        cut = [[event for piece in pieces for event in events_of(piece, entries[piece[0]])] for pieces in slices]
        assert [event for events in cut for event in events] == everything
        lengths = [len(events) for events in cut]
        assert len(slices) == max(1, min(threads, len(everything)))
        assert max(lengths) - min(lengths) <= 1

    cut_evenly()


def events_of(piece: list, entries: list[tuple[str, int]]) -> list[tuple[str, str, int]]:
    """What a reader of the piece reads, by the definition of a piece."""
    channel, start, end, skip, take = piece
    order = ["0-0", *(entry for entry, _ in entries)]
    inside = entries[order.index(start) : order.index(end)]
    events = [(channel, entry, event) for entry, count in inside for event in range(count)]
    return events[skip : skip + take]


def test_a_bucket_stands_for_its_latencies(rig: Rig) -> None:
    probe = rig.probe

    @settings(deadline=None)
    @given(st.integers(0, 10**7))
    def stands_for_them(latency_ms: int) -> None:
        index = probe.bucket(latency_ms)
        assert 2 ** (index / 4) <= (latency_ms + 1) * 1.0000001 < 2 ** ((index + 1) / 4) * 1.000001

    stands_for_them()
