"""A slot's pulse, and batches that do not end: what a listener cannot hear."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

import pytest

from tests.launcher.waiting import wait_until
from workers.engine.agents.reconciling.long_batches import BatchState, LongBatches
from workers.engine.agents.supervising.pulse import PULSE_S, Pulse
from workers.engine.agents.supervising.supervision import (
    JVM_GONE,
    SILENT_MS,
    STALLED_MS,
    SlotProcess,
    Spare,
    end_session,
)

BEATS = (
    "import json, sys, time\nprint(json.dumps({'state': 'running'}), flush=True)\n"
    "while True:\n print(json.dumps({'pulse': int(sys.argv[1])}), flush=True); time.sleep(0.1)")


def slot_that(code: str, *arguments: str, kind: type[SlotProcess] = SlotProcess) -> SlotProcess:
    made = kind(
        "0", [sys.executable, "-c", code, *arguments], env={}, on_news=lambda: None, on_event=lambda **_: None)
    made.check(1_000)
    return made


def test_a_pulse_goes_on_while_the_jvm_is_frozen_and_says_for_how_long() -> None:
    frozen, now_s, messages = threading.Event(), [10.0], []
    pulse = Pulse(frozen.wait, messages.append, monotonic_s=lambda: now_s[0])
    pulse.start()
    try:
        now_s[0] += 3.0
        wait_until(lambda: len(messages) >= 2)
        assert messages[-1] == {"pulse": 3000}
        frozen.set()
        wait_until(lambda: messages[-1] == {"pulse": 0})
    finally:
        frozen.set()
        pulse.stop()


def test_what_is_within_a_turn_is_no_silence() -> None:
    now_s = [0.0]
    pulse = Pulse(lambda: None, lambda _: None, monotonic_s=lambda: now_s[0])
    now_s[0] = 2 * PULSE_S
    assert pulse.silent_ms() == 0


def test_a_slot_whose_jvm_does_not_answer_is_stalled_and_ended_in_the_end() -> None:
    slot = slot_that(BEATS, str(STALLED_MS))
    try:
        wait_until(lambda: slot.state == "stalled")
        assert slot.silent_ms(slot._heard_at_ms) == STALLED_MS
        slot._pulse = (slot._heard_at_ms, SILENT_MS)
        assert slot.check(slot._heard_at_ms)
        assert "did not answer" in slot.error
    finally:
        slot.end(deadline=0)


@pytest.mark.parametrize(("silent_ms", "is_ready"), [(0, True), (STALLED_MS, False)])
def test_a_spare_that_does_not_answer_is_not_handed_out(silent_ms: int, is_ready: bool) -> None:
    spare = slot_that(BEATS.replace("'running'", "'ready'"), str(silent_ms), kind=Spare)
    try:
        wait_until(lambda: spare._pulse is not None and spare.report)
        assert spare.state == ("ready" if is_ready else "stalled") and spare.is_ready is is_ready
        driver = spare.give()
        assert (driver is not None) is is_ready
    finally:
        spare.end(deadline=0)
        if is_ready:
            end_session(driver.process)


def test_a_slot_that_is_frozen_itself_is_stalled() -> None:
    slot = slot_that(BEATS, "0")
    try:
        wait_until(lambda: slot.state == "running" and slot._pulse is not None)
        os.kill(slot.pid, signal.SIGSTOP)
        wait_until(lambda: slot.state == "stalled")
        os.kill(slot.pid, signal.SIGCONT)
        wait_until(lambda: slot.state == "running")
    finally:
        slot.end(deadline=0)


def test_a_slot_that_ended_says_why() -> None:
    for code, words in ((f"raise SystemExit({JVM_GONE})", "JVM ended"), ("raise SystemExit(7)", "status 7"),
                        ("import os; os.kill(os.getpid(), 9)", "SIGKILL")):
        news: list[Any] = []
        slot = SlotProcess(
            "0", [sys.executable, "-c", f"print({json.dumps('{}')}, flush=True); {code}"], env={},
            on_news=lambda news=news: news.append(1), on_event=lambda **_: None)
        slot.check(1_000)
        wait_until(lambda slot=slot: slot.check(2_000))
        assert words in slot.error and news
        slot.end(deadline=0)


def test_a_batch_is_long_from_the_look_before_the_first_without_news() -> None:
    watch, asked_at = LongBatches(), []

    def look(newest: int, at_ms: int, *, is_in: bool = True, run: str = "r1") -> None:
        watch.look([BatchState("f1-0", run, newest, lambda: asked_at.append(at_ms) or is_in)], now_ms=at_ms)

    look(4, 5_000)
    assert not asked_at and watch.for_ms("f1-0", now_ms=6_000) is None
    look(5, 10_000)
    assert not asked_at, "a batch ended since: nothing to ask"
    look(5, 15_000)
    assert watch.for_ms("f1-0", now_ms=17_000) == 7_000
    look(5, 20_000)
    assert watch.for_ms("f1-0", now_ms=20_000) == 10_000
    look(6, 25_000)
    assert watch.for_ms("f1-0", now_ms=25_000) is None
    look(6, 30_000, is_in=False)
    assert watch.for_ms("f1-0", now_ms=30_000) is None, "it waits for events"
    look(6, 35_000, run="r2")
    assert watch.for_ms("f1-0", now_ms=35_000) is None, "another run"
    watch.look([], now_ms=40_000)
    assert watch.for_ms("f1-0", now_ms=40_000) is None


@pytest.mark.parametrize("silent_ms", [2_000, 8_000, 60_000])
def test_while_a_driver_is_silent_no_batch_of_it_grows_long(silent_ms: int) -> None:
    watch = LongBatches()

    def look(at_ms: int) -> None:
        watch.look([
            BatchState("f1-0", "r1", 5, lambda: True),
            BatchState("f1-1", "r2", -1, lambda: True, lambda: silent_ms)], now_ms=at_ms)

    look(5_000)
    back_ms = 10_000 + silent_ms
    assert watch.for_ms("f1-0", now_ms=back_ms) is None
    look(back_ms)
    assert watch.for_ms("f1-0", now_ms=back_ms) == 5_000 and watch.for_ms("f1-1", now_ms=back_ms) is None
    assert watch.for_ms("f1-0", now_ms=back_ms + 60_000) == 10_000, "it is silent again"
    look(back_ms + 5_000)
    assert watch.for_ms("f1-0", now_ms=back_ms + 5_000) == 10_000, "it hangs, as is known a look later"


def test_an_open_batch_is_long_from_when_it_last_moved() -> None:
    watch = LongBatches()

    def look(still_ms: int, at_ms: int) -> None:
        watch.look([BatchState("f1-0", "r1", -1, lambda: True, lambda: still_ms)], now_ms=at_ms)

    for at_ms in (5_000, 10_000, 100_000):
        look(900, at_ms)
        assert watch.for_ms("f1-0", now_ms=at_ms) is None, "it has been open for long, and moves"
    look(6_000, 105_000)
    assert watch.for_ms("f1-0", now_ms=106_000) == 7_000
    look(11_000, 110_000)
    assert watch.for_ms("f1-0", now_ms=110_000) == 11_000
    look(10, 115_000)
    assert watch.for_ms("f1-0", now_ms=115_000) is None
