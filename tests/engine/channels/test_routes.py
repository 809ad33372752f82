"""Routes as the broker keeps them, and parts of a stream. What batches see of them: ``contract/test_control.py``."""

from __future__ import annotations

import pytest
import redis

from scheduler.model.ring import Ring
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.control import Route, begin_batch, changes_of

pytestmark = pytest.mark.broker


@pytest.fixture
def channels(broker: redis.Redis) -> Channels:
    return Channels(broker)


def test_asking_again_for_the_same_changes_nothing(channels) -> None:
    assert channels.route("f", 1, "r", {"r": 1, "s": 2}, from_batch=0)
    before = channels.control("f")
    assert not channels.route("f", 1, "r", {"s": 2.0, "r": 1.0}, from_batch=0)
    assert not channels.route("f", 1, "r", {"s": 2.0, "r": 1.0})
    assert not channels.unroute("f", 2, "r")
    assert channels.control("f") == before


def test_tokens_are_a_route_as_weights_are(channels) -> None:
    ring = Ring(("k", "l"), {0: "r", 40_000: "s"}, leaving=("t",))
    assert channels.route("f", 1, "r", ring, from_batch=0) and not channels.route("f", 1, "r", ring, from_batch=0)
    assert channels.routed("f", 1, "r") == Route(ring, from_batch=0, effective=True)
    (change,) = changes_of(channels.control("f"))[1, "r"]
    assert change.partitioning.bundles == ("f.1@r", "f.1@s", "f.1@t")
    assert channels.route("f", 1, "r", {"r": 1.0}) and channels.route("f", 1, "r", ring)
    with pytest.raises(ValueError, match="cannot be divided by the keys"):
        channels.route("f", 1, "r", Ring((), {0: "r"}))


@pytest.mark.parametrize("weights", [{}, {"r": 0}, {"r": 1, "s": -0.1}, {"r": float("nan")}, {"r": float("inf")}])
def test_weights_that_make_no_sense_are_refused(channels, weights) -> None:
    with pytest.raises(ValueError, match="cannot be divided by the weights"):
        channels.route("f", 1, "r", weights)
    assert channels.control("f") == {}


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

    def test_a_full_part_holds_its_writer_back_while_it_gets_events(self, broker, channels) -> None:
        def backpressure() -> tuple[bool, str]:
            """Whether the writer is paused, and which channel is full."""
            names = [keys.channel(""), "", "f.0", "f.1"]
            paused, full, *_ = scripts.run(broker, "backpressure", [keys.valve("f")], names)
            return bool(paused), full.decode()

        token = channels.take_fence("f.1")
        for bundle in "rs":
            channels.open_channel(f"f.1@{bundle}", schema_json="{}", readers=[bundle], capacity=1)
        channels.route("f", 1, "r", {"r": 1}, from_batch=0)
        assert [self.write(broker, token, batch) for batch in (1, 2)] == [1, 1]
        assert backpressure() == (False, "f.1@r")
        channels.route("f", 1, "r", {"r": 0, "s": 1})
        assert backpressure() == (False, "")
        channels.route("f", 1, "r", Ring(("k",), {0: "s", 500: "r", 900: "s"}))
        assert backpressure() == (False, "f.1@r")
        channels.route("f", 1, "r", Ring(("k",), {0: "s"}, leaving=("r",)))
        assert backpressure() == (False, "")
        channels.pause("f")
        assert backpressure() == (True, "")


class TestAlternates:
    """Which alternate works at a task changes as a route does: from a batch on, the same way where that is repeated."""

    def test_another_works_from_the_batch_behind_the_one_that_sees_it(self, broker, channels) -> None:
        assert channels.switch("f", 1, "slow", from_batch=0)
        assert channels.alternates("f") == {1: ("slow", True)}
        begin_batch(broker, "f", 4)
        assert channels.switch("f", 1, "quick") and not channels.switch("f", 1, "quick")
        assert channels.alternates("f") == {1: ("quick", False)}
        begin_batch(broker, "f", 5)
        assert {change.from_batch for change in changes_of(channels.control("f"))[1, ""]} == {0, 6}
        begin_batch(broker, "f", 6)
        assert channels.alternates("f") == {1: ("quick", True)}

    def test_routes_and_alternates_of_one_position_are_apart(self, broker, channels) -> None:
        channels.route("f", 1, "r", {"r": 1}, from_batch=0)
        channels.switch("f", 1, "slow", from_batch=0)
        assert channels.routes("f").keys() == {(1, "r")}
        channels.unroute("f", 1, "r")
        channels.activate("f", done_batch=3)
        assert channels.routes("f") == {} and channels.alternates("f") == {1: ("slow", True)}

    def test_one_that_no_batch_has_seen_gives_way(self, channels) -> None:
        channels.switch("f", 0, "slow", from_batch=0)
        channels.switch("f", 0, "quick")
        channels.switch("f", 0, "slow")
        assert [name for change in changes_of(channels.control("f"))[0, ""] for name in change.partitioning] == [
            "slow", "slow"]
