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
    """A source, two tasks, one in Python, and an output, each a query of its own but for the two: one has a fold, which
    would leave an event out that came to it twice."""
    name = queries[0].partition("-")[0]
    tasks = [
        RunningTask(f"{name}-count", "numbers", {"rate_per_s": 100.0}, ()),
        RunningTask(f"{name}-shift", "shift", {"by": BY}, (f"{name}-count",)),
        RunningTask(f"{name}-once", "deduplicate", {"by": ["n"], "within": 3600.0}, (f"{name}-shift",)),
        RunningTask(f"{name}-python", "in_python", {"tag": "live"}, (f"{name}-once",)),
        RunningTask(f"{name}-out", "kept", {"keep_events": 100_000}, (f"{name}-python",))]
    slots = (f"{NODE}/0", f"{NODE}/1", f"{NODE}/1", f"{NODE}/0")
    chains = ([tasks[0]], tasks[1:3], [tasks[3]], [tasks[4]])
    fragments = [
        Fragment(query, tuple(task.id for task in chain), slot, len(chain), {chain[-1].id: (reader,)} if reader else {})
        for query, chain, slot, reader in zip(queries, chains, slots, (*queries[1:], None), strict=True)]
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
    """The numbers are counted in windows of a quarter of a second by a fold, which is handed over with its state."""
    windows = {"size": 0.25, "aggregates": ["first=min(n)", "last=max(n)", "count=count(*)"]}
    tasks = [
        RunningTask("cut-count", "numbers", {"rate_per_s": 100.0}, ()),
        RunningTask("cut-windows", "window", windows, ("cut-count",)),
        RunningTask("cut-out", "kept", {"keep_events": 100_000}, ("cut-windows",))]
    out = "cut1-1.1"

    def fragment(name: str, *positions: int, slot: int = 0, outlets=None, **more) -> Fragment:
        names = tuple(tasks[position].id for position in positions)
        return Fragment(name, names, f"{NODE}/{slot}", len(names), outlets or {}, **more)

    def publish(*fragments: Fragment) -> None:
        rig.real_time = frozenset(made.id for made in fragments)
        rig.publish(estate_of(list(fragments), tasks, slots=rig.slots))

    def more() -> None:
        count = len(rig.events(out))
        rig.wait(lambda: len(rig.events(out)) > count + 4, what="windows end")

    publish(fragment("cut1-0", 0, outlets={"cut-count": ("cut1-1",)}), fragment("cut1-1", 1, 2, slot=1))
    rig.wait_running("cut1-0", "cut1-1")
    more()
    publish(fragment("cut2-0", 0, 1, 2, inherits=("cut1-0", "cut1-1"), channels={"cut-out": out}))
    rig.wait_running("cut2-0")
    more()
    publish(
        fragment("cut3-0", 0, 1, inherits=("cut2-0",), outlets={"cut-windows": ("cut3-1",)}),
        fragment("cut3-1", 2, slot=1, inherits=("cut2-0",), channels={"cut-out": out}))
    time.sleep(1)
    os.kill(rig.slot_pid("1"), signal.SIGKILL)
    rig.wait_running("cut3-0", "cut3-1")
    more()
    assert all(rig.fragment(query)["real_time"] for query in ("cut3-0", "cut3-1"))
    assert not any((rig.data_dir / "checkpoints" / query / "state").exists() for query in ("cut3-0", "cut3-1"))
    counted = [(round(event["first"]), round(event["last"]), event["count"]) for event in rig.events(out)]
    assert [first for first, _, _ in counted] == [0, *(last + 1 for _, last, _ in counted[:-1])]
    assert all(count == last - first + 1 for first, last, count in counted), "each event once, in one window"
    rig.real_time = frozenset()
