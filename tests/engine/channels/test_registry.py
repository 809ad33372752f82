"""The registry: readers, outlets and tails as the broker keeps them. Broker only, no Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
import redis

from scheduler.contracts.offsets import START
from tests.written_blocks import read_blocks
from workers.engine.channels import block_codec, channel_registry, keys, scripts
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.readers_bound import TooManyReaders

pytestmark = pytest.mark.broker
MOST_READERS = 4_000


@pytest.fixture
def channels(broker: redis.Redis) -> Channels:
    return Channels(broker)


def write(
    broker: redis.Redis, channel: str, token: int, batch: int, rows: list[dict], *, at_ms: int = 0, wave: int = 0
) -> None:
    names = [keys.channel(channel), keys.meta(channel), keys.readers(channel)]
    block = block_codec.encode_block(pa.RecordBatch.from_pylist(rows))
    scripts.run(broker, "write", names, [token, batch, 0, len(rows), block, at_ms, wave])


def test_tokens_only_rise_and_outlive_a_second_opening(channels: Channels) -> None:
    assert [channels.take_fence("a.0") for _ in range(3)] == [1, 2, 3]
    channels.open_channel("a.0", schema_json="{}", capacity=5, readers=["r"])
    channels.open_channel("a.0", schema_json="{}", capacity=6, readers=["r", "s"])
    info = channels.info("a.0")
    assert (info.fence, info.capacity, info.readers) == (3, 6, {"r": "0-0", "s": "0-0"})


def test_a_channel_never_opened_is_not_there(channels: Channels) -> None:
    channels.take_fence("a.0")
    assert channels.info("a.0") is None


def test_a_reader_of_a_channel_in_use_starts_at_its_newest_entry(broker, channels: Channels) -> None:
    channels.open_channel("a.0", schema_json="{}", readers=["r"])
    token = channels.take_fence("a.0")
    write(broker, "a.0", token, 3, [{"x": 1}])
    channels.register_readers("a.0", ["r", "s"])
    assert channels.info("a.0").readers == {"r": "0-0", "s": "3-0"}


def test_the_tail_of_an_output_is_its_newest_events(embedded_broker: redis.Redis) -> None:
    broker, channels = embedded_broker, Channels(embedded_broker)  # nobody shows events of a played one
    assert channels.tail("a.0") == []
    channels.open_channel("a.0", schema_json="{}", retain=100)
    token = channels.take_fence("a.0")
    for batch in range(1, 31):
        write(broker, "a.0", token, batch, [{"x": 2 * batch}, {"x": 2 * batch + 1}])
    assert [row["x"] for row in channels.tail("a.0", 5)] == [57, 58, 59, 60, 61]
    assert [row["x"] for row in channels.tail("a.0", 1_000)] == list(range(2, 62))
    assert read_blocks(channels, "a.0", after="29-0") == [("30-0", [{"x": 60}, {"x": 61}])]


def test_of_large_blocks_fewer_are_read_at_once(broker, channels: Channels, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent read 64 at once for its spiller, whatever they had: of 256 MB each, 16 GB."""
    channels.open_channel("a.0", schema_json="{}", readers=["r"])
    token = channels.take_fence("a.0")
    for batch in range(1, 11):
        write(broker, "a.0", token, batch, [{"x": batch}])
    size = len(channels.entries("a.0", after=START, count=1)[0].payload)
    for room, count, read in ((5 * size, 10, 4), (1, 10, 1), (100 * size, 3, 3), (100 * size, 99, 10)):
        monkeypatch.setattr(channel_registry, "MOST_BYTES", room)
        entries = channels.entries("a.0", after=START, count=count)
        assert [entry.offset for entry in entries] == [f"{batch}-0" for batch in range(1, read + 1)]
    assert [entry.offset for entry in channels.entries("a.0", after="8-0", count=9)] == ["9-0", "10-0"]
    assert channels.entries("a.0", after="10-0", count=9) == channels.entries("b.0", after=START, count=9) == []


def test_marks_of_waves_that_a_slot_made_huge_are_as_if_there_were_none(broker, channels: Channels) -> None:
    """Slots may write the marks; the next writer reads 500 kB of them at most, and keeps these."""
    channels.open_channel("a.0", schema_json="{}", readers=["r"])
    token, meta = channels.take_fence("a.0"), keys.meta("a.0")

    def marks_after(batch: int, marks: str) -> list[str]:
        broker.hset(meta, "waves", marks)
        write(broker, "a.0", token, batch, [{"x": 1}], wave=9)
        return broker.hget(meta, "waves").decode().split(",")

    assert marks_after(1, "0:7," * 200_000 + "0:8") == ["1:9"]
    assert marks_after(2, "0:" + "7" * 500_000) == ["2:9"]
    waves = [f"{batch}:{batch}" for batch in range(3, 10_000)]
    assert marks_after(20_000, ",".join(waves)) == [*waves, "20000:9"], "a reader may still need them"


def test_a_deleted_channel_leaves_nothing(broker, channels: Channels) -> None:
    channels.open_channel("a.0", schema_json="{}", readers=["r"])
    write(broker, "a.0", channels.take_fence("a.0"), 1, [{"x": 1}])
    channels.delete_channel("a.0")
    assert broker.keys("*a.0*") == []


def test_a_part_is_a_channel_of_its_own() -> None:
    assert keys.part("a.0", "f4-0") == "a.0@f4-0"
    assert keys.reader_of("a.0@f4-0") == "f4-0"


def test_a_reader_begins_where_it_asks_to(broker, channels: Channels) -> None:
    channels.open_channel("a.0", schema_json="{}", readers=["slow"])
    token = channels.take_fence("a.0")
    for batch in range(1, 41):
        write(broker, "a.0", token, batch, [{"x": batch}], at_ms=1_000 * batch)
    scripts.run(broker, "commit", [keys.channel("a.0"), keys.meta("a.0"), keys.readers("a.0")], ["slow", "10-0"])
    joined = {
        where: channels.join("a.0", f"r{where}", where=where) for where in ("now", "oldest", "25500", "26000", "5000")
    }
    assert {where: reader.offset for where, reader in joined.items()} == {
        "now": "40-0", "oldest": "10-0", "25500": "25-0", "26000": "25-0", "5000": "10-0",
    }
    # What was asked for and is no longer kept is said.
    assert {where for where, reader in joined.items() if reader.kept_since} == {"5000"}
    assert joined["5000"].kept_since == "11000"
    assert channels.join("a.0", "r5000", where="now").offset == "10-0"  # it is there already
    assert channels.join("a.0", "beyond", where="99000").offset == "40-0"


def test_who_asks_for_blocks_of_a_channel_that_keeps_none_is_told(broker, channels: Channels) -> None:
    channels.open_channel("a.0", schema_json="{}")  # nobody reads: what is written is freed
    write(broker, "a.0", channels.take_fence("a.0"), 1, [{"x": 1}], at_ms=1_000)
    joined = channels.join("a.0", "r", where="500")
    assert (joined.offset, joined.kept_since) == ("1-0", "all")


def test_a_successor_gets_no_place_while_its_predecessor_has_one(broker, channels: Channels) -> None:
    channels.open_channel("a.0", schema_json="{}", readers=["old"])
    write(broker, "a.0", channels.take_fence("a.0"), 3, [{"x": 1}])
    assert channels.join("a.0", "new", predecessors=["old", "other"]).offset is None
    assert channels.info("a.0").readers == {"old": "0-0"}
    assert channels.join("a.0", "new", where="2-0").offset == "2-0"  # it takes over by itself, at a place it knows
    channels.unregister("a.0", "old")
    assert channels.join("a.0", "newer", predecessors=["old"]).offset == "3-0"


def test_a_channel_has_no_more_readers_than_it_may(broker, channels: Channels) -> None:
    channels.open_channel("a.0", schema_json="{}", readers=["first"])
    broker.hset(keys.readers("a.0"), mapping={f"r{number}": "0-0" for number in range(MOST_READERS - 1)})
    assert channels.join("a.0", "r7").offset == START
    channels.register_readers("a.0", ["r7", "first"])
    for add in (lambda: channels.join("a.0", "more"), lambda: channels.register_readers("a.0", ["first", "more"])):
        with pytest.raises(TooManyReaders, match=r"The channel a\.0 has 4000 of 4000 readers") as refused:
            add()
        assert "private" in refused.value.remedy and not broker.hexists(keys.readers("a.0"), "more")
    assert channels.join("a.0", "heir", predecessors=["r7"]).offset is None, "who waits for another one's place may"
    channels.unregister("a.0", "r7")
    assert channels.join("a.0", "heir", predecessors=["r7"]).offset == START


def test_of_readers_that_a_slot_made_up_nothing_is_read_and_nothing_is_lost(broker, channels: Channels) -> None:
    """Slots write these hashes: Lua took the places of all of them, and with some 8,000 each commit failed."""
    channels.open_channel("a.0", schema_json="{}", readers=["r"])
    token = channels.take_fence("a.0")
    write(broker, "a.0", token, 1, [{"x": 1}], wave=3)
    broker.hset(keys.readers("a.0"), mapping={f"r{number}": "9-0" for number in range(10_000)})
    write(broker, "a.0", token, 2, [{"x": 2}], wave=4)
    channels.commit("a.0", "r", "2-0")
    assert broker.hget(keys.meta("a.0"), "waves") == b"1:3,2:4" and channels.info("a.0").blocks == 2
    broker.delete(keys.readers("a.0"))
    channels.register_readers("a.0", ["s"])
    channels.commit("a.0", "s", "2-0")
    assert channels.info("a.0").blocks == 0


def test_a_reader_is_done_up_to_an_entry_and_one_that_was_let_go_stays_so(channels):
    channels.open_channel("f1-0.0@f2-0", schema_json="{}", readers=["f2-0"])
    channels.commit("f1-0.0@f2-0", "f2-0", "5-0")
    channels.commit("f1-0.0@f2-0", "f2-0", "4-0")
    channels.commit("f1-0.0@f2-0", "gone", "5-0")
    assert channels.info("f1-0.0@f2-0").readers == {"f2-0": "5-0"}
