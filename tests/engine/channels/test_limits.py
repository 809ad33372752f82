"""A reader of a whole stream that goes on with its part of it: where the one ends the other begins. Broker only.

What its batches take: ``contract/test_planning.py``.
"""

from __future__ import annotations

import pytest
import redis

from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels

pytestmark = pytest.mark.broker


@pytest.fixture
def channels(broker: redis.Redis) -> Channels:
    """A stream with the readers r, which is about to be divided, and w, which is not."""
    channels = Channels(broker)
    channels.open_channel("f.0", schema_json="{}", capacity=64, readers=["r", "w"])
    channels.take_fence("f.0")
    return channels


def write(broker: redis.Redis, *batches: int) -> None:
    names = [keys.channel("f.0"), keys.meta("f.0"), keys.readers("f.0")]
    for batch in batches:
        scripts.run(broker, "write", names, [1, batch, 0, 10, b"block", batch])


def divide(channels: Channels, *, from_batch: int = 3) -> bool:
    return channels.route("f", 0, "r", {"r": 0.5, "s": 0.5}, from_batch=from_batch, instead=True)


def test_who_has_read_all_by_then_is_gone_at_once(broker, channels) -> None:
    write(broker, 1, 2)
    channels.commit("f.0", "r", "2-0")
    divide(channels)
    assert channels.info("f.0").readers == {"w": "0-0"} and channels.info("f.0").limits == {"r": "2-0"}


def test_its_end_stays_where_it_is_whatever_is_asked_again(broker, channels) -> None:
    write(broker, 1, 2)
    divide(channels)
    write(broker, 3)
    assert not divide(channels)
    channels.route("f", 0, "r", {"r": 0.1, "s": 0.9})
    assert channels.info("f.0").limits == {"r": "2-0"}
    channels.commit("f.0", "r", "2-0")
    assert channels.join("f.0", "r", where="1-0").offset is None, "it got its place from an older plan"
    assert channels.info("f.0").readers == {"w": "0-0"}


def test_parts_of_nobody_who_reads_the_whole_have_no_end_to_wait_for(broker, channels) -> None:
    write(broker, 1)
    channels.unregister("f.0", "r")
    assert divide(channels)
    assert channels.info("f.0").limits == {}


def test_who_leaves_for_good_gets_no_place_again_and_who_leaves_for_a_while_does(broker, channels) -> None:
    write(broker, 1, 2)
    channels.commit("f.0", "r", "1-0")
    channels.unregister("f.0", "r", for_good=True)
    channels.unregister("f.0", "w")
    assert channels.join("f.0", "r").offset is None and channels.join("f.0", "w").offset == "2-0"
    channels.unregister("gone.0", "r", for_good=True)
    assert not broker.exists(keys.meta("gone.0"))
