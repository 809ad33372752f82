"""A reader of the whole stream goes on with its part of it, while others read the whole: each event once."""

from __future__ import annotations

import pytest

from workers.engine.agents.node_files.checkpoint import read_progress
from workers.engine.spark import queries

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]

EVENTS = 1_500


def divide(rig: Rig, writer, schema) -> None:
    """As a slot does it: between two batches of the writer."""
    rig.open_parts(schema, "a.0", "gk")
    try:
        assert queries.rest(writer, pause=lambda: rig.channels.pause("a"))
        progress = read_progress(rig.folder / "checkpoint-a")
        assert progress.is_done
        rig.channels.route("a", 0, "g", {"g": 0.5, "k": 0.5}, from_batch=progress.batch + 1, instead=True)
    finally:
        rig.channels.resume("a")


def test_a_reader_of_the_whole_goes_on_with_its_part_exactly_there(rig: Rig) -> None:
    few = rig.with_config(max_rows=40, max_blocks=3)
    ticks = few.ticks("a", rate_per_s=400, limit=EVENTS)
    writer = rig.start(rig.publish(ticks, "a", readers=("g", "h")), "a")
    whole = rig.start(rig.publish(rig.read("h", "a.0"), "h"), "h")
    reader = rig.start(rig.publish(few.read("g", "a.0"), "g"), "g")
    wait_until(lambda: len(rig.events("g.0")) > 200, what="the whole stream", alive=(writer, reader, whole))
    divide(rig, writer, ticks)
    other = rig.start(rig.publish(rig.read("k", "a.0@k"), "k"), "k")
    wait_until(lambda: "g" not in rig.channels.info("a.0").readers, what="its end", alive=(writer, reader, whole))
    read_whole = rig.numbers("g.0")
    assert read_whole == list(range(len(read_whole))), "the whole, in its order"
    # It stays where it is as long as it is not told to read its part, whatever comes for others.
    wait_until(lambda: len(rig.events("h.0")) > len(read_whole) + 300, what="more", alive=(writer, reader, whole))
    assert rig.numbers("g.0") == read_whole
    reader.stop()

    reader = rig.start(rig.publish(few.read("g", ["a.0@g"]), "g"), "g")
    everything = list(range(EVENTS))
    wait_until(lambda: len(rig.events("h.0")) == EVENTS, what="the others' events", alive=(writer, whole))
    wait_until(lambda: len(rig.events("g.0")) + len(rig.events("k.0")) >= EVENTS, what="both", alive=(reader, other))
    assert rig.numbers("h.0") == everything
    assert sorted(rig.numbers("g.0") + rig.numbers("k.0")) == everything
    part = rig.numbers("g.0")[len(read_whole):]
    assert part == sorted(part) and set(part).isdisjoint(rig.numbers("k.0")) and len(part) > 100
    assert set(rig.channels.info("a.0").readers) == {"h"}
    # A reader's place follows its events: a batch is committed once it is done.
    wait_until(lambda: rig.channels.info("a.0").blocks == 0, what="all is read and freed", alive=(whole,))


@pytest.mark.long
def test_what_is_not_read_up_to_the_end_cannot_be_left_out(rig: Rig) -> None:
    few = rig.with_config(max_rows=40)
    ticks = few.ticks("a", rate_per_s=2_000, limit=400)
    writer = rig.start(rig.publish(ticks, "a", readers=("g",)), "a")
    reader = rig.start(rig.publish(few.read("g", "a.0"), "g"), "g")
    wait_until(lambda: rig.events("g.0"), what="the whole stream", alive=(writer, reader))
    reader.stop()
    wait_until(lambda: rig.channels.meters("a").get("0:n", 0) == 400, what="what it has not read", alive=(writer,))
    divide(rig, writer, ticks)
    early = rig.start(rig.publish(few.read("g", ["a.0@g"]), "g"), "g")
    wait_until(lambda: not early.isActive, what="the failure")
    assert "WEIRGAP channel a.0 is no longer read by g" in str(early.exception())
    rest = rig.start(rig.publish(rig.read("g", ["a.0"]), "g"), "g")
    wait_until(lambda: len(rig.events("g.0")) == 400, what="the rest", alive=(rest,))
    assert rig.numbers("g.0") == list(range(400))
