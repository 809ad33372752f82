"""Where a query begins that goes on with the work of another, or of its own from before a pause."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def last_offset(checkpoint: Path) -> dict:
    newest = max(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    return json.loads((checkpoint / "offsets" / str(newest)).read_text().splitlines()[-1])


def batch_of(entry: str) -> int:
    return int(entry.split("-")[0])


@pytest.mark.long  # test_gate.py has one, its numbers, schedule and channel
def test_a_successor_goes_on_with_numbers_schedule_and_channel(rig: Rig) -> None:
    rate_per_s = 300
    few = rig.with_config(max_rows=400)  # of a batch: a busy machine would have all that is due in one
    first = rig.start(few.publish(few.ticks("a", rate_per_s=rate_per_s, limit=3_600), "a", readers=("r",)), "a")
    wait_until(lambda: len(rig.events("a.0")) > 100, what="first ticks", alive=(first,))
    rig.rest(first, "a")
    first.stop()
    reader = rig.start(rig.publish(rig.read("r", "a.0"), "r"), "r")
    base = rig.channels.info("a.0").last.block
    begin = last_offset(rig.folder / "checkpoint-a")
    assert 0 < begin["next"] < 3_600

    def successor():
        ticks = rig.ticks("b", rate_per_s=rate_per_s, limit=3_600, begin=begin)
        return rig.start(rig.valve(ticks, "b", channel="a.0", batch_base=base), "b")

    rig.channels.open_outlet("b", 0, from_batch=0)
    second = successor()
    wait_until(lambda: rig.channels.info("a.0").last.block > base, what="blocks above", alive=(second, reader))
    second.stop()  # wherever it is
    third = successor()
    wait_until(lambda: len(rig.events("r.0")) >= 3_600, what="the last tick", alive=(third, reader))
    events = rig.events("r.0")
    assert [row["_seq"] for row in events] == list(range(3_600))
    due_ms = [int(seq * 1000.0 / rate_per_s) for seq in range(3_600)]
    assert [row["_born"] - events[0]["_born"] for row in events] == due_ms


def test_after_a_pause_a_source_goes_on_from_now_without_a_burst(rig: Rig) -> None:
    rig = rig.with_config(catch_up_ms=600_000)  # what it makes up for, however slow the machine: all but the pause

    def source(**begin):
        return rig.start(rig.publish(rig.ticks("a", rate_per_s=100, **begin), "a"), "a")

    first = source()
    wait_until(lambda: len(rig.events("a.0")) > 20, what="first ticks", alive=(first,))
    rig.rest(first, "a")
    first.stop()
    offset = last_offset(rig.folder / "checkpoint-a")
    time.sleep(1.0)
    rig.channels.resume("a")
    resumed_ms = int(time.time() * 1000)
    begin = {"t0": resumed_ms - offset["next"] * 10, "next": offset["next"]}
    second = source(begin=begin)
    wait_until(lambda: len(rig.events("a.0")) > offset["next"] + 40, what="more ticks", alive=(second,))
    second.stop()
    before = len(rig.events("a.0"))
    third = source(begin=begin)  # what it was told once stays told, and does nothing any more
    wait_until(lambda: len(rig.events("a.0")) > before + 100, what="ticks of the third", alive=(third,))
    third.stop()
    events = rig.events("a.0")
    assert [row["_seq"] for row in events] == list(range(len(events)))
    born = [row["_born"] for row in events]
    assert min(row["_born"] for row in events[offset["next"]:]) >= resumed_ms
    assert np.count_nonzero(np.diff(born) != 10) == 1


def test_after_a_pause_a_reader_leaves_out_what_came_meanwhile(rig: Rig) -> None:
    writer = rig.start(rig.publish(rig.ticks("a", rate_per_s=200), "a", readers=("b",)), "a")
    reader = rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b")
    wait_until(lambda: len(rig.events("b.0")) > 20, what="first events", alive=(writer, reader))
    rig.rest(reader, "b")
    reader.stop()
    rig.channels.unregister("a.0", "b")
    before = rig.numbers("b.0")
    freed = rig.channels.info("a.0").trimmed.block
    wait_until(lambda: rig.channels.info("a.0").trimmed.block > freed + 3, what="a pause")
    rig.channels.resume("b")
    offset = rig.channels.join("a.0", "b").offset

    def again():
        return rig.start(rig.valve(rig.read("b", "a.0", begin={"a.0": offset}), "b"), "b")

    second = again()
    wait_until(lambda: len(rig.events("b.0")) > len(before) + 20, what="later events", alive=(writer, second))
    second.stop()
    third = again()
    count = len(rig.events("b.0"))
    wait_until(lambda: len(rig.events("b.0")) > count + 20, what="still later events", alive=(writer, third))
    after = rig.numbers("b.0")[len(before):]
    assert after == list(range(after[0], after[0] + len(after)))
    assert after[0] > before[-1] + 50
