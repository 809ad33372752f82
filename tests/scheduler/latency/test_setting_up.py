"""What nodes are sent to watch limits: together every sequence once, also while nodes are away; and at what size."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.qos import (
    INTERVALS,
    QOS_REPORTS,
    QOS_SETUPS,
    QOS_WISHES,
    NodeIntervals,
    QosReport,
    QosSetup,
    QosWishes,
)
from scheduler.latency.constrained_paths import MOST_PATHS, constrained_paths, constraints_on, strictest
from scheduler.latency.constraints import LatencyConstraint, WatchedConstraint, along
from scheduler.latency.managing import REPORT_S, ROUND_S, QosManager
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.setting_up import constraint_of, graph_of, qos_setups
from scheduler.latency.standing_in import STAND_INS, stood_in_for
from scheduler.latency.triggers import Counted
from scheduler.latency.ways import Way

from . import graphs


def set_up(graph: RuntimeGraph, constraints: list[LatencyConstraint]) -> dict[str, QosSetup]:
    """The set-ups as nodes read them."""
    setups = qos_setups(
        graph, constraints, longest_ms=dict.fromkeys(graph.by_task, 8_000), sources={"t0"}, version=1)
    return {node: QOS_SETUPS.loads(QOS_SETUPS.dumps(setup)) for node, setup in setups.items()}


@given(st.data())
def test_all_nodes_watch_each_sequence_exactly_once_also_while_some_are_away(data: st.DataObject) -> None:
    graph = data.draw(graphs.graphs())
    constraints = data.draw(st.lists(graphs.constraints(graph), max_size=3))
    latencies = data.draw(graphs.latencies(graph))
    nodes = sorted({vertex.worker for vertex in graph.vertices.values()})
    away = data.draw(st.sets(st.sampled_from(nodes)))

    setups = set_up(graph, constraints)

    wanted = Counter((constraint.sequence, constraint.limit_s, path) for constraint in constraints
                     for path in graphs.sequences(constraint, graph))
    watched: Counter[object] = Counter()
    parts = [setup for setup in setups.values() if setup.node not in away]
    for setup in list(parts):
        parts += [setup.in_place_of(node) for node in stood_in_for(setup.stands_in, away)]
    managing = [part.node for part in parts if part.shares]
    assert len(managing) == len(set(managing)), "nobody manages what another does"
    for node, setup in setups.items():
        if setup.shares and node not in managing:
            others = {vertex.node for vertex in setup.queries.values()} - {node}
            assert len(others & away) >= min(len(others), STAND_INS), "too many are away"
            parts.append(setup)
    for setup in parts:
        part = graph_of(setup)
        for share in setup.shares:
            constraint, anchors = constraint_of(share), frozenset(share.anchors)
            paths = graphs.sequences(constraint, part, anchors)
            watched.update((constraint.sequence, constraint.limit_s, path) for path in paths)
            worst_s = max((graphs.latency_s(constraint, part, path, latencies) for path in paths), default=None)
            assert WatchedConstraint(constraint, part, latencies, anchors).worst_s == worst_s
    assert watched == wanted


def test_a_set_up_says_who_reads_whom_and_whose_ages_are_told() -> None:
    graph = RuntimeGraph(
        [Vertex("a", "a", "n1"), Vertex("b", "b", "n2"), Vertex("c", "c", "n2")],
        [Channel("a", "b"), Channel("b", "c")])
    setups = qos_setups(
        graph, [LatencyConstraint(along(("a", "b")), 1.0, 60, 99)], longest_ms=dict.fromkeys("abc", 8_000),
        sources={"a"}, reads={"b": {"old.0": "a"}, "c": {"b.1": "b"}})
    queries = setups["n2"].own
    assert (queries["b"].reads, queries["b"].ages) == ({"old.0": "a"}, True)
    assert (queries["c"].reads, queries["c"].ages) == ({}, False), "no limit is on it"
    assert not setups["n1"].own["a"].ages
    assert setups["n1"].shares[0].percentile == 99
    assert setups["n2"].stands_in["n1"].shares == setups["n1"].shares
    assert setups["n2"].in_place_of("n1").queries == setups["n1"].queries


@given(st.data())
def test_who_decides_on_a_query_and_who_measures_it_know_of_each_other(data: st.DataObject) -> None:
    graph = data.draw(graphs.graphs())
    constraints = data.draw(st.lists(graphs.constraints(graph), max_size=3))

    setups = set_up(graph, constraints)

    for query, vertex in graph.vertices.items():
        deciding = {node for node, setup in setups.items() if query in setup.queries}
        assert set(setups[vertex.worker].own[query].managers) == deciding
        measured_for = {node for node, elements in setups[vertex.worker].reports.items() if query in elements}
        assert measured_for == deciding


def ways() -> st.SearchStrategy[Way]:
    """Acyclic ways of up to seven queries."""
    def made(streams: set[tuple[int, int]], starts: set[int], ends: set[int]) -> Way:
        return Way(
            {f"q{reader}": tuple(sorted(f"q{a}" for a, b in streams if b == reader)) for reader in range(7)},
            frozenset(f"q{start}" for start in starts), frozenset(f"q{end}" for end in ends))

    pairs = list(itertools.combinations(range(7), 2))
    return st.builds(made, st.sets(st.sampled_from(pairs)), st.sets(st.integers(0, 6), min_size=1),
                     st.sets(st.integers(0, 6), min_size=1))


@given(ways())
def test_a_limit_is_on_each_path_of_its_way(way: Way) -> None:
    def onwards(path: tuple[str, ...]) -> list[tuple[str, ...]]:
        whole = [path] if path[-1] in way.ends else []
        return whole + [longer for reader, writers in way.writers.items() if path[-1] in writers
                        for longer in onwards((*path, reader))]

    wanted = [path for start in way.starts for path in onwards((start,))]
    assert sorted(constrained_paths(way)) == sorted(wanted)


def test_of_very_many_paths_so_many_are_watched_that_each_stream_is_on_one() -> None:
    depth = 12  # layers of two, joined all to all
    writers: dict[str, tuple[str, ...]] = {"a0": (), "b0": ()}
    for layer in range(1, depth):
        writers |= dict.fromkeys((f"a{layer}", f"b{layer}"), (f"a{layer - 1}", f"b{layer - 1}"))
    way = Way(writers, frozenset({"a0", "b0"}), frozenset({f"a{depth - 1}", f"b{depth - 1}"}))

    paths = constrained_paths(way)

    assert len(paths) <= MOST_PATHS < 2**depth
    streams = {stream for path in paths for stream in itertools.pairwise(path)}
    assert streams == {(writer, query) for query, of in writers.items() for writer in of}
    assert all(path[0] in way.starts and path[-1] in way.ends for path in paths)


def test_of_one_path_the_strictest_limit_is_watched_and_a_percentile_beside_a_mean() -> None:
    way = Way({"a": (), "b": ("a",)}, frozenset({"a"}), frozenset({"b"}))
    short = constraints_on(way, limit_s=2.0, over_s=60)
    tail, longer = (constraints_on(way, limit_s=limit_s, over_s=60, percentile=80) for limit_s in (2.0, 3.0))
    assert strictest([*short, *longer, *tail]) == [*short, *tail]
    assert (tail[0].limit_s, tail[0].percentile) == (1.25, 80), "so much a mean may be of ages that are spread evenly"


@pytest.mark.parametrize(("passed", "sequence", "last"), [
    ("", ("a", ("a", "b"), "b", ("b", "c"), "c"), "c"),
    ("a", (("a", "b"), "b", ("b", "c"), "c"), "c"),
    ("c", ("a", ("a", "b"), "b", ("b", "c")), "b"),
    ("ac", (("a", "b"), "b", ("b", "c")), "b")])
def test_a_limit_that_begins_or_ends_with_a_stream_is_watched_as_such(
    passed: str, sequence: tuple[object, ...], last: str
) -> None:
    way = Way({"a": (), "b": ("a",), "c": ("b",)}, frozenset("a"), frozenset("c"), Counted(False, frozenset(passed)))
    [constraint] = constraints_on(way, limit_s=2.0, over_s=60)
    graph = RuntimeGraph(
        [Vertex(name, name, f"n{at}") for at, name in enumerate("abc")], [Channel("a", "b"), Channel("b", "c")])

    setups = set_up(graph, [constraint])

    assert (constraint.sequence, constraint.last, constraint.waits) == (sequence, last, False)
    assert [constraint_of(share) for setup in setups.values() for share in setup.shares] == [constraint]


def test_a_single_stream_is_watched_between_queries_and_takes_no_time_within_them() -> None:
    between = Way({"a": (), "b": ("a",)}, frozenset("a"), frozenset("b"), Counted(False, frozenset("ab")))
    within = Way({"a": ()}, frozenset("a"), frozenset("a"), Counted(False, frozenset("a")))

    [constraint] = constraints_on(between, limit_s=2.0, over_s=60, percentile=99)
    assert (constraint.sequence, constraint.tasks, constraint.last) == ((("a", "b"),), ("a", "b"), "a")
    assert constraints_on(within, limit_s=2.0, over_s=60) == []


def test_a_thousand_nodes_are_set_up_and_one_of_them_decides_on_its_part_of_a_hundred_thousand_bundles() -> None:
    groups, width = 200, 100  # each group five tasks of 100 bundles on five nodes of its own
    vertices, channels, constraints = [], [], []
    for group in range(groups):
        names = tuple(f"{name}@{group}" for name in ("split", "decode", "merge", "encode", "send"))
        vertices += [Vertex(f"{name}.{number}", name, f"n{group * 5 + number % 5}")
                     for name in names for number in range(width)]
        channels += [Channel(f"{before}.{number}", f"{after}.{number}")
                     for before, after in itertools.pairwise(names) for number in range(width)]
        constraints.append(LatencyConstraint(along(names), limit_s=0.3, over_s=60))
    graph = RuntimeGraph(vertices, channels)

    setups = qos_setups(
        graph, constraints, longest_ms=dict.fromkeys(graph.by_task, 60_000),
        sources={f"split@{group}" for group in range(groups)})

    assert len(setups) == 5 * groups
    assert sum(len(setup.queries) for setup in setups.values()) == 100_000
    assert {len(setup.queries) for setup in setups.values()} == {100}
    assert not any(setup.stands_in for setup in setups.values()), "what one node has alone nobody else could watch"

    manager, now_s = QosManager(setups["n12"], now_s=0.0), 0.0
    for _ in range(40):
        now_s += REPORT_S
        manager.take(QosReport(
            "n12", dict.fromkeys(setups["n12"].reports["n12"], 0.2), dict.fromkeys(setups["n12"].own, 1.0),
            dict.fromkeys(setups["n12"].own, 1.0), dict.fromkeys(setups["n12"].own, 0.05)), now_s=now_s)
        manager.decide(now_s)
    assert ROUND_S == REPORT_S
    assert set(manager.wishes()["n12"].intervals_ms.values()) == {63}, "a batch of 50 ms needs as much"


@pytest.mark.parametrize("groups", [20, pytest.param(200, marks=pytest.mark.long)])
def test_sequences_through_five_nodes_are_watched_once_each_by_a_node_that_has_a_part_of_each(groups) -> None:
    width, vertices, channels, constraints = 100, [], [], []
    for group in range(groups):  # five tasks of 100 bundles; a sequence lies on five nodes, and ten begin alike
        names = tuple(f"{name}@{group}" for name in ("split", "decode", "merge", "encode", "send"))
        vertices += [Vertex(f"{name}.{number}", name, f"n{group * 5 + (number + at) % 5}")
                     for at, name in enumerate(names) for number in range(width)]
        for before, after in itertools.pairwise(names):
            channels += [
                Channel(f"{before}.{number}", f"{after}.{other}") for number in range(width)
                for other in (range(number // 10 * 10, number // 10 * 10 + 10) if before == names[1] else [number])]
        constraints.append(LatencyConstraint(along(names), limit_s=0.3, over_s=60))
    graph = RuntimeGraph(vertices, channels)

    setups = qos_setups(
        graph, constraints, longest_ms=dict.fromkeys(graph.by_task, 60_000),
        sources={f"split@{group}" for group in range(groups)})

    assert len(setups) == 5 * groups
    anchors = [(share.path, anchor) for setup in setups.values() for share in setup.shares for anchor in share.anchors]
    assert len(anchors) == len(set(anchors)) == width * groups, "each bundle of the anchor's task has one manager"
    for node, setup in setups.items():
        [share] = setup.shares
        assert {graph.vertices[anchor].worker for anchor in share.anchors} == {node}
        assert len({graph.vertices[anchor].task for anchor in share.anchors}) == 1
        assert setup.stands_in, "others have a part of what it watches"
    # What lies on sequences through 20 anchors: 20 bundles of the first two tasks each, and the 300 that those reach.
    assert {len(setup.queries) for setup in setups.values()} == {340}


WRITTEN = [
    (QOS_REPORTS, QosReport("n1", {"a": 0.2, "a>b": 0.1}, {"a": 1.0}, {"a": 1.0}, {"a": 0.1}, {"a": {30: 5, 41: 1}})),
    (QOS_WISHES, QosWishes("n1", 3, {"a": 100})),
    (INTERVALS, NodeIntervals({"a": 100}))]


@pytest.mark.parametrize(("codec", "value"), WRITTEN)
def test_what_is_written_is_read_again_by_an_earlier_version_too(codec, value) -> None:
    assert codec.loads(codec.dumps(value)) == value
    assert codec.read({**codec.document(value), "of_a_later_version": 1}) == value


@pytest.mark.parametrize("document", [
    {"channels": [["a", "b"]]}, {"version": "new"}, {"own": {"a": {}}},
    {"shares": [{"path": ["f"], "limit_s": 0, "over_s": 1, "anchors": ["a"]}]},
    {"shares": [{"path": ["f"], "limit_s": 1, "over_s": 1, "anchors": ["a"]}]},
    {"shares": [{"path": ["f"], "limit_s": 1, "over_s": 1, "anchors": ["a"], "counts_last": False}],
     "queries": {"a": {"task": "f", "node": "n1"}}},
    {"shares": [{"path": ["f"], "limit_s": 1, "over_s": 1, "anchors": ["a"], "percentile": 100}],
     "queries": {"a": {"task": "f", "node": "n1"}}},
    {"stands_in": {"n2": {"shares": [], "queries": {}, "channels": [["a", "b"]]}}},
    {"shares": [{"path": [], "limit_s": 1, "over_s": 1, "anchors": ["a"]}]}])
def test_a_set_up_that_makes_no_sense_is_refused(document) -> None:
    with pytest.raises(InvalidContract, match="QosSetup"):
        QOS_SETUPS.read({"node": "n1", **document})
