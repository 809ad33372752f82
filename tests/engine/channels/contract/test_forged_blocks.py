"""Blocks that somebody who took a slot over wrote for another team's query: it fails, says why, and shows nothing."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
import redis

from tests.engine.channels.forged_blocks import EVENTS, HONEST, LONGS, forged_blocks, noise
from workers.engine.channels import keys, scripts
from workers.engine.channels.block_codec import encode_block

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
NOISY = 2_000


def test_a_reader_takes_no_block_that_is_not_what_it_says(rig: Rig) -> None:
    """Before, one of 500 bytes showed 60,000 of the driver's memory, and one of 300 ended the driver."""
    assert rig.probe.blockRead(encode_block(HONEST), EVENTS) == str(EVENTS)
    for what, block, events in forged_blocks():
        assert "that no query of Weir wrote" in rig.probe.blockRead(block, events), what
    whole = encode_block(HONEST)
    changed = rig.spark._jvm.java.util.ArrayList()
    for seed in range(NOISY):
        changed.add(f"{EVENTS}:{base64.b64encode(noise(whole, seed)).decode()}")
    assert rig.probe.blocksRead(changed) < NOISY, "whatever is read lies within its block, and all else is refused"


def test_a_query_that_is_given_one_fails_alone_and_its_figures_stay(rig: Rig, broker: redis.Redis) -> None:
    """The driver, and a query of the same that reads another channel, go on."""
    schema = rig.ticks("t", rate_per_s=1, limit=1).schema.json()
    ticks = rig.ticks("a", rate_per_s=100)
    honest = [rig.start(rig.publish(ticks, "a", readers=("b",)), "a"),
              rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b")]
    rig.channels.open_channel("x.0", schema_json=schema, readers=["y"])
    names = [keys.channel("x.0"), keys.meta("x.0"), keys.readers("x.0")]
    token = rig.channels.take_fence("x.0")
    whole = {"_seq": LONGS, "_time": LONGS, "_born": LONGS}
    forged = next(block for what, block, _ in forged_blocks() if what == "more events than bytes")
    scripts.run(broker, "write", names, [token, 1, 0, EVENTS, encode_block(pa.record_batch(whole)), 0])
    scripts.run(broker, "write", names, [token, 2, 0, 2**62, forged, -2**62])
    reader = rig.start(rig.publish(rig.read("y", "x.0"), "y"), "y")
    wait_until(lambda: reader.exception() is not None, what="the reader to fail", alive=honest)
    assert "channel x.0 has a block, 2-0, that no query of Weir wrote" in str(reader.exception())
    before = len(rig.numbers("b.0"))
    wait_until(lambda: len(rig.numbers("b.0")) > before + 100, what="further events", alive=honest)
    assert rig.channels.meters("y").get("in:n", 0) <= EVENTS
    assert rig.numbers("y.0") in ([], list(range(EVENTS)))
