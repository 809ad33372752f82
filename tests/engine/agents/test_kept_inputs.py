"""For which queries inputs are kept, as their channels are."""

from __future__ import annotations

import pytest

from scheduler.contracts.desired import Input, WantedFragment
from scheduler.elasticity.copied_queries import BEHIND, TOO_MUCH_COMES
from scheduler.model.dataflow import Task
from workers.engine.agents.reconciling import kept_inputs
from workers.engine.agents.reconciling.kept_inputs import AGAIN_MS, KeptInputs
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels

from ..channels.played_redis import PlayedRedis

LIVE, SHARED = "in-s.0", "f0-0.0"


def reading(channel: str, *, shared: bool = False) -> WantedFragment:
    return WantedFragment("f1-0", (Task("t", "plain"),), inputs=(Input(channel, "s", shared=shared),))


def stands(channel: str, **meta: object) -> PlayedRedis:
    """A broker with a channel that its reader has read to block 100, and whose copies need it from block 1 on."""
    broker = PlayedRedis()
    Channels(broker).open_channel(channel, schema_json="{}")
    for reader, place in (("f1-0", "100-0"), (keys.copies_reader("f1-0"), "1-0")):
        Channels(broker).join(channel, reader, where=place)
    if meta:
        broker.hset(keys.meta(channel), mapping=meta)
    return broker


@pytest.mark.parametrize(("most", "block"), [(98, 0), (8_192, kept_inputs.LIVE_CAPACITY_BYTES // 98)])
def test_a_live_source_keeps_so_much_and_no_more_and_is_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, most: int, block: int
) -> None:
    monkeypatch.setattr(kept_inputs, "MOST_BLOCKS", most)
    broker = stands(LIVE, block=block)
    inputs, fragment = KeptInputs(Channels(broker)), reading(LIVE, shared=True)
    assert inputs.why_not_kept(fragment, now_ms=0) == TOO_MUCH_COMES
    broker.hset(keys.readers(LIVE), keys.copies_reader("f1-0"), "99-0")
    assert inputs.why_not_kept(fragment, now_ms=AGAIN_MS - 1) == TOO_MUCH_COMES
    assert inputs.why_not_kept(fragment, now_ms=AGAIN_MS) == ""


def test_a_live_source_that_others_need_keeps_nothing_for_who_is_behind() -> None:
    for count, why in ((5, ""), (6, BEHIND)):
        broker = stands(LIVE, capacity=10)
        names, token = [key(LIVE) for key in (keys.channel, keys.meta, keys.readers)], Channels(broker).take_fence(LIVE)
        for number in range(2, 101 + count):
            scripts.run(broker, "write", names, [token, number, 0, 1, b"block", 0])
        assert KeptInputs(Channels(broker)).why_not_kept(reading(LIVE, shared=True), now_ms=0) == why
        assert KeptInputs(Channels(broker)).why_not_kept(reading(LIVE), now_ms=0) == "", "nobody else needs it"


def test_who_goes_on_from_disk_keeps_nothing() -> None:
    for channel in (LIVE, SHARED):
        broker = stands(channel, **{keys.spill("f1-0"): "50-0"})
        assert KeptInputs(Channels(broker)).why_not_kept(reading(channel, shared=True), now_ms=0) == BEHIND
