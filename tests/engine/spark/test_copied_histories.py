"""Keys change hands between nodes, and nodes are lost: results of each key are as they are undisturbed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .copied_flow import CopiedFlow
from .keyed_flow import BRANCHES
from .lost_machines import copying_nodes
from .rig import Hosts

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.xdist_group("copied nodes")]

NODES = ("n1", "n2", "n3")
OUTPUTS = [output for output in BRANCHES if output != "paired"]  # of joins test_lost_nodes.py has copies


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
    flow = CopiedFlow(copied_nodes, seed, [OUTPUTS[seed % len(OUTPUTS)], OUTPUTS[(seed + 2) % len(OUTPUTS)]])
    for number, steps in enumerate(flow.histories()):
        print(f"seed {seed}, history {number}: {', '.join(steps)}", flush=True)
    copied_nodes.end()
