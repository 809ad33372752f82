"""A chain moves between two nodes, a query at a time or all together, with state and its source, while slots,
agents and the broker are killed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest

from scheduler.contracts.desired import made_in
from scheduler.model.fragment import Fragment, node_of
from scheduler.reuse.handover import moved_in

from .conftest import NODES
from .rig import Hosts, Rig, estate_of
from .test_moves import TASKS

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("nodes")]

KINDS = ("slot", "agent", "wire", "broker")  # of disturbances


class Moving:
    """A source, a chain with two sums, and somebody else who reads the first of them; each part moves by itself."""

    tasks, outputs = TASKS, frozenset({"out", "looked"})

    def __init__(self, hosts: Hosts, seed: int) -> None:
        self.hosts, self.chance = hosts, random.Random(seed)
        self.fragments = {fragment.id: fragment for fragment in self.begin(f"f{hosts.version + 1}-")}

    def begin(self, name: str) -> tuple[Fragment, ...]:
        """The queries as they are before anything moves; their names begin with that."""
        self.out, self.looked = f"{name}1.2", f"{name}2.1"
        return (
            Fragment(f"{name}0", ("count", "t1"), "n1/0", 2, {"t1": (f"{name}1", f"{name}2")}),
            Fragment(f"{name}1", ("shift", "t2", "out"), "n2/0", 3),
            Fragment(f"{name}2", ("look", "looked"), "n2/0", 2))

    def publish(self) -> None:
        self.hosts.publish(estate_of(list(self.fragments.values()), self.tasks, slots=self.hosts.slots))

    def move(self, task: str = "") -> str:
        """One query goes to the other node; its new name."""
        name = next((name for name, part in self.fragments.items() if task in part.tasks), None) or self.chance.choice(
            sorted(self.fragments))
        return self._go([name])[0]

    def move_together(self, *tasks: str) -> list[str]:
        """The queries with these tasks go to the other node by one plan; their new names."""
        return self._go([
            next(name for name, part in self.fragments.items() if task in part.tasks) for task in tasks])

    def take_back(self, *names: str) -> list[str]:
        """Queries that are on their way go back to where they were."""
        return self._go(names, was={name: self.fragments[name].inherits for name in names})

    def _go(self, names: Sequence[str], was: Mapping[str, tuple[str, ...]] | None = None) -> list[str]:
        estate = estate_of(list(self.fragments.values()), self.tasks, slots=self.hosts.slots)
        other = {
            name: next(slot.name for slot in self.hosts.slots if slot.name != self.fragments[name].slot)
            for name in names}
        change = moved_in(replace(estate, generation=self.hosts.version), other, outputs=self.outputs)
        for before in change.before:
            del self.fragments[before]
        self.fragments |= change.after
        heirs = [step.fragment for step in change.steps]
        for name, heir in zip(names, heirs, strict=True):
            self.fragments[heir] = replace(
                change.after[heir], inherits=(*(was or {}).get(name, ()), *change.after[heir].inherits))
        self.publish()
        return heirs

    def is_over(self, *names: str) -> None:
        """Wait until queries run where they went, and the nodes that they left have nothing more to do for them."""
        for name in names:
            self._is_over(name)

    def _is_over(self, name: str) -> None:
        moved = self.fragments[name]

        def has_settled() -> bool:
            report = self.hosts.reports().node(moved.origin)
            return report is not None and report.version >= made_in(name) and not (
                set(report.handing_over) & set(moved.inherits))

        self.hosts.wait_running(name)
        self.hosts.wait(has_settled, what="the other node is done")
        self.fragments[name] = replace(moved, origin="")

    def grows(self, by: int = 10) -> None:
        count = len(self.hosts.events(self.out))
        self.hosts.wait(lambda: len(self.hosts.events(self.out)) > count + by, what="more events")


def play(hosts: Hosts, seed: int, *, moves: int, kills: int, back: str = "out") -> None:
    """Random moves, then one of the query with a task that goes ``back`` before it is over."""
    moving = Moving(hosts, seed)
    moving.publish()
    hosts.wait_running(*moving.fragments)
    moving.grows(50)
    deadly = set(moving.chance.sample(range(moves), kills))
    for number in range(moves):
        name = moving.move(("count", "out", "looked")[number % 3])
        if number in deadly:
            after_s, node = moving.chance.uniform(0, 3), hosts.nodes[moving.chance.choice(NODES)]
            time.sleep(after_s)
            disturb(hosts, node.node, moving.chance.choice(KINDS), moving.chance)
        moving.is_over(name)
        moving.grows()
    moving.is_over(*moving.take_back(moving.move(back)))
    moving.grows()
    time.sleep(1)
    check(moving)
    hosts.end()


def disturb(hosts: Hosts, name: str, what: str, chance: random.Random) -> None:
    """Kill a node's slot, or its agent with all that it has started, or cut it off from the broker for a while; or kill
    the broker, which comes back on what it had."""
    node = hosts.nodes[name]
    match what:
        case "slot":
            pid = (node.report()["slots"].get("0") or {}).get("pid")
            if pid:
                os.kill(pid, signal.SIGKILL)
        case "agent":
            node.kill()
            node.start()
        case "wire":
            node.wire.cut()
            time.sleep(chance.uniform(1, 8))
            node.wire.mend()
        case "broker":
            hosts.own_broker.kill()
            time.sleep(chance.uniform(0, 5))
            hosts.own_broker.start()


def check(moving: Moving) -> None:
    """Every number once and in order, with the sums up to it: what the chain gives that nobody touches."""
    total = shifted = 0.0
    events = moving.hosts.events(moving.out)
    assert [event["_seq"] for event in events] == list(range(len(events)))
    for event in events:
        total += event["_seq"]
        shifted += event["_seq"] + 7
        assert (float(event["t1"]), event["t2"]) == (total, shifted)
    looked = [event["_seq"] for event in moving.hosts.events(moving.looked)]
    assert looked == list(range(looked[0], looked[0] + len(looked))), "and nobody who reads notices"
    assert {node_of(part.slot) for part in moving.fragments.values()} <= set(NODES)


@pytest.mark.long  # test_copied_histories.py moves a source and a reader, and loses nodes
@pytest.mark.timeout(1_500)
def test_source_state_and_reader_move_between_nodes_and_change_no_output(hosts: Hosts) -> None:
    play(hosts, 1, moves=2, kills=1, back="looked")


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_queries_that_go_together_change_no_output(hosts: Hosts) -> None:
    moving = Moving(hosts, 4)
    moving.publish()
    hosts.wait_running(*moving.fragments)
    moving.grows(50)
    moving.is_over(moving.move("count"))  # all are on one node by now
    for number, what in enumerate(("", *KINDS)):
        names = moving.move_together("count", "out", "looked")
        if what:
            time.sleep(moving.chance.uniform(0, 3))
            disturb(hosts, NODES[number % 2], what, moving.chance)
        moving.is_over(*names)
        moving.grows()
    moving.is_over(*moving.take_back(*moving.move_together("count", "looked")))
    moving.grows()
    time.sleep(1)
    check(moving)
    hosts.end()


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seed", [2, 3])
def test_many_moves_between_nodes_and_kills_change_no_output(hosts: Hosts, seed: int) -> None:
    play(hosts, seed, moves=30, kills=12)


@pytest.mark.long
@pytest.mark.timeout(1_500)
def test_a_node_that_lost_power_starts_its_slots_from_its_disk_while_the_broker_is_away(hosts: Hosts) -> None:
    moving = Moving(hosts, 5)
    moving.publish()
    hosts.wait_running(*moving.fragments)
    moving.grows(50)
    moving.is_over(moving.move("out"))  # so that there is state that came from the other node
    for name in NODES:
        hosts.own_broker.kill()
        node = hosts.nodes[name]
        node.kill()
        node.start()
        hosts.wait(lambda node=node: has_driver(node), what="a driver")
        hosts.own_broker.start()
        moving.grows()
    time.sleep(1)
    check(moving)
    hosts.end()


def has_driver(node: Rig) -> bool:
    names = set()
    for process in node.tree():
        with suppress(psutil.NoSuchProcess):
            names.add(process.name())
    return "java" in names
