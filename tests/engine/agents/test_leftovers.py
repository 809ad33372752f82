"""A driver in which a stopped query still works is ended, so that its core is free; one that merely winds up is not."""

from __future__ import annotations

import sys

from tests.launcher.waiting import wait_until
from workers.engine.agents.failing.leftovers import LAST_MS, LOOK_MS, WATCHED_MS, Leftovers
from workers.engine.agents.supervising.supervision import LEFT_AT_WORK, SlotProcess


class Driver:
    def __init__(self) -> None:
        self.left: list[str] = []
        self.asked = 0

    def ask(self) -> list[str]:
        self.asked += 1
        return self.left


def test_nobody_is_asked_while_nothing_was_let_go():
    driver = Driver()
    left = Leftovers(driver.ask)
    assert left.lasting(now_ms=10**9) == () and driver.asked == 0
    left.expect(now_ms=10**9)
    assert left.lasting(now_ms=10**9) == () and driver.asked == 1
    assert left.lasting(now_ms=10**9 + LOOK_MS - 1) == () and driver.asked == 1
    left.lasting(now_ms=10**9 + WATCHED_MS)
    assert driver.asked == 1


def test_what_lasts_is_told_and_what_winds_up_is_not():
    driver = Driver()
    left = Leftovers(driver.ask)
    left.expect(now_ms=0)
    driver.left = ["task 0.0 in stage 3.0 (TID 5)", "task 0.0 in stage 4.0 (TID 6)"]
    assert left.lasting(now_ms=0) == ()
    driver.left = driver.left[:1]
    for now_ms in range(LOOK_MS, LAST_MS, LOOK_MS):
        assert left.lasting(now_ms=now_ms) == ()
    driver.left.append("task 0.0 in stage 9.0 (TID 7)")
    assert left.lasting(now_ms=LAST_MS) == ("task 0.0 in stage 3.0 (TID 5)",)


def test_what_was_found_is_watched_for_as_long_as_it_is_there():
    driver = Driver()
    left = Leftovers(driver.ask)
    left.expect(now_ms=0)
    driver.left = ["task"]
    left.lasting(now_ms=WATCHED_MS - 1)
    assert left.lasting(now_ms=WATCHED_MS + LAST_MS) == ("task",)


def test_the_agent_says_why_and_blames_nobody_who_is_still_there():
    slot = SlotProcess("0", [sys.executable, "-c", f"raise SystemExit({LEFT_AT_WORK})"], env={},
                       on_news=lambda: None, on_event=lambda **_: None)
    slot.check(1_000)
    wait_until(lambda: slot.check(2_000))
    assert "query that was stopped still worked" in slot.error and slot.death is None
    slot.end(deadline=0)
