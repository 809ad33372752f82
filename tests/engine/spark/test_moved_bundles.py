"""What a schedule divides moves, on its node and between nodes, and so do the queries beside it, while slots, agents
and the broker are killed: outputs as of an undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from scheduler.contracts.desired import made_in
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask
from scheduler.reuse.handover import moved_in

from .conftest import NODES
from .rig import Hosts, Rig, estate_of
from .test_moves_between_nodes import KINDS, disturb

pytestmark = [pytest.mark.spark, pytest.mark.broker]

BY = 7
KEPT = {"keep_events": 1_000_000}
TASKS = [
    RunningTask("count", "numbers", {"rate_per_s": 50.0}, ()),
    RunningTask("t1", "total", {"name": "t1"}, ("count",)),
    RunningTask("shift", "shift", {"by": BY}, ("t1",)),
    RunningTask("out", "kept", KEPT, ("shift",)),
    RunningTask("look", "in_python", {"tag": "look"}, ("t1",)),
    RunningTask("looked", "kept", KEPT, ("look",)),
]


class Moving:
    """A source, a sum as one bundle, a task of two bundles, an output of that, and somebody else who reads the sum."""

    def __init__(self, rig: Rig | Hosts, seed: int) -> None:
        self.rig, self.chance = rig, random.Random(seed)
        one, other = (slot.name for slot in rig.slots)
        source, total, shift, out, look, more = (f"f{rig.version + 1}-{number}" for number in range(6))
        self.fragments = {
            source: Fragment(source, ("count",), one, 1, {"count": (total,)}),
            total: Fragment(total, ("t1",), one, 1, {"t1": (shift, look)}, bundles=(RunningBundle(total, one),)),
            shift: Fragment(shift, ("shift",), one, 1, {"shift": (out,)}, bundles=(
                RunningBundle(shift, one, 1, 0.4), RunningBundle(more, other, 2, 0.6))),
            out: Fragment(out, ("out",), other, 1),
            look: Fragment(look, ("look", "looked"), other, 2),
        }
        self.out, self.looked = f"{out}.0", f"{look}.1"
        self.publish()
        self.rig.wait_running(*self.queries())
        self.grows(50)

    def publish(self) -> None:
        self.rig.publish(estate_of(list(self.fragments.values()), TASKS, slots=self.rig.slots))

    def queries(self) -> Mapping[str, tuple[Fragment, RunningBundle]]:
        return {bundle.id: (fragment, bundle) for fragment in self.fragments.values() for bundle in fragment.queries}

    def move(self, *tasks: str) -> None:
        """For each of these tasks one of its queries goes to the other slot."""
        queries = self.queries()
        names = [
            self.chance.choice(sorted(name for name, (fragment, _) in queries.items() if task in fragment.tasks))
            for task in tasks]
        other = {
            name: next(slot.name for slot in self.rig.slots if slot.name != queries[name][1].slot) for name in names}
        estate = estate_of(list(self.fragments.values()), TASKS, slots=self.rig.slots)
        change = moved_in(
            replace(estate, generation=self.rig.version), other, outputs={"out", "looked"},
            homes={name: queries[name][0] for name in names})
        for before in change.before:
            del self.fragments[before]
        self.fragments |= change.after
        self.publish()

    def is_over(self) -> None:
        """Wait until all runs where it should, and nothing is left to do for what it went on with."""
        queries = self.queries()
        self.rig.wait_running(*queries)
        self.rig.wait(lambda: all(self._has_settled(*query) for query in queries.values()), what="all are over")

    def _has_settled(self, fragment: Fragment, bundle: RunningBundle) -> bool:
        inherits, origin = fragment.inherited_by(bundle)
        reports = self.rig.reports()
        if any(name in inherits for name, _ in reports.queries()):
            return False
        report = reports.node(origin) if origin else None
        return not origin or (
            report is not None and report.version >= made_in(bundle.id)
            and not set(report.handing_over) & set(inherits))

    def grows(self, by: int = 20) -> None:
        count = len(self.rig.events(self.out))
        self.rig.wait(lambda: len(self.rig.events(self.out)) > count + by, what="more events")

    def check(self) -> None:
        """Each number once with the sum up to it, and what was made of it; who reads the sum has them in order."""
        reached = max(event["_seq"] for event in self.rig.events(self.out))
        self.rig.wait(
            lambda: {event["_seq"] for event in self.rig.events(self.out)} >= set(range(reached)), what="every number")
        events = [event for event in self.rig.events(self.out) if event["_seq"] < reached]
        made = sorted((event["_seq"], float(event["t1"]), event["n"]) for event in events)
        assert made == [(number, number * (number + 1) / 2, number + BY) for number in range(reached)]
        looked = [event["_seq"] for event in self.rig.events(self.looked)]
        assert looked == list(range(looked[0], looked[0] + len(looked))), "and nobody who reads notices"


def kill(rig: Rig, slot: str) -> None:
    """Kill a slot, and wait until it is back."""
    pid = rig.slot_pid(slot)
    os.kill(pid, signal.SIGKILL)
    rig.wait(lambda: rig.slot_pid(slot) not in (None, pid), what="the slot is back")


ROUND = (("shift",), ("count",), ("t1",), ("out", "shift"), ("look", "t1"), ("shift", "shift", "count"))


@pytest.mark.long  # tests/engine/agents plays it; test_moves.py and test_keyed_bundles.py have moves and parts
def test_a_bundle_and_its_neighbours_move_and_change_no_output(rig: Rig, afterwards_nothing: None) -> None:
    moving = Moving(rig, 1)
    for tasks in (("shift",), ("t1", "out")):
        moving.move(*tasks)
        moving.is_over()
        moving.grows()
    moving.check()


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_many_moves_on_a_node_and_kills_change_no_output(rig: Rig, afterwards_nothing: None) -> None:
    moving = Moving(rig, 2)
    deadly = set(moving.chance.sample(range(20), 8))
    for number in range(20):
        moving.move(*ROUND[number % len(ROUND)])
        if number in deadly:
            time.sleep(moving.chance.uniform(0, 3))
            kill(rig, moving.chance.choice("01"))
        moving.is_over()
        moving.grows()
    moving.check()


@pytest.mark.long
@pytest.mark.timeout(5_400)
@pytest.mark.xdist_group("nodes")
def test_many_moves_between_nodes_and_kills_change_no_output(hosts: Hosts) -> None:
    moving = Moving(hosts, 3)
    deadly = set(moving.chance.sample(range(20), 8))
    for number in range(20):
        moving.move(*ROUND[number % len(ROUND)])
        if number in deadly:
            time.sleep(moving.chance.uniform(0, 3))
            disturb(hosts, moving.chance.choice(NODES), moving.chance.choice(KINDS), moving.chance)
        moving.is_over()
        moving.grows()
    moving.check()
    hosts.end()
