"""Random runtime graphs of a path of tasks, and all their sequences by listing them: what constraints are held to."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise, product

from hypothesis import strategies as st

from scheduler.latency.constraints import Element, Latencies, LatencyConstraint, along
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex


@st.composite
def graphs(draw: st.DrawFn, *, tasks: int = 4, bundles: int = 4, workers: int = 4) -> RuntimeGraph:
    """Layers of bundles with some of the channels between neighbours, and a task beside the path that reads one."""
    names = [f"t{number}" for number in range(draw(st.integers(1, tasks)))]
    vertices = [Vertex(f"{name}.{number}", name, f"n{draw(st.integers(1, workers))}")
                for name in names for number in range(draw(st.integers(1, bundles)))]
    beside = Vertex("beside.0", "beside", "n1")
    channels = [Channel(source.id, target.id)
                for before, after in pairwise(names)
                for source, target in product(
                    [vertex for vertex in vertices if vertex.task == before],
                    [vertex for vertex in vertices if vertex.task == after])
                if draw(st.integers(0, 3))]
    channels += [Channel(vertices[0].id, beside.id)]
    return RuntimeGraph([*vertices, beside], channels)


@st.composite
def constraints(draw: st.DrawFn, graph: RuntimeGraph) -> LatencyConstraint:
    """A part of the path, with or without the elements at its ends."""
    path = [task for task in graph.by_task if task != "beside"]
    first = draw(st.integers(0, len(path) - 1))
    last = draw(st.integers(first, len(path) - 1))
    sequence = along(tuple(path[first: last + 1]))
    if len(sequence) >= 3:
        sequence = sequence[draw(st.integers(0, 1)): len(sequence) - draw(st.integers(0, 1))]
    return LatencyConstraint(sequence, limit_s=draw(st.integers(1, 12)), over_s=10)


@st.composite
def latencies(draw: st.DrawFn, graph: RuntimeGraph) -> Latencies:
    """Whole seconds, so that sums are exact."""
    elements: list[Element] = [*graph.vertices, *graph.channels]
    return {element: float(draw(st.integers(0, 6))) for element in elements if draw(st.integers(0, 5))}


def sequences(
    constraint: LatencyConstraint, graph: RuntimeGraph, anchors: Collection[str] | None = None
) -> list[tuple[str, ...]]:
    """Every path of vertices that the constraint covers, one by one; with anchors those through one of them."""
    tasks, channels = constraint.tasks, set(graph.channels)
    layers = [[vertex.id for vertex in graph.of_task(task)] for task in tasks]
    return [
        path for path in product(*layers) if all(Channel(*ends) in channels for ends in pairwise(path))
        and (anchors is None or not set(anchors).isdisjoint(path))]


def elements(constraint: LatencyConstraint, graph: RuntimeGraph, path: tuple[str, ...]) -> set[Element]:
    """What counts of a sequence, by the definition."""
    vertices = {vertex for vertex in path if graph.vertices[vertex].task in constraint.sequence}
    channels = {Channel(*ends) for ends in pairwise(path)
                if (graph.vertices[ends[0]].task, graph.vertices[ends[1]].task) in constraint.sequence}
    return vertices | channels


def latency_s(
    constraint: LatencyConstraint, graph: RuntimeGraph, path: tuple[str, ...], latencies: Latencies
) -> float:
    """The latency of one sequence, by its definition (3.2.3)."""
    return sum(latencies.get(element, 0.0) for element in elements(constraint, graph, path))
