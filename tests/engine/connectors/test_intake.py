"""The intake: events, dead letters and the position after them, all or nothing; and lives that do not meet."""

from __future__ import annotations

import pytest
import redis

from scheduler.contracts.offsets import Offset
from workers.engine.channels import keys
from workers.engine.channels.registry import Channels
from workers.engine.connectors.contract import DeadLetter, Message
from workers.engine.connectors.formats import Layout, decode
from workers.engine.connectors.intake import Closed, IntakeStore, Overtaken

pytestmark = pytest.mark.broker
LAYOUT = Layout("json", {"a": "bigint"})


@pytest.fixture
def store(broker: redis.Redis) -> IntakeStore:
    return IntakeStore(broker)


def write(store: IntakeStore, body: bytes, *, first: int = 0, **more) -> bool:
    return store.write("t", decode([Message(body)], LAYOUT, now_ms=1), LAYOUT, first=first, now_ms=1, **more)


def rows(broker: redis.Redis) -> list[int]:
    return [row["a"] for _, block in Channels(broker).read_blocks(keys.intake("t")) for row in block]


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
    with pytest.raises(Overtaken):
        write(store, b'{"a": 1}', token=token, position={"at": 1})
    write(store, b'{"a": 2}', token=later)
    with pytest.raises(Overtaken):
        write(store, b'{"a": 3}', token=later)  # by numbers that another has taken
    assert rows(broker) == [2] and store.state("t").position is None


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


def test_another_nodes_source_is_not_removed(store, broker):
    store.open("t", LAYOUT, known_readers=["r"], node="n1")
    store.open("t", LAYOUT, known_readers=["r"], node="n2")
    assert not store.delete("t", node="n1") and store.hosted("n1") == frozenset()
    assert Channels(broker).info(keys.intake("t")) is not None
    assert store.delete("t", node="n2") and broker.keys("weir:*") == []
