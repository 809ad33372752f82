"""Machines that are lost with all that is on them, of nodes that hold copies of one another's state."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
import redis

from workers.engine.channels import keys

from .conftest import TRIGGER_MS
from .own_broker import own_broker
from .rig import Hosts, Rig, catalogue, running_agent


@contextmanager
def copying_nodes(
    factory: pytest.TempPathFactory, test_types, with_jar, nodes: Sequence[str], *, copy_s: float, **environment: str
) -> Iterator[Hosts]:
    """An agent with a slot and a data folder for each node; all others hold copies for it."""
    plugin_folder, types = test_types
    with ExitStack() as stack:
        broker = stack.enter_context(own_broker(factory.mktemp("broker")))
        client = stack.enter_context(redis.Redis.from_url(broker.url))
        agents = {
            node: stack.enter_context(running_agent(
                client, broker.url, with_jar(factory.mktemp(node)), plugin=plugin_folder,
                task_types=catalogue(*types), node=node, WEIR_COPIES=str(len(nodes) - 1), WEIR_COPY_S=str(copy_s),
                **environment))
            for node in nodes}
        for agent in agents.values():
            agent.trigger_ms = TRIGGER_MS
        yield Hosts(client, agents, own_broker=broker)


def empty(hosts: Hosts) -> Hosts:
    """All nodes, on which nothing runs: a test may leave one lost, for a driver takes long to start."""
    for agent in hosts.nodes.values():
        if agent.process.poll() is not None:
            agent.start()
    hosts.wait_serving()
    hosts.end()
    return hosts


def are_copied(hosts: Hosts, queries: Iterable[str], holders: Iterable[str]) -> None:
    """Wait until each of these has a whole copy on one of these nodes, newer than what is there now."""
    nodes = list(holders)

    def copies_of(name: str) -> set[bytes | None]:
        return {None, *hosts.broker.hmget(keys.copies(name), nodes)}

    before = {name: copies_of(name) for name in queries}
    for name, copies in before.items():
        hosts.wait(lambda name=name, copies=copies: copies_of(name) - copies, what=f"{name} is copied")


def end_machine(rig: Rig, *, with_disk: bool = True) -> None:
    """Agent and slots end at once, and what is on the disk is gone, or stays."""
    rig.kill()
    for folder in ("checkpoints", "folds", "nodes") if with_disk else ():
        shutil.rmtree(rig.data_dir / folder, ignore_errors=True)
