"""When a node is away for those that stand in for its manager, and who that is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.qos import QosStandIn
from scheduler.latency.constraints import LatencyConstraint, along
from scheduler.latency.managers import compute_qos_setup
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.standing_in import AWAY_S, GAP_S, Hearing, listened_for, stood_in_for, successors


@given(st.lists(st.tuples(st.floats(0.1, 12.0), st.booleans()), max_size=60))
def test_a_node_is_away_that_was_silent_while_others_could_hear(looks: list[tuple[float, bool]]) -> None:
    hearing, now_s, silent_s = Hearing({"n1"}, now_s=0.0), 0.0, 0.0
    for after_s, heard in looks:
        now_s += after_s
        silent_s = 0.0 if heard or after_s > GAP_S else silent_s + after_s
        away = hearing.away({"n1"} if heard else set(), now_s)
        if abs(silent_s - AWAY_S) > 1e-6:
            assert (away == {"n1"}) == (silent_s > AWAY_S)


def test_the_nodes_with_most_of_a_share_stand_in_one_after_the_other() -> None:
    vertices = [
        Vertex("a0", "a", "n1"), Vertex("b0", "b", "n2"), Vertex("c0", "c", "n3"), Vertex("c1", "c", "n4"),
        Vertex("d0", "d", "n4")]
    channels = [Channel("a0", "b0"), *(Channel("b0", f"c{n}") for n in range(2)), Channel("c1", "d0")]
    graph = RuntimeGraph(vertices, channels)
    [manager] = compute_qos_setup(graph, [LatencyConstraint(along(("a", "b")), 1.0, 60)])
    assert successors([manager], graph) == {"n1": ("n2",)}

    managers = compute_qos_setup(graph, [LatencyConstraint(along(("a", "b", "c", "d")), 1.0, 60)])
    assert [manager.worker for manager in managers] == ["n4"], "what leads to no end is not watched"
    assert successors(managers, graph) == {"n4": ("n1", "n2")}


def test_who_stands_in_does_so_while_all_before_it_are_away() -> None:
    part = QosStandIn((), {}, (), ("n2",))
    assert listened_for({"n1": part}) == {"n1", "n2"}
    assert stood_in_for({"n1": part}, {"n1", "n2"}) == {"n1"}
    assert not stood_in_for({"n1": part}, {"n1"})
    assert not stood_in_for({"n1": part}, {"n2"})
