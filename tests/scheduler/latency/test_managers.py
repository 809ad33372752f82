"""The set-up of managers and reporters: objectives and side conditions of paper [5], 3.4.2."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.constraints import WatchedConstraint
from scheduler.latency.managers import Manager, compute_qos_setup, get_anchor_vertex, reporters
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex

from . import graphs


@given(st.data())
def test_each_sequence_is_watched_by_exactly_one_manager(data: st.DataObject) -> None:
    graph = data.draw(graphs.graphs())
    constraints = data.draw(st.lists(graphs.constraints(graph), max_size=3))
    latencies = data.draw(graphs.latencies(graph))

    managers = compute_qos_setup(graph, constraints)

    wanted = Counter((constraint.limit_s, path) for constraint in constraints
                     for path in graphs.sequences(constraint, graph))
    watched: Counter[object] = Counter()
    for manager in managers:
        part = _subgraph(manager, graph)
        for share in manager.shares:
            paths = graphs.sequences(share.constraint, part, share.anchors)
            watched.update((share.constraint.limit_s, path) for path in paths)
            worst_s = max((graphs.latency_s(share.constraint, part, path, latencies) for path in paths), default=None)
            assert WatchedConstraint(share.constraint, part, latencies, share.anchors).worst_s == worst_s
    assert watched == wanted


@given(st.data())
def test_subgraphs_hold_what_their_sequences_need_and_nothing_else(data: st.DataObject) -> None:
    graph = data.draw(graphs.graphs())
    constraint = data.draw(graphs.constraints(graph))

    managers = compute_qos_setup(graph, [constraint])

    assert len({manager.worker for manager in managers}) == len(managers)
    anchor = get_anchor_vertex(graph, constraint.tasks)
    at = constraint.tasks.index(anchor)
    for manager in managers:
        mine = [path for path in graphs.sequences(constraint, graph)
                if graph.vertices[path[at]].worker == manager.worker]
        assert manager.vertices == {vertex for path in mine for vertex in path}
        assert manager.channels == {Channel(*ends) for path in mine for ends in itertools.pairwise(path)}


@given(st.data())
def test_reporters_send_each_manager_all_that_it_needs(data: st.DataObject) -> None:
    graph = data.draw(graphs.graphs())
    managers = compute_qos_setup(graph, data.draw(st.lists(graphs.constraints(graph), max_size=3)))

    reports = reporters(graph, managers)

    for manager in managers:
        sent = Counter(element for by_manager in reports.values() for element in by_manager.get(manager.worker, ()))
        assert set(sent) == manager.vertices | manager.channels
        assert all(sent[vertex] == 1 for vertex in manager.vertices)
        for channel in manager.channels:
            assert sent[channel] == 1
            assert channel in reports[graph.vertices[channel.target].worker][manager.worker], "it is measured there"


def test_the_anchor_is_on_most_nodes_and_has_the_fewest_channels() -> None:
    # The paper's job in small: all to all, then one to one twice, then all to all.
    graph = _video(width=3)
    assert get_anchor_vertex(graph, ("split", "decode", "merge", "encode", "send")) == "decode"

    on_one_node = RuntimeGraph(
        [Vertex("a0", "a", "n1"), Vertex("a1", "a", "n2"), Vertex("b0", "b", "n1")],
        [Channel("a0", "b0"), Channel("a1", "b0")])
    assert get_anchor_vertex(on_one_node, ("b", "a")) == "a"


def _subgraph(manager: Manager, graph: RuntimeGraph) -> RuntimeGraph:
    """What a manager is sent, and nothing besides."""
    return RuntimeGraph([graph.vertices[vertex] for vertex in sorted(manager.vertices)],
                        [channel for channel in graph.channels if channel in manager.channels])


def _video(width: int) -> RuntimeGraph:
    names = ("split", "decode", "merge", "encode", "send")
    vertices = [Vertex(f"{name}{number}", name, f"n{number}") for name in names for number in range(width)]
    everywhere = [Channel(f"{before}{a}", f"{after}{b}") for before, after in (("split", "decode"), ("encode", "send"))
                  for a in range(width) for b in range(width)]
    straight = [Channel(f"{before}{a}", f"{after}{a}") for before, after in (("decode", "merge"), ("merge", "encode"))
                for a in range(width)]
    return RuntimeGraph(vertices, everywhere + straight)


def test_a_channel_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="has no vertex b"):
        RuntimeGraph([Vertex("a", "t", "n")], [Channel("a", "b")])
