"""The checker of traces is held against the definition, and has to find what is wrong with a broken estate."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings

from scheduler.model.estate import Estate
from scheduler.model.fragment import RunningTask

from .catalogue import EMPTY, TYPES, flow, submit
from .strategies import dataflows
from .structure import Checker, Graph, same_history, submitted_graph

ONE = flow("one", {"s": "sensors", "a": ("scale", {"by": 1}), "o": "archive"}, "s > a > o")
TWO = flow("two", {"s": "sensors", "a": ("scale", {"by": 1.0}), "b": "thin", "o": "alarm"}, "s > a > b > o")


def graph_of(labels: dict[str, str], *edges: str) -> Graph:
    parents = {name: tuple(edge[0] for edge in edges if edge[1] == name) for name in labels}
    return Graph({name: (label, "", ()) for name, label in labels.items()}, parents)


def test_one_shared_ancestor_is_not_two_of_a_kind():
    shared = graph_of({"s": "S", "a": "A", "b": "B", "o": "O"}, "sa", "sb", "ao", "bo")
    apart = graph_of({"s": "S", "t": "S", "a": "A", "b": "B", "o": "O"}, "sa", "tb", "ao", "bo")
    assert same_history(shared, "o", shared, "o") and not same_history(shared, "o", apart, "o")
    assert same_history(shared, "a", apart, "a")


def test_parents_match_in_whatever_order_they_stand():
    one = graph_of({"s": "S", "a": "A", "b": "A", "c": "C", "o": "O"}, "sa", "sb", "bc", "ao", "co")
    other = graph_of({"s": "S", "x": "A", "y": "A", "c": "C", "o": "O"}, "sx", "sy", "xc", "co", "yo")
    assert same_history(one, "o", other, "o")
    assert not same_history(one, "a", other, "c")


@settings(max_examples=100, deadline=None)
@given(dataflows(), dataflows())
def test_it_agrees_with_isomorphism_of_ancestor_graphs(first, second):
    one, other = (submitted_graph(dataflow, team="water", task_types=TYPES) for dataflow in (first, second))
    for task in one.labels:
        for twin in other.labels:
            assert same_history(one, task, other, twin) == _isomorphic(one, task, other, twin)


def _isomorphic(one: Graph, task: str, other: Graph, twin: str) -> bool:
    graphs = []
    for graph, root in ((one, task), (other, twin)):
        drawn = nx.DiGraph()
        for ancestor in graph.ancestors(root):
            drawn.add_node(ancestor, label=graph.labels[ancestor])
            drawn.add_edges_from((parent, ancestor) for parent in graph.parents[ancestor])
        graphs.append(drawn)
    return nx.is_isomorphic(*graphs, node_match=lambda left, right: left["label"] == right["label"])


def checked(estate: Estate) -> None:
    checker = Checker(TYPES)
    checker.submit("one", ONE, "water")
    checker.submit("two", TWO, "water")
    checker.check(estate)


def without(estate: Estate, task_id: str) -> Estate:
    return replace(estate, tasks={other_id: task for other_id, task in estate.tasks.items() if other_id != task_id})


def plus(estate: Estate, *tasks: RunningTask) -> Estate:
    return replace(estate, tasks={**estate.tasks, **{task.id: task for task in tasks}})


def test_a_sound_estate_passes():
    checked(submit(submit(EMPTY, ONE), TWO))


def test_whatever_is_broken_is_found():
    sound = submit(submit(EMPTY, ONE), TWO)
    running = sound.submitted["two"].running
    scale, sink = sound.tasks[running["a"]], sound.tasks[running["o"]]
    twin = replace(scale, id="twin")
    broken = {
        "nothing runs for": without(sound, sink.id),
        "a parent does not run": without(sound, scale.id),
        "gets another": plus(sound, replace(scale, config={**scale.config, "by": 2.0})),
        "no sink needs": plus(sound, replace(scale, id="spare", config={**scale.config, "by": 3.0})),
        "are one task": plus(sound, twin, replace(sound.tasks[running["b"]], parents=("twin",))),
    }
    for complaint, estate in broken.items():
        with pytest.raises(AssertionError, match=complaint):
            checked(estate)


def test_an_extra_stream_is_found():
    sound = submit(submit(EMPTY, ONE), TWO)
    running = sound.submitted["two"].running
    sink = sound.tasks[running["o"]]
    with pytest.raises(AssertionError, match="gets another"):
        checked(plus(sound, replace(sink, parents=(*sink.parents, running["a"]))))


def test_what_changes_under_its_id_is_compared_again():
    sound = submit(submit(EMPTY, ONE), TWO)
    checker = Checker(TYPES)
    checker.submit("one", ONE, "water")
    checker.submit("two", TWO, "water")
    checker.check(sound)
    scale = sound.tasks[sound.submitted["two"].running["a"]]
    with pytest.raises(AssertionError, match="gets another"):
        checker.check(plus(sound, replace(scale, config={**scale.config, "by": 2.0})))
