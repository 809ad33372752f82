"""Routes as the broker keeps them: weights, their boundaries, and what is forgotten when. Broker only, no Spark."""

from __future__ import annotations

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.engine.channels import keys, scripts
from workers.engine.channels.control import Control, Route
from workers.engine.channels.gates import Gates
from workers.engine.channels.registry import Channels

pytestmark = pytest.mark.broker


@pytest.fixture
def channels(broker: redis.Redis) -> Channels:
    return Channels(broker)


def parts_of(broker: redis.Redis, batch: int, position: int = 1) -> list[tuple[str, ...]]:
    """The parts that a batch deals its events out to, for each divided reader."""
    return [rotation.parts for rotation in Control.read(broker, "f", batch).routes(position)]


def test_weights_hold_from_the_next_batch_on_and_the_same_way_when_repeated(broker, channels) -> None:
    channels.route("f", 1, "r", {"r": 1}, from_batch=0)
    assert parts_of(broker, 7) == [("f.1@r",)]
    assert channels.route("f", 1, "r", {"r": 0.25, "s": 0.75})
    assert channels.routed("f", 1, "r") == Route({"r": 0.25, "s": 0.75}, from_batch=None, settled=False)
    assert parts_of(broker, 7) == [("f.1@r",)]
    assert channels.routed("f", 1, "r") == Route({"r": 0.25, "s": 0.75}, from_batch=8, settled=False)
    assert parts_of(broker, 7) == [("f.1@r",)]
    assert parts_of(broker, 8) == [("f.1@r", "f.1@s")]
    assert channels.routed("f", 1, "r") == Route({"r": 0.25, "s": 0.75}, from_batch=8, settled=True)
    assert parts_of(broker, 8) == [("f.1@r", "f.1@s")]
    assert parts_of(broker, 8, position=0) == []


def test_asking_again_for_the_same_changes_nothing(channels) -> None:
    assert channels.route("f", 1, "r", {"r": 1, "s": 2}, from_batch=0)
    before = channels.control("f")
    assert not channels.route("f", 1, "r", {"s": 2.0, "r": 1.0}, from_batch=0)
    assert not channels.route("f", 1, "r", {"s": 2.0, "r": 1.0})
    assert not channels.unroute("f", 2, "r")
    assert channels.control("f") == before


def test_what_no_batch_was_decided_by_is_overwritten(broker, channels) -> None:
    channels.route("f", 1, "r", {"r": 1}, from_batch=0)
    channels.route("f", 1, "r", {"s": 1})
    channels.route("f", 1, "r", {"t": 1})
    assert parts_of(broker, 3) == [("f.1@r",)]
    assert parts_of(broker, 4) == [("f.1@t",)]


def test_a_bundle_of_weight_nothing_gets_nothing(broker, channels) -> None:
    channels.route("f", 1, "r", {"r": 0, "s": 0.5}, from_batch=0)
    assert parts_of(broker, 0) == [("f.1@s",)]
    assert channels.routed("f", 1, "r").weights == {"r": 0, "s": 0.5}


def test_a_route_ends_at_a_boundary_and_leaves_nothing(broker, channels) -> None:
    channels.route("f", 1, "r", {"r": 1}, from_batch=0)
    channels.unroute("f", 1, "r")
    assert parts_of(broker, 5) == [("f.1@r",)]
    assert channels.routed("f", 1, "r") == Route({}, from_batch=6, settled=False)
    assert parts_of(broker, 6) == []
    assert channels.routed("f", 1, "r") is None


def test_several_readers_and_positions_do_not_mix(broker, channels) -> None:
    channels.route("f", 1, "r", {"r": 1, "r2": 1}, from_batch=0)
    channels.route("f", 1, "s", {"s": 1}, from_batch=0, channel="old.3")
    channels.route("f", 11, "r", {"r": 1}, from_batch=0)
    assert parts_of(broker, 0) == [("f.1@r", "f.1@r2"), ("old.3@s",)]
    assert parts_of(broker, 0, position=11) == [("f.11@r",)]
    assert set(channels.routes("f")) == {(1, "r"), (1, "s"), (11, "r")}
    channels.unroute("f", 1, "s")
    channels.settle("f", done_batch=0)
    assert set(channels.routes("f")) == {(1, "r"), (11, "r")}


def test_what_is_at_rest_is_settled_without_events(broker, channels) -> None:
    channels.open_outlet("f", 0)
    channels.route("f", 1, "r", {"r": 1}, from_batch=0)
    channels.route("f", 1, "r", {"s": 1})
    channels.settle("f", done_batch=41)
    assert channels.routed("f", 1, "r") == Route({"s": 1}, from_batch=42, settled=True)
    assert channels.control("f")["0:from"] == "42"


@pytest.mark.parametrize("weights", [{}, {"r": 0}, {"r": 1, "s": -0.1}, {"r": float("nan")}, {"r": float("inf")}])
def test_weights_that_make_no_sense_are_refused(channels, weights) -> None:
    with pytest.raises(ValueError, match="cannot be divided by the weights"):
        channels.route("f", 1, "r", weights)
    assert channels.control("f") == {}


STEPS = st.lists(st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(["ab", "bc", "c", ""])),
    st.tuples(st.just("batch"), st.just("")),
    st.tuples(st.just("again"), st.just("")),
), max_size=25)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_batch_is_decided_once_for_all(broker, steps) -> None:
    """Whatever is asked for and when: a repeated batch is divided as it was, the next one as was asked before it."""
    broker.flushall()
    channels = Channels(broker)
    batch, decided, asked = 0, None, ""
    for what, bundles in steps:
        if what == "ask":
            asked = bundles
            if bundles:
                channels.route("f", 1, "r", dict.fromkeys(bundles, 1.0))
            else:
                channels.unroute("f", 1, "r")
        elif what == "again" and decided is not None:
            assert parts_of(broker, batch) == decided
        elif what == "batch":
            batch += 1
            seen = parts_of(broker, batch)
            route = channels.routed("f", 1, "r")
            if route is not None and route.settled:
                assert seen == [tuple(f"f.1@{bundle}" for bundle in asked)]
            decided = seen
    Control.read(broker, "f", batch + 1)  # sees what was asked for last
    final = parts_of(broker, batch + 2)
    assert final == ([tuple(f"f.1@{bundle}" for bundle in asked)] if asked else [])


class TestParts:
    """Parts are channels under the token of the stream that they are parts of."""

    def write(self, broker: redis.Redis, token: int, batch: int, channel: str = "f.1@r") -> int:
        names = [keys.channel(channel), keys.meta(channel), keys.readers(channel), keys.meta("f.1")]
        return scripts.run(broker, "write", names, [token, batch, 0, 1, b"block", 0])

    def test_the_streams_token_holds_for_its_parts(self, broker, channels) -> None:
        token = channels.take_fence("f.1")
        channels.open_channel("f.1@r", schema_json="{}", readers=["r"])
        assert [self.write(broker, token, 1), self.write(broker, token, 2), self.write(broker, token, 2)] == [1, 1, 0]
        later = channels.take_fence("f.1")
        with pytest.raises(redis.ResponseError, match="WEIRFENCED"):
            self.write(broker, token, 3)
        assert self.write(broker, later, 2) == 0
        assert channels.info("f.1@r").duplicates == 2

    def test_a_part_that_is_not_open_takes_nothing(self, broker, channels) -> None:
        with pytest.raises(redis.ResponseError, match="WEIRCLOSED"):
            self.write(broker, channels.take_fence("f.1"), 1)

    def test_a_full_part_closes_the_gate_while_it_gets_events(self, broker, channels) -> None:
        gates = Gates.parse("f", "f.0,f.1")
        token = channels.take_fence("f.1")
        for bundle in "rs":
            channels.open_channel(f"f.1@{bundle}", schema_json="{}", readers=[bundle], capacity=1)
        channels.route("f", 1, "r", {"r": 1}, from_batch=0)
        assert [self.write(broker, token, batch) for batch in (1, 2)] == [1, 1]
        assert not gates.look(broker)
        assert gates.full == channels.meters("f")["throttled_by"] == "f.1@r"
        channels.route("f", 1, "r", {"r": 0, "s": 1})
        assert gates.look(broker)
        channels.pause("f")
        assert not gates.look(broker)


def test_of_several_channels_those_blocks_are_planned_that_were_written_first(broker, channels) -> None:
    """Broker side of a group of channels: fair by age, bounded in blocks and events, one block always."""
    for channel, times in {"a.0": [1, 4, 5], "b.0": [2, 3, 6]}.items():
        channels.open_channel(channel, schema_json="{}", readers=["r"])
        token = channels.take_fence(channel)
        names = [keys.channel(channel), keys.meta(channel), keys.readers(channel)]
        for batch, at_ms in enumerate(times, start=1):
            scripts.run(broker, "write", names, [token, batch, 0, 10, b"block", at_ms])

    def plan(blocks: int, events: int, *after: str) -> list[str]:
        names = [key for channel in ("a.0", "b.0") for key in (keys.channel(channel), keys.meta(channel))]
        return [part.decode() for part in scripts.run(broker, "plan", names, ["r", blocks, events, *after])][0::3]

    assert plan(64, 1_000, "0-0", "0-0") == ["3-0", "3-0"]
    assert plan(3, 1_000, "0-0", "0-0") == ["1-0", "2-0"]
    assert plan(64, 45, "0-0", "0-0") == ["2-0", "2-0"]
    assert plan(64, 5, "0-0", "0-0") == ["1-0", ""]
    assert plan(64, 5, "1-0", "0-0") == ["", "1-0"]
    assert plan(64, 1_000, "3-0", "3-0") == ["", ""]
