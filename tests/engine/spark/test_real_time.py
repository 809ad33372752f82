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


@pytest.mark.parametrize(("killed", "modes"), [
    (("0",), ((QUERIES[1], QUERIES[3]), QUERIES)),
    pytest.param(("1", "0", "1"), ((QUERIES[0],), (QUERIES[1], QUERIES[3]), QUERIES), marks=pytest.mark.long),
], ids=["once", "again and again"])
def test_slots_are_killed_and_modes_change_and_no_event_is_lost_or_comes_twice(
    rig: Rig, flow, killed: tuple[str, ...], modes: tuple[tuple[str, ...], ...]
) -> None:
    chance = random.Random(3)
    able = {QUERIES[0], QUERIES[1], QUERIES[3]}
    wants(rig, flow, *QUERIES)
    rig.wait_running(*QUERIES)
    rig.wait(lambda: are_open(rig) == able, what="all but Python in real time")
    assert "Python" in rig.fragment(QUERIES[2])["not_real_time"]
    assert rig.fragment(QUERIES[1])["not_real_time"] == ""
    grows(rig)
    for slot in killed:
        time.sleep(chance.random())
        pid = rig.slot_pid(slot)
        os.kill(pid, signal.SIGKILL)
        rig.wait(lambda: rig.slot_pid(slot) not in (None, pid), what="another driver")  # noqa: B023
        grows(rig)
    for queries in modes:
        wants(rig, flow, *queries)
        rig.wait(lambda: are_open(rig) == able.intersection(queries), what=f"{queries} in real time")  # noqa: B023
        grows(rig)
    rig.wait(lambda: all((rig.fragment(query) or {}).get("error") is None for query in QUERIES), what="no error")
    received = numbers(rig)
    assert received == list(range(received[0], received[0] + len(received))), "each event once, in order"
    assert received[0] == 0


@pytest.mark.long  # the test above kills a slot, test_handover.py fuses and cuts
def test_queries_with_open_batches_are_fused_and_cut_while_a_slot_dies(rig: Rig) -> None:
    tasks = [
        RunningTask("cut-count", "numbers", {"rate_per_s": 100.0}, ()),
        RunningTask("cut-shift", "shift", {"by": BY}, ("cut-count",)),
        RunningTask("cut-out", "kept", {"keep_events": 100_000}, ("cut-shift",))]
    out = "cut1-1.1"

    def fragment(name: str, *positions: int, slot: int = 0, outlets=None, **more) -> Fragment:
        names = tuple(tasks[position].id for position in positions)
        return Fragment(name, names, f"{NODE}/{slot}", len(names), outlets or {}, **more)

    def publish(*fragments: Fragment) -> None:
        rig.real_time = frozenset(made.id for made in fragments)
        rig.publish(estate_of(list(fragments), tasks, slots=rig.slots))

    def events() -> list[int]:
        return [event["_seq"] for event in rig.events(out)]

    def more() -> None:
        count = len(events())
        rig.wait(lambda: len(events()) > count + 100, what="events arrive")

    publish(fragment("cut1-0", 0, outlets={"cut-count": ("cut1-1",)}), fragment("cut1-1", 1, 2, slot=1))
    rig.wait_running("cut1-0", "cut1-1")
    more()
    publish(fragment("cut2-0", 0, 1, 2, inherits=("cut1-0", "cut1-1"), channels={"cut-out": out}))
    rig.wait_running("cut2-0")
    more()
    publish(
        fragment("cut3-0", 0, 1, inherits=("cut2-0",), outlets={"cut-shift": ("cut3-1",)}),
        fragment("cut3-1", 2, slot=1, inherits=("cut2-0",), channels={"cut-out": out}))
    time.sleep(1)
    os.kill(rig.slot_pid("1"), signal.SIGKILL)
    rig.wait_running("cut3-0", "cut3-1")
    more()
    assert all(rig.fragment(query)["real_time"] for query in ("cut3-0", "cut3-1"))
    received = events()
    assert received == list(range(len(received))), "each event once, in order"
    rig.real_time = frozenset()
