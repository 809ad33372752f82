"""Queries whose batches stay open: slots are killed, modes change, and every event still comes exactly once."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask

from .rig import NODE, Rig, estate_of

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.usefixtures("afterwards_nothing")]

BY = 1_000_000
ONCE, AGAIN = (tuple(f"{name}-{number}" for number in range(4)) for name in ("live1", "live2"))  # never used twice


def flow_of(rig: Rig, queries: tuple[str, ...]) -> Estate:
    """A source, two tasks of which one is Python, and an output, each a query of its own."""
    name = queries[0].partition("-")[0]
    tasks = [
        RunningTask(f"{name}-count", "numbers", {"rate_per_s": 100.0}, ()),
        RunningTask(f"{name}-shift", "shift", {"by": BY}, (f"{name}-count",)),
        RunningTask(f"{name}-python", "in_python", {"tag": "live"}, (f"{name}-shift",)),
        RunningTask(f"{name}-out", "kept", {"keep_events": 100_000}, (f"{name}-python",))]
    slots = (f"{NODE}/0", f"{NODE}/1", f"{NODE}/1", f"{NODE}/0")
    fragments = [
        Fragment(query, (task.id,), slot, 1, {task.id: (reader,)} if reader else {})
        for query, task, slot, reader in zip(queries, tasks, slots, (*queries[1:], None), strict=True)]
    return estate_of(fragments, tasks, slots=rig.slots)


def numbers(rig: Rig, out: str) -> list[int]:
    return [event["_seq"] for event in rig.events(out)]


def grows(rig: Rig, out: str, by: int = 100) -> None:
    count = len(numbers(rig, out))
    rig.wait(lambda: len(numbers(rig, out)) > count + by, what="events arrive")


def wants(rig: Rig, flow: Estate, *queries: str) -> None:
    rig.real_time = frozenset(queries)
    rig.publish(flow)


def are_open(rig: Rig, queries: tuple[str, ...]) -> set[str]:
    return {query for query in queries if (report := rig.fragment(query)) and report["state"] == "running"
            and report["real_time"]}


@pytest.mark.parametrize(("queries", "killed", "modes"), [
    (ONCE, ("0",), ((1, 3), (0, 1, 2, 3))),
    pytest.param(AGAIN, ("1", "0", "1"), ((0,), (1, 3), (0, 1, 2, 3)), marks=pytest.mark.long),
], ids=["once", "again and again"])
def test_slots_are_killed_and_modes_change_and_no_event_is_lost_or_comes_twice(
    rig: Rig, queries: tuple[str, ...], killed: tuple[str, ...], modes: tuple[tuple[int, ...], ...]
) -> None:
    flow, chance, out = flow_of(rig, queries), random.Random(3), f"{queries[3]}.0"
    able = {queries[0], queries[1], queries[3]}
    wants(rig, flow, *queries)
    rig.wait_running(*queries)
    rig.wait(lambda: are_open(rig, queries) == able, what="all but Python in real time")
    assert "Python" in rig.fragment(queries[2])["not_real_time"]
    assert rig.fragment(queries[1])["not_real_time"] == ""
    grows(rig, out)
    for slot in killed:
        time.sleep(chance.random())
        pid = rig.slot_pid(slot)
        os.kill(pid, signal.SIGKILL)
        rig.wait(lambda: rig.slot_pid(slot) not in (None, pid), what="another driver")  # noqa: B023
        grows(rig, out)
    for positions in modes:
        opened = [queries[position] for position in positions]
        wants(rig, flow, *opened)
        rig.wait(lambda: are_open(rig, queries) == able.intersection(opened), what=f"{opened} in real time")  # noqa: B023
        grows(rig, out)
    rig.wait(lambda: all((rig.fragment(query) or {}).get("error") is None for query in queries), what="no error")
    received = numbers(rig, out)
    assert received == list(range(received[0], received[0] + len(received))), "each event once, in order"
    assert received[0] == 0
    rig.real_time = frozenset()


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
