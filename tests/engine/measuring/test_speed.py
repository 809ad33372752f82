"""How fast a core runs, seen from a thread beside what is measured."""

from __future__ import annotations

import os
import time

from workers.engine.measuring.speed import CoreSpeed


def test_the_speed_is_that_of_since_the_last_look_and_binds_nobody_else_to_the_core():
    before = os.sched_getaffinity(0)
    with CoreSpeed(min(before)) as speed:
        deadline = time.monotonic() + 180
        while (seen := speed.mean()) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert 0.5 < seen < 500, "a loop's step takes some nanoseconds"
        assert speed.mean() is None, "nothing was seen since then"
        assert os.sched_getaffinity(0) == before
    time.sleep(0.3)
    speed.mean()
    time.sleep(0.3)
    assert speed.mean() is None, "it is over"


def test_a_core_that_is_not_there_is_told_of_where_the_system_lets_it_run():
    with CoreSpeed(100_000) as speed:
        deadline = time.monotonic() + 180
        while (seen := speed.mean()) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert seen > 0
