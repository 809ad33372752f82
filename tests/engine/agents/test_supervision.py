"""How long a slot may say nothing before it is ended and started again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.launcher.waiting import wait_until
from workers.engine.agents.supervising.supervision import MOST_PATIENT, SILENT_MS, STARTING_MS, SlotGone, SlotProcess

# Says what state it is in, where it is told to, and then nothing.
SLOT = (
    "import json, sys, time\nfor said in sys.argv[1:]: print(json.dumps({'state': said}), flush=True)\ntime.sleep(600)")


@pytest.fixture
def slot_of() -> Iterator[Any]:
    """Makes slots that have said so much."""
    made: list[SlotProcess] = []

    def make(*arguments: str) -> SlotProcess:
        made.append(SlotProcess(
            "0", [sys.executable, "-c", SLOT, *arguments], env={}, on_news=lambda: None, on_event=lambda **_: None))
        made[-1].check(1_000)
        return made[-1]

    yield make
    for process in made:
        process.end(deadline=0)


def test_a_driver_that_starts_slowly_is_waited_for_and_longer_each_time(slot_of):
    slot, at_ms = slot_of(), 1_000
    for patience in (*range(1, MOST_PATIENT + 1), MOST_PATIENT):
        assert not slot.check(at_ms + patience * STARTING_MS - 1) and slot.state == "starting"
        at_ms += patience * STARTING_MS
        assert slot.check(at_ms), "it hangs"
        at_ms += 60_000
        assert not slot.check(at_ms) and slot.pid, "it starts again"


def test_a_slot_that_is_buried_while_it_is_told_something_does_not_hear_it(tmp_path):
    class Buried(SlotProcess):
        """There for who looks first, and gone for who looks again."""

        looks = iter([SimpleNamespace(stdin=(tmp_path / "said").open("wb"))])
        _process = property(lambda self: next(self.looks, None), lambda self, value: None)

    Buried("0", [], env={}, on_news=lambda: None, on_event=lambda **_: None).poke()
    assert (tmp_path / "said").read_bytes() == b"poke\n"


def test_what_one_process_is_asked_another_that_took_its_place_does_not_hear(tmp_path):
    """Else a trial of a slot that has died would begin in the next one, where nobody knows of it."""
    with (tmp_path / "said").open("wb") as log:
        slot = SlotProcess("0", [], env={}, on_news=lambda: None, on_event=lambda **_: None)
        slot._process = SimpleNamespace(pid=8, stdin=log)
        with pytest.raises(SlotGone, match="died"):
            slot.ask("begin", pid=7, within_s=0.2)
        with pytest.raises(SlotGone, match="did not answer"):
            slot.ask("weigh", pid=8, within_s=0.2)
    [heard] = (tmp_path / "said").read_text().splitlines()
    assert '"weigh"' in heard


def test_a_driver_that_falls_silent_is_ended_soon(slot_of):
    slot = slot_of("starting", "running")
    wait_until(lambda: slot.state == "running")
    heard_ms = slot._heard_at_ms
    assert not slot.check(heard_ms + SILENT_MS - 1)
    assert slot.check(heard_ms + SILENT_MS) and slot.restarts == 1


@pytest.mark.parametrize(("status", "waits"), [(0, False), (1, True)])
def test_one_that_drained_and_ended_starts_anew_at_once_and_one_that_failed_waits(status: int, waits: bool):
    slot = SlotProcess(
        "0", [sys.executable, "-c", f"raise SystemExit({status})"], env={}, on_news=lambda: None,
        on_event=lambda **_: None)
    for number in range(4):
        assert not slot.check(1_000), "it starts"
        is_waiting = slot.pid is None
        assert is_waiting == (waits and number >= 2), "the first failure is forgiven"
        if is_waiting:
            break
        wait_until(lambda: slot.check(1_000))
    assert slot.restarts == (2 if waits else 4)
    slot.end(deadline=0)
