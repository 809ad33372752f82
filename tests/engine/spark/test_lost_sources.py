"""A machine is lost that read another system and wrote to it: what has copies goes on elsewhere, and so do they."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.postgresql import cluster
from workers.engine.lost_nodes import all_holders_of

from .conftest import NODES
from .lost_machines import copying_nodes, empty
from .outside import Outside, outside_of
from .rig import Hosts
from .test_lost_nodes import COPY_S, Copied, lose
from .test_sources_move import WithOutside

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.xdist_group("nodes")]


class CopiedWithOutside(WithOutside, Copied):
    """Numbers of another system, and their sums, which are kept and written there."""

    def lose(self, node: str, *, with_disk: bool = True) -> list[str]:
        began_s = time.monotonic()
        self.disturbances += 1
        heirs = super().lose(node, with_disk=with_disk)
        self.are_held()
        self.arrives()
        print(f"{self.outside.reads}: new numbers arrive {time.monotonic() - began_s:.1f} s after the loss")
        for name in heirs:
            self.fragments[name] = replace(self.fragments[name], origin="")
        return heirs

    def turn(self, *, rests: bool) -> None:
        """All is paused, or resumed."""
        source, sink = (
            next(part for part in self.fragments.values() if task in part.tasks) for task in ("sums", "rows"))
        for part, outlets in ((source, {} if rests else {"sums": (sink.id,)}), (sink, {})):
            count = len(part.tasks)
            self.fragments[part.id] = replace(
                part, active=0 if rests else count, resting=count if rests else 0, outlets=outlets)
        self.publish()

    def have_state(self, state: str) -> None:
        for name in self.fragments:
            self.hosts.wait(
                lambda name=name: (self.hosts.fragment(name) or {}).get("state") == state, what=f"{name} is {state}")


@pytest.fixture(scope="module")
def copying(tmp_path_factory, test_types, with_jar, postgresql_folder, ports) -> Iterator[Hosts]:
    """Two agents that hold copies for one another, and may reach other systems."""
    with copying_nodes(
        tmp_path_factory, test_types, with_jar, NODES, copy_s=COPY_S, WEIR_SLOT_MEMORY_MB="2048",
        WEIR_DATABASE_HOSTS=str(postgresql_folder), WEIR_SECRETS_KEY="of both nodes",
        WEIR_CONNECTOR_HOSTS=",".join(f"127.0.0.1:{port}" for port in ports.values()),
    ) as hosts:
        yield hosts


@pytest.fixture
def nodes(copying: Hosts) -> Hosts:
    return empty(copying)


@pytest.fixture(scope="module")
def address(postgresql_folder):
    with cluster(folder=postgresql_folder) as address:
        yield address


@pytest.fixture(params=["postgresql", "mqtt"])
def outside(request, nodes: Hosts, ports: Mapping[str, int], tmp_path: Path) -> Iterator[Outside]:
    with outside_of(request.param, nodes, ports, tmp_path, lambda: request.getfixturevalue("address")) as outside:
        yield outside


@pytest.mark.timeout(1_500)
def test_source_state_and_sink_go_on_where_one_machine_after_the_other_is_lost(nodes: Hosts, outside: Outside) -> None:
    copied = CopiedWithOutside(nodes, 1, outside)
    with copied.working():
        for node in NODES:
            copied.are_copied(node)
            copied.are_copied(node)  # what is new since, too
            copied.lose(node)
            copied.is_back(node)
            copied.arrives()
        copied.is_over(copied.move(outside.reads))
        copied.are_held()
    copied.check()
    copied.leaves_nothing()


@pytest.mark.timeout(1_500)
def test_a_source_that_rests_is_lost_with_its_machine_and_reads_on_elsewhere(nodes: Hosts, outside: Outside) -> None:
    copied = CopiedWithOutside(nodes, 2, outside)
    with copied.working():
        copied.are_copied("n1")
        queries = copied.on("n1")
        copied.turn(rests=True)
        copied.have_state("stopped")
        nodes.wait(lambda: all_holders_of(nodes.broker, queries, living={"n2"}).keys() == {*queries}, what="copies")
        lose(nodes, "n1")
        copied.disturbances += 1
        copied._go(queries)
        copied.have_state("stopped")
        copied.turn(rests=False)
        copied.have_state("running")
        copied.are_held()
        copied.arrives()
    copied.arrives(outside.given - 1)
    sums = copied.check_output()
    assert set(outside.rows()) <= set(sums), "what was between two queries at the pause is not written"
    nodes.end()
