"""The played broker does what a real one does, after any history of what registry and scripts ask of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from typing import Any

import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.contracts.partitioning import partitioning_of
from scheduler.model.ring import Ring
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels

from .played_redis import PlayedRedis

READERS, CHANNELS = st.sampled_from("rs"), st.sampled_from(["f.0", "f.1"])
BATCHES = st.integers(0, 6)
WHERE = st.sampled_from(["now", "oldest", "2-0", "3500"])
WEIGHTS = st.dictionaries(READERS, st.sampled_from([0, 0.5, 1, 3.0]), max_size=2)
RINGS = st.builds(Ring, st.just(("k",)), st.dictionaries(st.sampled_from([0, 7, 500]), READERS, min_size=1))
# How many batches after the newest one, which block of it, events, and how many tokens were taken since.
WRITE = st.tuples(
    st.just("write"), CHANNELS, st.sampled_from([-1, 0, 0, 1, 1, 2]), st.integers(0, 2), st.integers(1, 3),
    st.sampled_from([0, 0, 0, 1]))
STEPS = st.lists(st.one_of(
    st.tuples(st.just("open"), CHANNELS, st.integers(0, 3), st.sampled_from([0, 2])),
    st.tuples(st.just("token"), CHANNELS),
    WRITE, WRITE, WRITE,
    st.tuples(st.just("register"), CHANNELS, READERS),
    st.tuples(st.just("join"), CHANNELS, READERS, WHERE, READERS),
    st.tuples(st.just("commit"), CHANNELS, READERS, BATCHES, st.integers(0, 2)),
    st.tuples(st.just("unregister"), CHANNELS, READERS, st.booleans()),
    st.tuples(st.just("look")),
    st.tuples(st.just("delete"), CHANNELS),
    st.tuples(st.just("outlet"), st.sampled_from([None, 0, 4])),
    st.tuples(st.just("tail"), st.sampled_from([None, 0, 1])),
    st.tuples(st.just("route"), st.one_of(WEIGHTS, WEIGHTS, RINGS), st.sampled_from([None, 0, 4]), st.booleans()),
    st.tuples(st.just("activate"), BATCHES),
    st.tuples(st.just("backpressure")),
), min_size=10, max_size=60)


def write(client: Any, channel: str, later: int, n: int, events: int, overtaken: int) -> Any:
    names = [keys.channel(channel), keys.meta(channel), keys.readers(channel)]
    last, fence = client.hmget(keys.meta(channel), "last", "fence")
    batch = max(1, int((last or b"0-0").partition(b"-")[0]) + later)
    token = int(fence or 0) - overtaken
    return scripts.run(client, "write", names, [token, batch, n, events, b"block", 1_000 * batch])


def change_route(channels: Channels, how: dict[str, float] | Ring, first: int | None, instead: bool) -> bool:
    if not partitioning_of(how).served:
        return channels.unroute("f", 0, "r")
    return channels.route("f", 0, "r", how, from_batch=first, instead=instead and first is not None)


def actions(client: Any, channels: Channels) -> dict[str, Callable[..., Any]]:
    """What a step does, by its name."""
    return {
        "open": lambda channel, capacity, retain: channels.open_channel(
            channel, schema_json="{}", capacity=capacity, retain=retain),
        "token": channels.take_fence,
        "write": lambda *step: write(client, *step),
        "register": lambda channel, reader: channels.register_readers(channel, [reader]),
        "join": lambda channel, reader, where, other: channels.join(
            channel, reader, where=where, predecessors=[other]),
        "commit": lambda channel, reader, batch, n: channels.commit(channel, reader, f"{batch}-{n}"),
        "unregister": lambda channel, reader, for_good: channels.unregister(channel, reader, for_good=for_good),
        "look": lambda: channels.look(["f.0", "f.1"], ["f", "g"]),
        "delete": channels.delete_channel,
        "outlet": lambda first: channels.open_outlet("f", 0, from_batch=first),
        "tail": lambda position: channels.open_tail("f") if position is None else channels.close_tail("f", position),
        "route": lambda *step: change_route(channels, *step),
        "activate": lambda batch: channels.activate("f", done_batch=batch),
        "backpressure": lambda: scripts.run(
            client, "backpressure", [keys.valve("f")], [keys.channel(""), "", "f.0", "f.1"]),
    }


def outcome(action: Callable[..., Any], step: tuple) -> Any:
    """What a step gives, an error's text if it fails."""
    try:
        value = action(*step)
    except redis.ResponseError as error:
        return str(error)
    return asdict(value) if is_dataclass(value) else value


def state(client: Any, channels: Channels) -> list:
    """All that is there, as the registry sees it."""
    blocks = [
        (client.xrange(key), client.xrange(key, "(1-0", "2-1", count=2), client.xrevrange(key, "(3-0", count=1))
        for key in (keys.channel("f.0"), keys.channel("f.1"))]
    return [channels.info("f.0"), channels.info("f.1"), blocks, channels.control("f"), channels.routes("f")]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_played_broker_does_what_a_real_one_does(embedded_broker, steps) -> None:
    embedded_broker.flushall()
    brokers = [(client, Channels(client)) for client in (embedded_broker, PlayedRedis())]
    for _, channels in brokers:
        channels.open_channel("f.0", schema_json="{}", capacity=2, readers=["r"])
        channels.take_fence("f.0")
    for name, *step in steps:
        outcomes = [outcome(actions(*broker)[name], step) for broker in brokers]
        assert outcomes[0] == outcomes[1]
        assert state(*brokers[0]) == state(*brokers[1])
