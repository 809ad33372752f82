"""Queries whose batches stay open: slots are killed, modes change, and every event still comes exactly once."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from scheduler.model.fragment import Fragment, RunningTask

from .rig import NODE, Rig, estate_of

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.usefixtures("afterwards_nothing")]

BY = 1_000_000
QUERIES = ("live1-0", "live1-1", "live1-2", "live1-3")
OUT = "live1-3.0"


@pytest.fixture
def flow(rig: Rig):
    """A source, two tasks of which one is Python, and an output, each a query of its own."""
    tasks = [
        RunningTask("live-count", "numbers", {"rate_per_s": 100.0}, ()),
        RunningTask("live-shift", "shift", {"by": BY}, ("live-count",)),
        RunningTask("live-python", "in_python", {"tag": "live"}, ("live-shift",)),
        RunningTask("live-out", "kept", {"keep_events": 100_000}, ("live-python",))]
    slots = (f"{NODE}/0", f"{NODE}/1", f"{NODE}/1", f"{NODE}/0")
    fragments = [
        Fragment(query, (task.id,), slot, 1, {task.id: (reader,)} if reader else {})
        for query, task, slot, reader in zip(QUERIES, tasks, slots, (*QUERIES[1:], None), strict=True)]
    yield estate_of(fragments, tasks, slots=rig.slots)
    rig.real_time = frozenset()


def numbers(rig: Rig) -> list[int]:
    return [event["_seq"] for event in rig.events(OUT)]


def grows(rig: Rig, by: int = 100) -> None:
    count = len(numbers(rig))
    rig.wait(lambda: len(numbers(rig)) > count + by, what="events arrive")


def wants(rig: Rig, flow, *queries: str) -> None:
    rig.real_time = frozenset(queries)
    rig.publish(flow)


def are_open(rig: Rig) -> set[str]:
    return {query for query in QUERIES if (report := rig.fragment(query)) and report["state"] == "running"
            and report["real_time"]}


def test_slots_are_killed_and_modes_change_and_no_event_is_lost_or_comes_twice(rig: Rig, flow) -> None:
    chance = random.Random(3)
    able = {QUERIES[0], QUERIES[1], QUERIES[3]}
    wants(rig, flow, *QUERIES)
    rig.wait_running(*QUERIES)
    rig.wait(lambda: are_open(rig) == able, what="all but Python in real time")
    assert "Python" in rig.fragment(QUERIES[2])["not_real_time"]
    assert rig.fragment(QUERIES[1])["not_real_time"] == ""
    grows(rig)
    for slot in ("1", "0", "1"):
        time.sleep(chance.random())
        pid = rig.slot_pid(slot)
        os.kill(pid, signal.SIGKILL)
        rig.wait(lambda: rig.slot_pid(slot) not in (None, pid), what="another driver")  # noqa: B023
        grows(rig)
    for queries in ((QUERIES[0],), (QUERIES[1], QUERIES[3]), QUERIES):
        wants(rig, flow, *queries)
        rig.wait(lambda: are_open(rig) == able.intersection(queries), what=f"{queries} in real time")  # noqa: B023
        grows(rig)
    rig.wait(lambda: all((rig.fragment(query) or {}).get("error") is None for query in QUERIES), what="no error")
    received = numbers(rig)
    assert received == list(range(received[0], received[0] + len(received))), "each event once, in order"
    assert received[0] == 0
