"""Queries that end the driver which they share, or do not let go of it: found, told, and the others run on whole."""

from __future__ import annotations

import pytest

from .rig import Rig, estate_of
from .test_slot import afterwards_nothing, fragment, numbers, source

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("slots that die")]
__all__ = ["afterwards_nothing"]


def slot_of(rig: Rig) -> dict:
    return rig.report()["slots"]["0"]


def goes_on_whole(rig: Rig, channel: str) -> None:
    """Numbers come on, each once and none left out. A channel without readers keeps the newest: counts say nothing."""
    before = max(numbers(rig, channel), default=-1)
    rig.wait(lambda: max(numbers(rig, channel), default=-1) > before, what="events go on")
    seen = numbers(rig, channel)
    assert seen == list(range(seen[0], seen[0] + len(seen)))


def test_a_query_that_ends_its_driver_is_given_up_and_the_others_run_on(rig: Rig):
    # Seconds after its first batch, while the other one mostly waits for its next: then a death is its own.
    other, harmful = source("blame-a"), source("blame-b", ("ends_its_driver", {"at": 200}))
    rig.paces_ms = {"blame-f1": 10_000}
    died_before = slot_of(rig)["restarts"]
    beside = fragment("blame-f1", other)
    rig.publish(estate_of([beside, fragment("blame-f2", harmful)], [*other, *harmful]))
    rig.wait(lambda: (rig.fragment("blame-f2") or {}).get("gave_up"), what="it is given up")
    report = rig.fragment("blame-f2")
    assert report["state"] == "backoff" and "ended its slot's driver" in report["error"]
    assert report["failed_tasks"] == [task.id for task in harmful]
    died = slot_of(rig)["restarts"] - died_before
    # Two are its own; one in which both had a batch under way is nobody's (test_blame.py has the exact counts).
    assert 2 <= died <= 5, "it is found after a few deaths"
    goes_on_whole(rig, "blame-f1.1")
    assert slot_of(rig)["restarts"] == died_before + died
    rig.paces_ms = {}
    rig.publish(estate_of([beside], other))
    rig.wait(lambda: rig.fragment("blame-f2") is None, what="it can be removed")


def test_a_driver_in_which_a_removed_query_works_on_is_ended(rig: Rig):
    # Its first batch ends: of one that does not nothing is told.
    other, harmful = source("left-a"), source("left-b", ("stays_in_an_event", {"at": 400}))
    beside = fragment("left-f1", other)
    rig.publish(estate_of([beside, fragment("left-f2", harmful)], [*other, *harmful]))
    rig.wait(lambda: len(numbers(rig, "left-f1.1")) > 50 and rig.fragment("left-f2")["state"] == "running")
    rig.wait(lambda: (rig.fragment("left-f2")["batch_for_ms"] or 0) > 0, what="its batch does not end")
    died_before = slot_of(rig)["restarts"]
    rig.publish(estate_of([beside], other))
    rig.wait(lambda: slot_of(rig)["restarts"] > died_before, what="its driver is ended")
    assert "still worked in it" in slot_of(rig)["error"]
    goes_on_whole(rig, "left-f1.1")
    assert rig.fragment("left-f2") is None
