"""Ticks are a function of their offsets: the same over restarts, complete, and never beyond their end."""

from __future__ import annotations

import time

import numpy as np
import pytest

from workers.engine.channels.tick_schedule import write_schedule

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def test_finite_ticks_end_exactly_at_their_limit(rig: Rig) -> None:
    query = rig.start(rig.publish(rig.ticks("a", rate_per_s=3_000, limit=777), "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) >= 777, what="the last tick", alive=(query,))
    written = rig.channels.info("a.0").last
    time.sleep(0.5)  # nothing may come any more
    assert rig.channels.info("a.0").last == written
    assert rig.numbers("a.0") == list(range(777))


def test_ticks_keep_their_schedule_over_a_restart(rig: Rig) -> None:
    def source():
        return rig.start(rig.publish(rig.ticks("a", rate_per_s=300, limit=600), "a"), "a")

    first = source()
    wait_until(lambda: len(rig.events("a.0")) > 100, what="first ticks", alive=(first,))
    first.stop()
    second = source()
    wait_until(lambda: len(rig.events("a.0")) == 600, what="the last tick", alive=(second,))
    events = rig.events("a.0")
    start_ms = events[0]["_born"]
    assert [row["_born"] - start_ms for row in events] == [int(seq * 1000.0 / 300) for seq in range(600)]
    assert [row["_time"] for row in events] == [row["_born"] for row in events]


def test_a_rate_without_end_skips_what_it_missed_in_a_long_pause(rig: Rig) -> None:
    rig = rig.with_config(catch_up_ms=1_000)

    def source():
        return rig.start(rig.publish(rig.ticks("a", rate_per_s=100), "a"), "a")

    first = source()
    wait_until(lambda: len(rig.events("a.0")) > 20, what="first ticks", alive=(first,))
    first.stop()
    stopped, born_ms = rig.numbers("a.0")[-1], rig.events("a.0")[-1]["_born"]
    time.sleep(3)
    second = source()
    # A batch that was begun before comes to its end first, however many ticks it has.
    wait_until(lambda: rig.events("a.0")[-1]["_born"] > born_ms + 2_000, what="ticks after the pause", alive=(second,))
    second.stop()
    events = rig.events("a.0")
    assert [row["_seq"] for row in events] == list(range(len(events)))  # no number is skipped, only time
    steps = np.diff([row["_born"] for row in events])
    assert steps[stopped:].max() > 2_000
    # A busy machine's batches may take that long, too; what is less is made up for.
    assert all(step == 10 or step > 1_000 for step in steps), steps


def test_a_short_pause_is_made_up_for(rig: Rig) -> None:
    first = rig.start(rig.publish(rig.ticks("a", rate_per_s=100), "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) > 20, what="first ticks", alive=(first,))
    first.stop()
    time.sleep(1.0)
    second = rig.start(rig.publish(rig.ticks("a", rate_per_s=100), "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) > 150, what="what was missed", alive=(second,))
    second.stop()
    steps = np.diff([row["_born"] for row in rig.events("a.0")])
    assert steps.max() == 10


def test_a_schedule_is_kept_with_its_recorded_times(rig: Rig) -> None:
    path = write_schedule(rig.folder / "schedule", due_ms=[0, 0, 50, 300], time_ms=[7_000, 7_001, 6_999, 9_000])
    query = rig.start(rig.publish(rig.ticks("a", schedule_file=path), "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) == 4, what="the schedule's end", alive=(query,))
    events = rig.events("a.0")
    assert [row["_time"] for row in events] == [7_000, 7_001, 6_999, 9_000]
    assert [row["_born"] - events[0]["_born"] for row in events] == [0, 0, 50, 300]


def test_a_schedule_of_due_offsets_alone_and_repeated(rig: Rig) -> None:
    path = write_schedule(rig.folder / "schedule", due_ms=[0, 20])
    query = rig.start(rig.publish(rig.ticks("a", schedule_file=path, repeat_ms=100, limit=7), "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) >= 7, what="the limit", alive=(query,))
    events = rig.events("a.0")
    assert [row["_time"] - events[0]["_time"] for row in events] == [0, 20, 100, 120, 200, 220, 300]


def test_a_schedule_emits_everything_however_late(rig: Rig) -> None:
    rig = rig.with_config(catch_up_ms=10)
    path = write_schedule(rig.folder / "schedule", due_ms=list(range(0, 2_000, 2)))
    first = rig.start(rig.publish(rig.ticks("a", schedule_file=path), "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) > 50, what="first ticks", alive=(first,))
    first.stop()
    time.sleep(1.0)
    second = rig.start(rig.publish(rig.ticks("a", schedule_file=path), "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) >= 1_000, what="the schedule's end", alive=(second,))
    assert rig.numbers("a.0") == list(range(1_000))
