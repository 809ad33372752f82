"""A query that stands by: it has done an empty batch, and begins where it is told to when it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.engine.agents.node_files.checkpoint import CheckpointProgress, read_progress

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
LIMIT = 900


def stands_by(folder: Path) -> bool:
    return read_progress(folder) == CheckpointProgress(0, is_done=True)


def test_a_source_and_its_reader_begin_when_their_gates_open(rig: Rig) -> None:
    """Both stand by while another one writes; then the source goes on with its numbers, schedule and channel."""
    first = rig.start(rig.publish(rig.ticks("a", rate_per_s=300, limit=LIMIT), "a", readers=("r", "r2")), "a")
    source = rig.start(rig.valve(
        rig.ticks("b", rate_per_s=300, limit=LIMIT, gate="g1"), "b", fence=-1, channel="a.0", gate="g1"), "b")
    read = rig.read("r", "a.0", gate="g2")
    rig.channels.open_channel("r.0", schema_json=read.schema.json(), retain=1_000_000)
    rig.channels.open_outlet("r", 0, from_batch=1)
    reader = rig.start(rig.valve(read, "r", fence=-1, gate="g2"), "r")
    alive = (first, source, reader)
    places = [rig.folder / f"checkpoint-{name}" for name in ("b", "r")]
    wait_until(lambda: all(map(stands_by, places)), what="empty batches", alive=alive)
    wait_until(lambda: len(rig.events("a.0")) > 100, what="the other's events", alive=alive)
    assert all(map(stands_by, places)), "they do nothing before they are told to"
    rig.rest(first, "a")
    offset = read_progress(rig.folder / "checkpoint-a").source_offset
    last = rig.channels.info("a.0").last
    rig.channels.open_outlet("b", 0, from_batch=1)
    rig.channels.open_gate(
        "b", "g1", written=["a.0"], offsets={}, source_offset=offset, batch_bases={"a.0": last.block})
    wait_until(lambda: rig.channels.info("a.0").last.block > last.block, what="blocks above", alive=(source, reader))
    assert rig.events("r.0") == []
    rig.channels.open_gate(
        "r", "g2", written=["r.0"], offsets={"a.0": last}, source_offset=None, batch_bases={})
    count = LIMIT - offset["next"]
    wait_until(lambda: len(rig.events("r.0")) >= count, what="the last tick", alive=(source, reader))
    events = rig.events("r.0")
    assert [row["_seq"] for row in events] == list(range(offset["next"], LIMIT)), "what is before its place is left out"
    assert [row["_born"] - offset["t0"] for row in events] == [int(row["_seq"] * 1000 / 300) for row in events]


def test_what_stood_by_and_began_goes_on_from_its_checkpoint_without_a_gate(rig: Rig) -> None:
    begin = {"t0": 1_000, "next": 40}

    def query(gate: str):
        ticks = rig.ticks("a", rate_per_s=100, limit=400, gate=gate, begin=None if gate else begin)
        fence = -1 if gate else None
        rig.channels.open_channel("a.0", schema_json=ticks.schema.json(), retain=1_000_000)
        return rig.start(rig.valve(ticks, "a", fence=fence, gate=gate), "a")

    first = query("g1")
    checkpoint = rig.folder / "checkpoint-a"
    wait_until(lambda: stands_by(checkpoint), what="the empty batch", alive=(first,))
    rig.channels.open_outlet("a", 0, from_batch=1)
    first.stop()
    second = query("")
    wait_until(lambda: len(rig.events("a.0")) >= 360, what="the last tick", alive=(second,))
    assert [row["_seq"] for row in rig.events("a.0")] == list(range(40, 400))
