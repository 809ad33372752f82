"""The worst sequences against all sequences, listed one by one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.constraints import LatencyConstraint, WatchedConstraint, along
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex

from . import graphs


@given(st.data())
def test_the_worst_sequence_is_that_of_the_whole_list_also_through_some_anchors(data: st.DataObject) -> None:
    graph = data.draw(graphs.graphs())
    constraint, times_s = data.draw(graphs.constraints(graph)), data.draw(graphs.latencies(graph))
    listed = {path: graphs.latency_s(constraint, graph, path, times_s) for path in graphs.sequences(constraint, graph)}

    assert WatchedConstraint(constraint, graph, times_s).worst_s == max(listed.values(), default=None)
    task = data.draw(st.sampled_from(constraint.tasks))
    of_task = sorted(vertex.id for vertex in graph.of_task(task))
    anchors = data.draw(st.frozensets(st.sampled_from(of_task), min_size=1))
    through = [latency for path, latency in listed.items() if not anchors.isdisjoint(path)]
    assert WatchedConstraint(constraint, graph, times_s, anchors).worst_s == max(through, default=None)


@given(st.data())
def test_each_element_knows_its_worst_sequence(data: st.DataObject) -> None:
    graph = data.draw(graphs.graphs())
    constraint, times_s = data.draw(graphs.constraints(graph)), data.draw(graphs.latencies(graph))
    expected: dict[object, float] = {}
    for path in graphs.sequences(constraint, graph):
        latency = graphs.latency_s(constraint, graph, path, times_s)
        for element in [*path, *(Channel(*ends) for ends in pairwise(path))]:
            expected[element] = max(latency, expected.get(element, 0.0))

    assert WatchedConstraint(constraint, graph, times_s).worst_through() == expected


def test_half_a_billion_sequences_are_never_listed() -> None:
    # The example of 3.4: 800 of each task, joined all to all by two streams; 512 million sequences.
    width, names = 120, ("split", "decode", "merge", "encode", "send")
    vertices = [Vertex(f"{name}{number}", name, f"n{number}") for name in names for number in range(width)]
    channels = [Channel(f"split{a}", f"decode{b}") for a in range(width) for b in range(width)]
    channels += [Channel(f"encode{a}", f"send{b}") for a in range(width) for b in range(width)]
    channels += [Channel(f"{before}{a}", f"{after}{a}") for before, after in (("decode", "merge"), ("merge", "encode"))
                 for a in range(width)]
    constraint = LatencyConstraint(along(names), limit_s=0.3, over_s=10)
    graph = RuntimeGraph(vertices, channels)

    watched = WatchedConstraint(constraint, graph, dict.fromkeys([vertex.id for vertex in vertices], 0.1))

    assert watched.worst_s == pytest.approx(0.5)
    assert len(watched.worst_through()) == len(vertices) + len(channels)


@pytest.mark.parametrize("sequence", [(), ("a", "b"), ("a", ("b", "c")), (("a", "b"), ("b", "c")), (("a", "b"), "a")])
def test_what_is_no_path_is_refused(sequence: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=r"needs a task|is not followed by"):
        LatencyConstraint(sequence, limit_s=1, over_s=10)  # type: ignore[arg-type]


@pytest.mark.parametrize(("limit_s", "over_s"), [(0, 10), (-1, 10), (float("nan"), 10), (1, 0), (1, float("inf"))])
def test_limits_and_spans_are_above_zero(limit_s: float, over_s: float) -> None:
    with pytest.raises(ValueError, match="above 0 seconds"):
        LatencyConstraint(("a",), limit_s=limit_s, over_s=over_s)
