"""Keys change hands between nodes, and nodes are lost: results of each key are as they are undisturbed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .copied_flow import CopiedFlow
from .keyed_flow import BRANCHES, CHAINS
from .lost_machines import copying_nodes, empty
from .rig import Hosts

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("copied nodes")]

NODES = ("n1", "n2", "n3")
SEED = 7  # by which each node is lost with its disk, plans are taken back, and the source moves right behind a loss
BY_KEY = [output for output in BRANCHES if output != "paired"]
DISASTERS = ("kill", "lose", "kill the broker", "lose", "kill")


def outputs_of(seed: int) -> list[str]:
    """Three of those by key; with every other seed a join and a chain that is not divided in place of two of them."""
    first, second, third = (BY_KEY[(seed + place) % len(BY_KEY)] for place in (0, 1, 2))
    return [first, "paired", *CHAINS] if seed % 2 else [first, second, third]


@pytest.mark.xdist_group("nodes")
@pytest.mark.timeout(1_500)
def test_histories_by_chance_on_two_nodes_change_no_output(
    tmp_path_factory: pytest.TempPathFactory, test_types, with_jar
) -> None:
    """Three of sums by key with states in stores, three of a join whose one side has two threads, and three of a chain
    with sums, of which the source has one. A slot is killed, and then each node is lost, the second one right before
    the source moves."""
    with copying_nodes(tmp_path_factory, test_types, with_jar, NODES[:2], copy_s=3) as hosts:
        flow = CopiedFlow(empty(hosts), SEED, ["summed", "paired", *CHAINS])
        histories = list(flow.histories(("kill", "lose", "lose")))
    assert histories == [
        {"summed": ["spread", "divide", "kill"], "paired": ["spread", "divide", "kill"],
         "totalled": ["spread", "move", "kill"]},
        {"summed": ["take back", "lose"], "paired": ["take back", "lose"], "totalled": ["move", "lose"]},
        {"summed": ["lose", "move"], "paired": ["lose", "divide"], "totalled": ["lose", "move"]}]
    assert flow.emptied == set(NODES[:2])


@pytest.fixture(scope="module")
def copied_nodes(tmp_path_factory: pytest.TempPathFactory, test_types, with_jar) -> Iterator[Hosts]:
    """Three agents with a slot and a data folder each, of which each two hold copies for the third."""
    with copying_nodes(tmp_path_factory, test_types, with_jar, NODES, copy_s=4) as hosts:
        for node in hosts.nodes.values():
            node.trigger_ms = 1_500
        yield hosts


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(7))
def test_histories_by_chance_change_no_result_of_any_key(copied_nodes: Hosts, seed: int):
    """Five for each of three outputs: other bundles and other parts of the ring, moves, pauses, plans that are taken
    back; slots, agents and the broker are killed, one machine or two are lost at once; some of it before the step
    before is over."""
    flow = CopiedFlow(empty(copied_nodes), seed, outputs_of(seed))
    assert [len(played) for played in flow.histories(DISASTERS)] == [3] * 5
