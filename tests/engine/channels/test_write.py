"""The write script: what a channel takes, and what it refuses and why. Broker only, no Spark."""

from __future__ import annotations

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels

pytestmark = pytest.mark.broker


@pytest.fixture
def channels(broker: redis.Redis) -> Channels:
    return Channels(broker)


def open_channel(channels: Channels, *, channel: str = "a.0", **settings) -> int:
    """An open channel and its first token."""
    channels.open_channel(channel, schema_json="{}", **{"capacity": 10, "retain": 1_000, **settings})
    return channels.take_fence(channel)


def write(broker: redis.Redis, token: int, batch: int, n: int = 0, *, events: int = 1, channel: str = "a.0") -> int:
    names = [keys.channel(channel), keys.meta(channel), keys.readers(channel)]
    return scripts.run(broker, "write", names, [token, batch, n, events, b"block", 0])


def ids(broker: redis.Redis, channel: str = "a.0") -> list[str]:
    return [entry.decode() for entry, _ in broker.xrange(keys.channel(channel))]


def test_blocks_of_batches_are_appended_in_order(broker, channels) -> None:
    token = open_channel(channels)
    assert [write(broker, token, 1), write(broker, token, 1, 1), write(broker, token, 4)] == [1, 1, 1]
    assert ids(broker) == ["1-0", "1-1", "4-0"]
    assert channels.info("a.0").last == "4-0"


def test_the_last_batch_may_be_repeated_and_is_counted(broker, channels) -> None:
    token = open_channel(channels)
    write(broker, token, 1)
    write(broker, token, 2)
    assert write(broker, token, 2) == 0
    assert ids(broker) == ["1-0", "2-0"]
    info = channels.info("a.0")
    assert (info.rejected, info.duplicates) == (1, 1)


def test_bytes_are_counted_once_however_often_a_block_is_sent(broker, channels) -> None:
    first = open_channel(channels)
    write(broker, first, 1)
    write(broker, first, 2)
    write(broker, first, 2)
    second = channels.take_fence("a.0")
    write(broker, second, 2)
    with pytest.raises(redis.ResponseError):
        write(broker, first, 3)
    assert int(broker.hget(keys.meta("a.0"), "bytes")) == 2 * len(b"block")


def test_a_batch_cut_short_is_completed_by_its_repetition(broker, channels) -> None:
    first = open_channel(channels)
    write(broker, first, 5, 0)
    write(broker, first, 5, 1)
    second = channels.take_fence("a.0")
    assert [write(broker, second, 5, n) for n in range(4)] == [0, 0, 1, 1]
    assert ids(broker) == ["5-0", "5-1", "5-2", "5-3"]


def test_a_lower_batch_under_the_same_token_is_an_error(broker, channels) -> None:
    token = open_channel(channels)
    write(broker, token, 7)
    with pytest.raises(redis.ResponseError, match="WEIRPOLLUTED"):
        write(broker, token, 6)


def test_a_later_token_may_repeat_what_a_checkpoint_can_bring_back_and_no_more(broker, channels) -> None:
    first = open_channel(channels)
    for batch in range(1, 203):
        write(broker, first, batch)
    second = channels.take_fence("a.0")
    assert write(broker, second, 150) == 0
    with pytest.raises(redis.ResponseError, match="WEIRPOLLUTED"):
        write(broker, second, 50)


def test_a_repetition_with_another_number_of_events_is_an_error(broker, channels) -> None:
    token = open_channel(channels)
    write(broker, token, 1, events=10)
    with pytest.raises(redis.ResponseError, match="WEIRDIFFERS"):
        write(broker, channels.take_fence("a.0"), 1, events=11)


def test_an_overtaken_token_is_refused(broker, channels) -> None:
    old = open_channel(channels)
    write(broker, old, 1)
    new = channels.take_fence("a.0")
    with pytest.raises(redis.ResponseError, match="WEIRFENCED"):
        write(broker, old, 2)
    assert write(broker, new, 2) == 1
    assert ids(broker) == ["1-0", "2-0"]


def test_a_block_must_not_overtake_another(broker, channels) -> None:
    token = open_channel(channels)
    write(broker, token, 1)
    for batch, n in ((1, 2), (2, 1)):
        with pytest.raises(redis.ResponseError, match="WEIRORDER"):
            write(broker, token, batch, n)
    assert ids(broker) == ["1-0"]


def test_a_channel_that_is_not_open_takes_nothing(broker, channels) -> None:
    token = channels.take_fence("a.0")
    with pytest.raises(redis.ResponseError, match="WEIRCLOSED"):
        write(broker, token, 1)
    assert ids(broker) == []


def test_an_output_keeps_its_newest_events(broker, channels) -> None:
    token = open_channel(channels, retain=3)
    for batch in range(1, 8):
        write(broker, token, batch)
    assert ids(broker) == ["5-0", "6-0", "7-0"]


def test_an_output_keeps_whole_blocks_of_its_newest_events(broker, channels) -> None:
    token = open_channel(channels, retain=5)
    for batch, events in enumerate([4, 3, 1, 2, 2], start=1):
        write(broker, token, batch, events=events)
    assert ids(broker) == ["3-0", "4-0", "5-0"]  # exactly five events
    write(broker, token, 6, events=40)
    assert ids(broker) == ["6-0"]


def test_without_readers_and_without_retention_nothing_is_kept(broker, channels) -> None:
    token = open_channel(channels, retain=0)
    write(broker, token, 1)
    assert ids(broker) == []
    assert write(broker, token, 1) == 0  # and yet a repetition is known


def commit(broker: redis.Redis, reader: str, entry: str, channel: str = "a.0") -> None:
    names = [keys.channel(channel), keys.meta(channel), keys.readers(channel)]
    scripts.run(broker, "commit", names, [reader, entry])


def test_a_reader_that_left_does_not_come_back_by_committing(broker, channels) -> None:
    token = open_channel(channels, retain=0, readers=["r", "s"])
    write(broker, token, 1)
    assert channels.unregister("a.0", "r") == 1
    commit(broker, "r", "1-0")
    assert channels.info("a.0").readers == {"s": "0-0"}
    assert ids(broker) == ["1-0"]


def test_what_only_a_leaving_reader_held_is_freed(broker, channels) -> None:
    token = open_channel(channels, retain=0, readers=["r", "s"])
    for batch in (1, 2, 3):
        write(broker, token, batch)
    commit(broker, "s", "2-0")
    assert ids(broker) == ["1-0", "2-0", "3-0"]
    channels.unregister("a.0", "r")
    assert ids(broker) == ["3-0"]


def test_room_in_a_full_channel_is_announced(embedded_broker) -> None:
    broker, channels = embedded_broker, Channels(embedded_broker)
    token = open_channel(channels, retain=0, capacity=2, readers=["r"])
    for batch in (1, 2, 3, 4):
        write(broker, token, batch)
    assert channels.info("a.0").is_full
    with broker.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(keys.room("a.0"))
        listener.get_message(timeout=1)
        commit(broker, "r", "1-0")  # three are left: still full
        assert listener.get_message(timeout=0.2) is None
        commit(broker, "r", "2-0")
        message = None
        for _ in range(600):
            message = message or listener.get_message(timeout=0.1)
        assert message is not None
    assert not channels.info("a.0").is_full


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3)),
        st.tuples(st.just("commit"), st.sampled_from("rst"), st.integers(1, 40)),
        st.tuples(st.just("join"), st.sampled_from("rst")),
        st.tuples(st.just("leave"), st.sampled_from("rst")),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, retain=st.sampled_from([0, 2, 5]))
def test_only_what_every_reader_has_done_with_is_freed(broker, steps, retain) -> None:
    """Against a model: after any history the channel holds at least what some reader lacks, and nothing twice."""
    broker.flushall()
    channels = Channels(broker)
    token = open_channel(channels, retain=retain)
    written: list[str] = []
    positions: dict[str, int] = {}  # reader -> how many entries it has done with
    for batch, (what, *details) in enumerate(steps, start=1):
        if what == "write":
            for n in range(details[0]):
                write(broker, token, batch, n)
                written.append(f"{batch}-{n}")
        elif what == "join":
            channels.register_readers("a.0", details)
            positions.setdefault(details[0], len(written))
        elif what == "leave":
            channels.unregister("a.0", details[0])
            positions.pop(details[0], None)
        elif details[0] in positions:
            reader, upto = details[0], min(details[1], len(written))
            if written:
                commit(broker, reader, written[upto - 1])
                positions[reader] = max(positions[reader], upto)
        slowest = min(positions.values(), default=len(written))
        held = ids(broker)
        needed = written[min(slowest, max(0, len(written) - retain)):]
        assert held == written[len(written) - len(held):]  # what is left is the newest part, in order
        assert len(held) >= len(needed)
        if (what in ("commit", "leave") and details[0] in positions) or what == "leave":
            assert held == needed
