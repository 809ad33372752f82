"""A machine is lost with all that is on it: its queries go on at the node that holds copies of their state."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler.key_division import whole_groups
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.reuse.division import WantedBundle
from scheduler.reuse.handover import moved_in
from workers.engine.channels import keys

from .conftest import NODES
from .keyed_flow import KeyedFlow
from .lost_machines import are_copied, copying_nodes, end_machine
from .rig import Hosts
from .test_moved_bundles import kill
from .test_moves_between_nodes import Moving, check

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("nodes")]

COPY_S = 1.0


class Copied(Moving):
    """A source and a chain with sums and state by key, on one node; somebody else reads the first sum on the other."""

    def begin(self, name: str) -> tuple[Fragment, ...]:
        self.out, self.looked = f"{name}1.3", f"{name}2.1"
        return (
            Fragment(f"{name}0", ("count", "t1"), "n1/0", 2, {"t1": (f"{name}1", f"{name}2")}),
            Fragment(f"{name}1", ("shift", "t2", "hoard", "out"), "n1/0", 4),
            Fragment(f"{name}2", ("look", "looked"), "n2/0", 2))

    def on(self, node: str) -> list[str]:
        """The queries on a node."""
        return [name for name, part in self.fragments.items() if node_of(part.slot) == node]

    def are_copied(self, node: str) -> None:
        """Wait until all queries of a node have a whole copy on the other one, newer than what is there now."""
        are_copied(self.hosts, self.on(node), [other_than(node)])

    def lose(self, node: str, *, with_disk: bool = True) -> list[str]:
        """The machine is gone, with its disk or without, and what ran there goes on elsewhere; the new names."""
        lose(self.hosts, node, with_disk=with_disk)
        began_s = time.monotonic()
        heirs = self._go(self.on(node))
        for name in heirs:
            self.hosts.wait_running(name)
            print(f"{name} works {time.monotonic() - began_s:.1f} s after the plan")
        return heirs

    def is_back(self, node: str) -> None:
        """A machine of that name comes, with what is on its disk."""
        self.hosts.nodes[node].start()
        self.hosts.wait_serving()


def other_than(node: str) -> str:
    return next(name for name in NODES if name != node)


def lose(hosts: Hosts, node: str, *, with_disk: bool = True) -> None:
    """The machine is gone, with its disk or without, and others may go on with what ran there."""
    end_machine(hosts.nodes[node], with_disk=with_disk)
    hosts.broker.hset(keys.LOST, node, 1)


class Spread(KeyedFlow):
    """A task that is divided by key, whose bundles come to be on two nodes, and whoever else reads the same."""

    def slot(self) -> str:
        return "n1/0"

    def rows(self, output: str) -> list:
        return self.rig.events(self.channels[output])

    @property
    def channels(self) -> dict[str, str]:
        """Where outputs are, whoever goes on with them."""
        return self.__dict__.setdefault("_channels", {output: f"{self.ids[output]}.0" for output in self.outputs})

    def on(self, node: str) -> dict[str, Fragment]:
        """The queries on a node, and the fragment of each."""
        return {bundle.id: fragment for fragment in self.fragments.values() for bundle in fragment.queries
                if node_of(bundle.slot) == node and not bundle.leaving}

    def bundles(self) -> tuple[RunningBundle, ...]:
        return self.fragments[self.ids["heavy"]].bundles

    def go(self, queries: dict[str, Fragment], node: str) -> None:
        """These go on in the slot of that node, by one plan."""
        self.channels  # noqa: B018  as they are before
        slots = dict.fromkeys(queries, f"{node}/0")
        change = moved_in(self.estate(), slots, outputs=set(self.outputs), homes=queries)
        for name in change.before.keys() - change.after.keys():
            heir = next(after for after in change.after.values() if name in after.inherits)
            self.ids = {task: heir.id if bundle == name else bundle for task, bundle in self.ids.items()}
            del self.fragments[name]
        self.fragments |= change.after
        self.publish()
        self.rig.wait_running(*(bundle.id for fragment in change.after.values() for bundle in fragment.queries))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, test_types, with_jar) -> Iterator[Hosts]:
    """Two agents with a slot and a data folder each, which hold copies for one another."""
    with copying_nodes(tmp_path_factory, test_types, with_jar, NODES, copy_s=COPY_S) as hosts:
        yield hosts


@pytest.fixture
def nodes(both: Hosts) -> Hosts:
    """Both of them, on which nothing runs: a test may leave one lost, for a driver takes long to start."""
    for agent in both.nodes.values():
        if agent.process.poll() is not None:
            agent.start()
    both.wait_serving()
    both.end()
    return both


@pytest.mark.timeout(1_500)
def test_a_lost_machine_changes_no_output(nodes: Hosts) -> None:
    """Nor do moves by a plan behind that, of the source with its state and of a reader."""
    copied = Copied(nodes, 1)
    copied.publish()
    nodes.wait_running(*copied.fragments)
    copied.grows(50)
    copied.are_copied("n1")
    copied.are_copied("n1")  # what is new since, too
    copied.lose("n1")
    copied.grows(100)
    copied.is_back("n1")
    copied.are_copied("n2")
    for task in ("count", "looked"):
        copied.is_over(copied.move(task))
    copied.grows()
    check(copied)


@pytest.mark.timeout(1_500)
def test_keys_change_hands_between_nodes_and_slots_die_in_between(nodes: Hosts) -> None:
    """Of two tasks in a row, and of one whose states are in stores: from one query to three bundles, and to two."""
    flow = KeyedFlow(nodes, 4, ["averaged", "summed"])
    flow.grows()
    for count, dies in ((3, "n2"), (2, "n1")):
        parts = whole_groups(dict.fromkeys(range(count), 1 / count))
        flow.divide([WantedBundle(f"{NODES[place % 2]}/0", 1, part) for place, part in parts.items()], *flow.keyed)
        kill(nodes.nodes[dies], "0")
        flow.is_over()
        flow.grows()
    assert all({node_of(bundle.slot) for bundle in flow.fragments[flow.ids[task]].bundles} == set(NODES)
               for task in flow.keyed)
    flow.check()


@pytest.mark.timeout(1_500)
def test_a_task_that_is_divided_over_nodes_loses_one_after_the_other_and_no_key_notices(nodes: Hosts) -> None:
    """With the source that divides the stream, with a bundle of each, with who reads both, and with a join: of its two
    streams one comes from each node at first, and one is of two threads."""
    flow = Spread(nodes, 3, ["summed", "paired"])
    lefts = flow.ids["lefts"]
    flow.fragments[lefts] = replace(flow.fragments[lefts], bundles=(RunningBundle(lefts, "n1/0", 2),))
    flow.publish()
    flow.grows()
    flow.divide([WantedBundle("n1/0", 1, 0.5), WantedBundle("n1/0", 1, 0.5)], "heavy")
    flow.is_over()
    _, second = flow.bundles()
    others = {name: flow.fragments[name] for name in (flow.ids["summed"], lefts)}
    flow.go({second.id: flow.fragments[flow.ids["heavy"]], **others}, "n2")
    assert {node_of(bundle.slot) for bundle in flow.bundles()} == set(NODES)
    for node in NODES:
        queries = flow.on(node)
        assert len(queries) == (5 if node == "n1" else 8)
        flow.grows()
        are_copied(nodes, queries, [other_than(node)])
        are_copied(nodes, queries, [other_than(node)])  # what is new since, too
        lose(nodes, node)
        flow.go(queries, other_than(node))
        flow.grows(60)
        if node == "n1":
            nodes.nodes[node].start()
            nodes.wait_serving()
    flow.check()


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_machines_that_are_lost_one_after_the_other_change_no_output(nodes: Hosts) -> None:
    copied, chance = Copied(nodes, 2), random.Random(2)
    copied.publish()
    nodes.wait_running(*copied.fragments)
    copied.grows(50)
    for number in range(6):
        node = NODES[number % 2]
        copied.are_copied(node)
        time.sleep(chance.uniform(0, 2))
        copied.lose(node, with_disk=chance.random() < 0.5)
        if chance.random() < 0.5:
            copied.grows(50)
        copied.is_back(node)
        copied.grows(50)
        check(copied)
