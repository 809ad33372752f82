"""A broker whose memory is full: what makes room and what the estate needs is done, all else is refused or waits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from scheduler.contracts.desired import DesiredState
from tests.engine.filled_broker import bounded, fill, make_room
from workers.engine import desired_publishing
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.supervising.broker_sync import ReportPublisher
from workers.engine.agents.supervising.broker_users import CONNECTORS, LOOKS, SLOTS, BrokerUsers
from workers.engine.agents.supervising.lease import Lease, LeaseState
from workers.engine.broker_room import bound_largest, keep_room, largest, memory_of, why_refused
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels
from workers.engine.connectors.intake import IntakeStore
from workers.engine.worker_settings import Settings

pytestmark = pytest.mark.broker
CHANNEL, VALVE = "rehearsal-n1-a.0", keys.valve("rehearsal-n1-a")  # a slot of that node reaches what is named so
OF = (keys.channel, keys.meta, keys.readers)
OWN = [of(CHANNEL) for of in OF]
BLOCK = b"b" * 1_000


@pytest.fixture
def slot(broker: redis.Redis, broker_url: str, tmp_path: Path) -> Iterator[redis.Redis]:
    """A slot's client, and a channel of ten blocks with two readers."""
    users = BrokerUsers(broker, broker_url, NodeStore(tmp_path, "n1"))
    users.expect()
    channels = Channels(broker)
    channels.open_channel(CHANNEL, schema_json="{}", readers=["r", "s"], capacity=100)
    token = channels.take_fence(CHANNEL)
    with redis.Redis.from_url(users.url(SLOTS)) as client:
        for batch in range(1, 11):
            write(client, batch, token=token)
        yield client
    for role in (SLOTS, CONNECTORS, LOOKS):
        broker.execute_command("ACL", "DELUSER", users.name(role))


def write(client: redis.Redis, batch: int, *, token: int = 1, size: int = len(BLOCK)) -> object:
    return scripts.run(client, "write", OWN, [token, batch, 0, 1, b"b" * size, 0])


def everything(broker: redis.Redis) -> list[object]:
    return [broker.xrange(OWN[0]), broker.hgetall(OWN[1]), broker.hgetall(OWN[2])]


def test_readers_make_room_at_a_full_broker_and_writers_are_refused_whole(slot, broker):
    with bounded(broker, more_mb=20):
        fill(broker)
        before = everything(broker)
        for size in (len(BLOCK), 1):
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                write(slot, 11, size=size)
        assert everything(broker) == before, "nothing of a block that is refused is there"
        assert scripts.run(slot, "commit", OWN, ["r", "9-0"]) == 10
        assert scripts.run(slot, "spill", OWN, ["s", "6-0"]) == b"6-0"
        assert broker.xlen(OWN[0]) == 4
        make_room(broker)
        broker.hset(OWN[1], "lose:s", 1)
        fill(broker)
        assert scripts.run(slot, "skip", OWN, ["s", "0-0", "0-0", "6-0", 6, 6]) == b"9-0"
        assert scripts.run(slot, "unregister", OWN, ["s", 0]) == 1
        assert broker.xlen(OWN[0]) == 1
        make_room(broker)
        assert write(slot, 11) == 1 and write(slot, 11) == 0, "and then all goes on"


@pytest.mark.parametrize("name", sorted(scripts.MAKES_ROOM))
@pytest.mark.parametrize("at", [0, 1])
def test_nobody_stores_much_by_what_makes_room(slot, broker, name, at):
    arguments = ["r", "9-0", "9-0", "9-0", 0, 0]
    arguments[at] = "9" * 2_000_000 + "-0"
    before = everything(broker)
    with pytest.raises(redis.ResponseError, match="WEIRLONG"):
        scripts.run(slot, name, OWN, arguments)
    assert everything(broker) == before


def test_the_estate_is_led_at_a_full_broker(broker, tmp_path):
    lease = Lease(broker, "n1", folder=tmp_path)
    publisher = ReportPublisher(broker, Settings(node="n1"), lease, on_lease_state=lambda _: None)
    desired = DesiredState(version=1, node="n1", generation=1)
    with bounded(broker, more_mb=20):
        fill(broker)
        assert lease.renew() is LeaseState.HELD
        publisher.send_report({"node": "n1"})
        publisher._flush()
        assert json.loads(broker.get(keys.observed("n1"))) == {"node": "n1"}
        assert 0 < broker.ttl(keys.observed("n1")) < 1_000
        publisher._keep_room()
        assert broker.exists(keys.CROWDED)
        assert desired_publishing.publish(broker, desired) and desired_publishing.stands(broker, desired)


@pytest.mark.parametrize(("left", "waits"), [(0.25, False), (0.15, True), (0.0, True)])
def test_sources_wait_before_the_broker_is_full_and_readers_do_not(slot, broker, left, waits):
    def held_by(crowded: str) -> bytes:
        return scripts.run(slot, "backpressure", [VALVE], [keys.channel(""), crowded, CHANNEL])[1]

    store, push = IntakeStore(broker), pushed(broker)
    with bounded(broker, more_mb=40):
        fill(broker, until_left=left)
        assert (keep_room(broker) is not None) is waits
        assert keep_room(broker) is None, "it is told once"
        assert (held_by(keys.CROWDED), held_by("")) == (b"broker" if waits else b"", b"")
        assert store.is_full("t") is waits
        if waits:
            with pytest.raises(redis.ResponseError, match="WEIRFULL"):
                push()
            with pytest.raises(redis.exceptions.NoPermissionError):
                slot.delete(keys.CROWDED)
        make_room(broker)
        keep_room(broker)
        assert held_by(keys.CROWDED) == b"" and not store.is_full("t")
        assert push() == 1


def pushed(broker: redis.Redis) -> Callable[[], object]:
    """A source that is pushed to, and is read: what pushes one event."""
    channel = keys.intake("t")
    Channels(broker).open_channel(channel, schema_json="{}", readers=["r"], capacity=100)
    names = [*(of(channel) for of in (keys.channel, keys.meta, keys.readers)), keys.connector("t"),
             keys.dead_letters("t"), keys.posted("t"), keys.answers("t")]
    return lambda: scripts.run(broker, "intake", names, ["", 0, 1, BLOCK, 1, "", "", 9, 0, 1 << 20, "", ""])


def test_who_fills_the_broker_waits_and_nobody_else(slot, broker):
    """A team's channels of large blocks that nobody reads, beside a channel of another team."""
    channels, large = Channels(broker), [f"greedy-{number}-0.0" for number in range(3)]
    for channel in large:
        channels.open_channel(channel, schema_json="{}", readers=["r"], capacity=256)

    def held_by(channel: str) -> bytes:
        return scripts.run(broker, "backpressure", [VALVE], [keys.channel(""), keys.CROWDED, channel])[1]

    def look() -> list[str]:
        broker.delete(keys.WEIGHED)
        keep_room(broker)
        return bound_largest(broker)

    def written(channel: str, batch: int) -> None:
        scripts.run(broker, "write", [of(channel) for of in OF], [0, batch, 0, 1, b"b" * 600_000, 0])

    store, push = IntakeStore(broker), pushed(broker)
    bound: set[str] = set()
    with bounded(broker, more_mb=60), deleted(broker, [keys.channel(channel) for channel in large]):
        for batch in range(1, 41):
            for channel in large:
                if not held_by(channel):
                    written(channel, batch)
            bound |= set(look())
        memory = memory_of(broker)
        assert bound == set(large) and not memory.is_crowded() and memory.is_well_used(), "they fill no more of it"
        assert {held_by(channel).decode() for channel in large} == bound
        assert held_by(CHANNEL) == b"" and not store.is_full("t") and push() == 1, "others go on"
        channels.open_channel(large[0], schema_json="{}", capacity=2_048)
        assert look() == [] and held_by(large[0]), "also where the writer has begun again"
        for channel in large:  # their readers come
            scripts.run(broker, "commit", [of(channel) for of in OF], ["r", "999-0"])
        broker.delete(keys.meta(large[2]))
        assert look() == [] and not broker.exists(keys.LARGEST, keys.meta(large[2]))
        assert [channels.info(channel).capacity for channel in large[:2]] == [2_048, 256]
        assert [held_by(channel) for channel in large] == [b""] * 3


@pytest.mark.parametrize("forged", [False, True], ids=["", "beside what is no channel"])
def test_a_channel_is_weighed_by_all_of_its_blocks(broker, forged):
    """The first are small and nobody reads them: no channel of others is taken for the largest."""
    channels, names = Channels(broker), ["late", "modest"]
    for channel in names:
        channels.open_channel(channel, schema_json="{}", readers=["r"], capacity=256)
    sizes = {"late": [3_000] * 6 + [600_000] * 40, "modest": [600_000] * 3}
    if forged:  # by a slot that an intruder has: others are bounded all the same
        names.append("a")
        broker.set(keys.meta("a"), "no channel")
        sizes["a"] = [600_000] * 45
    with bounded(broker, more_mb=70 if forged else 40), deleted(broker, [keys.channel(name) for name in names]):
        for channel, blocks in sizes.items():
            for size in blocks:
                broker.xadd(keys.channel(channel), {"b": b"b" * size})
        assert bound_largest(broker) == ["late"]
    broker.delete(keys.meta("a"))


@contextmanager
def deleted(broker: redis.Redis, names: list[str]) -> Iterator[None]:
    """These keys are gone at the end."""
    try:
        yield
    finally:
        broker.delete(*names)


def test_who_holds_most_is_named(broker):
    broker.set("small", b"x")
    with bounded(broker, more_mb=40):
        fill(broker, until_left=0.1)
        (name, size), *_ = largest(broker).items()
        assert (name, size > 1_000_000) == ("filler", True)


def test_what_is_refused_is_told_from_a_broker_that_is_away():
    full, away = (why_refused(error("x")) for error in (redis.exceptions.OutOfMemoryError, redis.ConnectionError))
    assert "memory" in full[0] and "WEIR_BROKER_MEMORY_MB" in full[1] and "memory" not in away[0]
