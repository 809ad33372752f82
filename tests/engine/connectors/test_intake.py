"""The intake: events, dead letters and the position after them, all or nothing; and lives that do not meet."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
import redis

from scheduler.contracts.moments import LATEST_MS
from scheduler.contracts.offsets import Offset
from tests.written_blocks import read_blocks
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.connectors import intake
from workers.engine.connectors.contract import DeadLetter, Message
from workers.engine.connectors.formats import MessageLayout, decode
from workers.engine.connectors.intake import Closed, Full, IntakeStore, SourceOvertaken

pytestmark = pytest.mark.broker
LAYOUT = MessageLayout("json", {"a": "bigint"})


@pytest.fixture
def store(broker: redis.Redis) -> IntakeStore:
    return IntakeStore(broker)


def write(store: IntakeStore, body: bytes, *, first: int = 0, **more) -> bool:
    return store.write("t", decode([Message(body)], LAYOUT, now_ms=1), LAYOUT, first=first, now_ms=1, **more)


def rows(broker: redis.Redis) -> list[int]:
    return [row["a"] for _, block in read_blocks(Channels(broker), keys.intake("t")) for row in block]


def test_a_block_and_the_position_after_it_are_written_together(store, broker):
    token = store.open("t", LAYOUT, known_readers=["r"])
    store.join("t", "r")
    write(store, b'[{"a": 1}, {"a": "x"}]', token=token, position={"at": 2}, lost=[DeadLetter("is gone")])
    state = store.state("t")
    assert (state.seq, state.position, state.dead) == (1, {"at": 2}, 2) and rows(broker) == [1]
    assert [letter.reason.split()[0] for letter in store.letters("t")] == ["field", "is"]


def test_whoever_was_overtaken_writes_nothing(store, broker):
    token = store.open("t", LAYOUT, known_readers=["r"])
    store.join("t", "r")
    later = store.take_token("t")
    with pytest.raises(SourceOvertaken):
        write(store, b'{"a": 1}', token=token, position={"at": 1})
    write(store, b'{"a": 2}', token=later)
    with pytest.raises(SourceOvertaken):
        write(store, b'{"a": 3}', token=later)  # by numbers that another has taken
    assert rows(broker) == [2] and store.state("t").position is None


def test_who_forged_the_channel_of_one_source_hides_no_other(store, broker):
    store.open("t", LAYOUT, known_readers=["r"])
    broker.set(keys.meta(keys.intake("u")), "no hash")
    broker.hset(keys.connector("u"), "seq", 5)
    states = store.states(["u", "t"])
    assert states["t"].is_open and not states["u"].is_open and states["u"].seq == 5


def test_a_source_that_was_never_opened_takes_nothing(store):
    with pytest.raises(Closed):
        write(store, b'{"a": 1}')


def test_who_is_known_goes_on_and_a_stranger_begins_a_new_life_behind_the_old_one(store, broker):
    token = store.open("t", LAYOUT, known_readers=["r"])
    store.join("t", "r")
    write(store, b'{"a": 1}', token=token, position={"at": 1})
    last = Channels(broker).info(keys.intake("t")).last
    store.open("t", LAYOUT, known_readers=["heir", "r"])
    assert store.state("t").position == {"at": 1}
    store.open("t", LAYOUT, known_readers=["stranger"])
    assert store.state("t").position is None and rows(broker) == []
    info = Channels(broker).info(keys.intake("t"))
    assert info.last >= Offset(f"{last.block - 1}-0") and not info.readers


def test_what_copies_of_a_readers_state_need_stays_with_the_reader_and_goes_with_it(store, broker):
    store.open("t", LAYOUT, known_readers=["r"])
    store.join("t", "r")
    Channels(broker).join(keys.intake("t"), keys.copies_reader("r"), where="0-0")
    assert store.registered("t") == {"r"}
    store.leave("t", "r")
    assert not broker.hkeys(keys.readers(keys.intake("t")))


def test_another_nodes_source_is_not_removed(store, broker):
    store.open("t", LAYOUT, known_readers=["r"], node="n1")
    assert store.open("t", LAYOUT, known_readers=["r"], node="n2") is None
    assert store.open("t", LAYOUT, known_readers=["r"], node="n2", by_force=True)
    assert not store.delete("t", node="n1") and store.leases.names("n1") == frozenset()
    assert Channels(broker).info(keys.intake("t")) is not None
    assert store.delete("t", node="n2") and broker.keys("weir:*") == []


def test_large_blocks_fill_a_channel_before_many_do(store, broker, monkeypatch):
    monkeypatch.setattr(intake, "LIVE_CAPACITY_BYTES", 100_000)
    layout = MessageLayout("text")
    store.open("t", layout, known_readers=["r"])
    store.join("t", "r")
    size = 30_000
    for number in range(100):
        if store.is_full("t"):
            break
        text = random.Random(number).randbytes(size).hex().encode()
        store.write("t", decode([Message(text)], layout, now_ms=1), layout, first=number, now_ms=1)
    assert 2 <= number <= 5
    with pytest.raises(Full):
        store.write("t", decode([Message(b"x")], layout, now_ms=1), layout, first=number, now_ms=1)
    Channels(broker).commit(keys.intake("t"), "r", Channels(broker).info(keys.intake("t")).last)
    assert not store.is_full("t")


def test_what_is_kept_for_copies_takes_no_room_from_what_waits(store, broker, monkeypatch):
    monkeypatch.setattr(intake, "CAPACITY_BLOCKS", 4)
    channels, name = Channels(broker), keys.intake("t")
    token = store.open("t", LAYOUT, known_readers=["r"])
    store.join("t", "r")
    channels.join(name, keys.copies_reader("r"), where=channels.info(name).last)
    for number in range(9):
        write(store, b'{"a": 1}', first=number, token=token)
    assert store.is_full("t") and channels.info(name).is_full
    with pytest.raises(Full):
        write(store, b'{"a": 1}', first=9)
    channels.spill(name, "r", channels.info(name).last)
    assert not store.is_full("t") and not channels.info(name).is_full, "its node has on disk what waited"
    channels.commit(name, "r", channels.info(name).last)
    assert channels.info(name).blocks == 9 and not store.is_full("t") and not channels.info(name).is_full
    write(store, b'{"a": 1}', first=9)


def test_a_dead_letter_is_kept_whatever_its_place_is_called(store):
    token = store.open("t", LAYOUT, known_readers=["r"])
    write(store, b"{}", token=token, lost=[DeadLetter("is \ud800", "topic/" * 10_000)])
    [letter] = store.letters("t")
    assert len(letter.place) <= 300 and letter.reason == "is ?"
    assert store.state("t").is_open and not store.state("other").is_open


def test_a_letter_that_somebody_forged_hides_no_other(broker: redis.Redis, store: IntakeStore) -> None:
    forged = ({"t": "9" * 30}, {"t": "-1"}, {"t": "x"}, {"x": "1"}, {"t": "999999999999999", "reason": b"\xff"})
    for fields in forged:  # a connector host may write any
        broker.xadd(keys.dead_letters("t"), fields)
    letters = store.letters("t")
    assert [letter.at_ms for letter in letters] == [LATEST_MS, 0, 0, 0, 0]
    assert all(datetime.fromtimestamp(letter.at_ms / 1000, UTC) for letter in letters)
