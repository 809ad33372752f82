"""A machine is lost with all that is on it: its queries go on at the node that holds copies of their state."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from scheduler.model.fragment import Fragment, node_of
from workers.engine.channels import keys

from .conftest import NODES
from .own_broker import own_broker
from .rig import Hosts, catalogue, running_agent
from .test_moves_between_nodes import Moving, check

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("nodes")]

COPY_S = 0.5


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
        holder = next(name for name in NODES if name != node)
        before = {name: self._copy(name, holder) for name in self.on(node)}
        for name, copy in before.items():
            self.hosts.wait(
                lambda name=name, copy=copy: self._copy(name, holder) not in (None, copy), what=f"{name} is copied")

    def lose(self, node: str, *, with_disk: bool = True) -> list[str]:
        """The machine is gone, with its disk or without, and what ran there goes on elsewhere; the new names."""
        rig = self.hosts.nodes[node]
        rig.kill()
        for what in ("checkpoints", "folds", "nodes") if with_disk else ():
            shutil.rmtree(rig.data_dir / what, ignore_errors=True)
        self.hosts.broker.hset(keys.LOST, node, 1)
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

    def _copy(self, name: str, holder: str) -> bytes | None:
        return self.hosts.broker.hget(keys.copies(name), holder)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, test_types, with_jar) -> Iterator[Hosts]:
    """Two agents with a slot and a data folder each, which hold copies for one another."""
    plugin_folder, types = test_types
    with ExitStack() as stack:
        broker = stack.enter_context(own_broker(tmp_path_factory.mktemp("broker")))
        client = stack.enter_context(redis.Redis.from_url(broker.url))
        agents = {
            node: stack.enter_context(running_agent(
                client, broker.url, with_jar(_folder(tmp_path_factory, node)), plugin=plugin_folder,
                task_types=catalogue(*types), node=node, WEIR_COPIES="1", WEIR_COPY_S=str(COPY_S)))
            for node in NODES}
        hosts = Hosts(client, agents, own_broker=broker)
        hosts.wait_serving()
        yield hosts


def _folder(factory: pytest.TempPathFactory, node: str) -> Path:
    return factory.mktemp(node)


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
    nodes.end()


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
    nodes.end()
