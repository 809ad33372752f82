"""A broker whose memory is full, by real queries of a slot: they wait, and go on with each event once."""

from __future__ import annotations

import time

import pytest
import redis

from tests.engine.filled_broker import bounded, fill, make_room
from workers.engine import broker_room
from workers.engine.agents.supervising.broker_users import SLOTS, BrokerUsers
from workers.engine.broker_room import bound_largest, keep_room
from workers.engine.channels import keys
from workers.engine.channels.channel_config import CROWDED_CAPACITY_BLOCKS

from .rig import EVERYTHING, Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
SOURCE, COPY = "rehearsal-n1-a", "rehearsal-n1-b"
RATE_PER_S = 200
PATIENCE_S = 10.0  # of a query with a broker that is away; with one that is full it has more


def test_queries_wait_at_a_full_broker_and_give_each_event_once(
    rig: Rig, broker: redis.Redis, users: BrokerUsers
) -> None:
    slot, arrived, wanted = rig.with_config(redis_url=users.url(SLOTS)), f"{COPY}.0", f"{SOURCE}.0"
    ticks = slot.ticks(SOURCE, rate_per_s=RATE_PER_S, writes=(wanted,))
    source = slot.start(slot.publish(ticks, SOURCE, readers=(COPY,), retain=EVERYTHING), SOURCE)
    copy = slot.start(slot.publish(slot.read(COPY, wanted), COPY), COPY)
    both = (source, copy)
    wait_until(lambda: rig.numbers(arrived), what="events", alive=both)
    with bounded(broker, more_mb=40):
        # As when somebody fills it at once, without the agent having looked.
        fill(broker)
        full_at_s, written = time.monotonic(), len(rig.numbers(wanted))

        def has_been_full() -> bool:
            fill(broker)  # again: what clients had of its memory becomes free meanwhile
            return time.monotonic() - full_at_s > 1.5 * PATIENCE_S

        wait_until(has_been_full, what="some time", alive=both)
        assert len(rig.numbers(wanted)) - written < RATE_PER_S * PATIENCE_S, "most of what was due waits"
        make_room(broker)
        before = len(rig.numbers(arrived))
        wait_until(lambda: len(rig.numbers(arrived)) > before + 1_000, what="further events", alive=both)

        # Before it is full, the agent lets sources wait; what reads channels works on, and makes room.
        fill(broker, until_left=0.1)
        assert keep_room(broker) is not None
        wait_until(
            lambda: rig.channels.meters(SOURCE).get("throttled_by") == "broker", what="a source that waits", alive=both)
        wait_until(lambda: rig.numbers(arrived) == rig.numbers(wanted), what="what was taken in", alive=both)
        make_room(broker)
        keep_room(broker)
        before = len(rig.numbers(arrived))
        wait_until(lambda: len(rig.numbers(arrived)) > before + 200, what="further events", alive=both)
    numbers = rig.numbers(arrived)
    assert numbers == list(range(len(numbers)))
    assert rig.channels.meters(COPY).get("throttled_by", "") == ""


def test_who_fills_the_broker_waits_and_every_event_comes_once(
    rig: Rig, broker: redis.Redis, users: BrokerUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A channel is bounded while its query writes it and nobody reads; then its reader comes; then there is room."""
    slot, arrived, wanted = rig.with_config(redis_url=users.url(SLOTS)), f"{COPY}.0", f"{SOURCE}.0"
    ticks = slot.ticks(SOURCE, rate_per_s=RATE_PER_S, writes=(wanted,))
    source = slot.start(slot.publish(ticks, SOURCE, readers=(COPY,)), SOURCE)
    wait_until(lambda: broker.xlen(keys.channel(wanted)) > 2, what="blocks", alive=(source,))
    before = rig.channels.info(wanted).capacity
    monkeypatch.setattr(broker_room, "_channel_sizes", lambda _: {wanted: 1 << 30})
    with bounded(broker, more_mb=40):
        fill(broker, until_left=0.3)
        assert bound_largest(broker) == [wanted]
        wait_until(
            lambda: rig.channels.meters(SOURCE).get("throttled_by") == wanted, what="a source that waits",
            alive=(source,))
        assert broker.xlen(keys.channel(wanted)) <= CROWDED_CAPACITY_BLOCKS + 4
        copy = slot.start(slot.publish(slot.read(COPY, wanted), COPY, retain=EVERYTHING), COPY)
        wait_until(lambda: len(rig.numbers(arrived)) > 20 * RATE_PER_S, what="events", alive=(source, copy))
    broker.delete(keys.WEIGHED)
    assert bound_largest(broker) == [] and rig.channels.info(wanted).capacity == before
    come = len(rig.numbers(arrived))
    wait_until(lambda: len(rig.numbers(arrived)) > come + 200, what="further events", alive=(source, copy))
    numbers = rig.numbers(arrived)
    assert numbers == list(range(len(numbers)))
