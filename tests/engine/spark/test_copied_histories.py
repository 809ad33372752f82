"""Keys change hands between nodes, and nodes are lost: results of each key are as they are undisturbed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .copied_flow import CopiedFlow
from .keyed_flow import BRANCHES, CHAINS
from .lost_machines import copying_nodes
from .rig import Hosts

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("copied nodes")]

NODES = ("n1", "n2", "n3")
SEED = 201  # of 600 the first that loses each node with its disk, moves the source, and needs three drivers more
BY_KEY = [output for output in BRANCHES if output != "paired"]


def outputs_of(seed: int) -> list[str]:
    """Each two of those by key, and each with a join and a chain that is not divided."""
    more = [BY_KEY[(seed + 2) % len(BY_KEY)]] if seed < 2 * len(BY_KEY) else ["paired", *CHAINS]
    return [BY_KEY[seed % len(BY_KEY)], *more]


def play(flow: CopiedFlow, seed: int) -> list[str]:
    """Five histories; the names of their steps."""
    played = []
    for number, steps in enumerate(flow.histories()):
        print(f"seed {seed}, history {number}: {', '.join(steps)}", flush=True)
        played += steps
    flow.rig.end()
    return played


@pytest.mark.long  # until it is known to cost no more, test_lost_nodes.py is in the short run (0273)
@pytest.mark.xdist_group("nodes")
@pytest.mark.timeout(1_500)
def test_five_histories_by_chance_on_two_nodes_change_no_output(
    tmp_path_factory: pytest.TempPathFactory, test_types, with_jar
) -> None:
    """Sums by key with states in stores, a join whose one side has three threads, and a chain with sums, of which the
    source has one. Their keys change hands between nodes while a slot dies, a join has four bundles, one of which
    moves; each node is lost with its disk, the second with all; the source moves, and the broker is killed."""
    with copying_nodes(tmp_path_factory, test_types, with_jar, NODES[:2], copy_s=1) as hosts:
        hosts.wait_serving()
        flow = CopiedFlow(hosts, SEED, ["summed", "paired", *CHAINS])
        steps = play(flow, SEED)
    assert steps == ["spread", "kill", "divide", "move", "lose", "lose", "move", "kill the broker"]
    assert flow.emptied == set(NODES[:2])


@pytest.fixture(scope="module")
def copied_nodes(tmp_path_factory: pytest.TempPathFactory, test_types, with_jar) -> Iterator[Hosts]:
    """Three agents with a slot and a data folder each, of which each two hold copies for the third."""
    with copying_nodes(tmp_path_factory, test_types, with_jar, NODES, copy_s=2) as hosts:
        hosts.wait_serving()
        yield hosts


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(20))
def test_five_histories_by_chance_change_no_result_of_any_key(copied_nodes: Hosts, seed: int):
    """Other bundles and other parts of the ring, moves, pauses, plans that are taken back; slots, agents and the broker
    are killed, one machine or two are lost at once; some of it before the step before is over."""
    play(CopiedFlow(copied_nodes, seed, outputs_of(seed)), seed)
