"""The set-up of all nodes' managers and reporters as what each is sent (paper [5], 3.4.2: algorithms 1 to 3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from scheduler.contracts.qos import OwnQuery, QosSetup, QosShare, QosStandIn, QosVertex, channel_text

from .constraints import Element, LatencyConstraint, along
from .managers import Manager, compute_qos_setup, reporters
from .runtime_graph import Channel, RuntimeGraph, Vertex
from .standing_in import successors


def qos_setups(
    graph: RuntimeGraph, constraints: Iterable[LatencyConstraint], *, longest_ms: Mapping[str, int],
    sources: Collection[str], reads: Mapping[str, Mapping[str, str]] | None = None, version: int = 0,
) -> dict[str, QosSetup]:
    """The set-up of each node, by node; those with neither queries nor anything to watch are left out.

    Parameters
    ----------
    graph : RuntimeGraph
        All queries that work: a task is a fragment, a vertex one of its queries.
    longest_ms : mapping of str to int
        The longest interval of batches, in ms by fragment.
    reads : mapping of str to mapping, optional
        By query, of each channel that it reads: the query that writes it.
    """
    managers = compute_qos_setup(graph, constraints)
    reports = reporters(graph, managers)
    watched = {manager.worker: _watched(manager, graph, longest_ms) for manager in managers}
    queries = _own_queries(graph, managers, longest_ms=longest_ms, sources=sources, reads=reads or {})
    stands_in: dict[str, dict[str, QosStandIn]] = defaultdict(dict)
    for away, nodes in successors(managers, graph).items():
        for number, node in enumerate(nodes):
            stands_in[node][away] = QosStandIn(*watched[away], nodes[:number])
    return {
        node: QosSetup(
            version, node, *watched.get(node, ((), {}, ())), _named(reports.get(node, {})),
            dict(sorted(queries[node].items())), stands_in.get(node, {}))
        for node in sorted(queries)}


def constraint_of(share: QosShare) -> LatencyConstraint:
    """The constraint of a share's sequences."""
    sequence = along(share.path)[0 if share.counts_first else 1: None if share.counts_last else -1]
    return LatencyConstraint(sequence, share.limit_s, share.over_s, share.percentile, share.waits)


def graph_of(setup: QosSetup) -> RuntimeGraph:
    """A manager's part of the runtime graph."""
    return RuntimeGraph(
        [Vertex(query, of.task, of.node) for query, of in setup.queries.items()],
        [Channel(*ends) for ends in setup.channels])


def text_of(element: Element) -> str:
    """A query or channel as reports name it."""
    return element if isinstance(element, str) else channel_text(element.source, element.target)


def _own_queries(
    graph: RuntimeGraph, managers: Iterable[Manager], *, longest_ms: Mapping[str, int], sources: Collection[str],
    reads: Mapping[str, Mapping[str, str]],
) -> Mapping[str, Mapping[str, OwnQuery]]:
    """The queries of each node, with who decides on them; of those that nobody decides on no channel is told."""
    deciding: dict[str, list[str]] = defaultdict(list)
    ending: set[str] = set()  # the fragments that a limit on a percentile ends with
    for manager in managers:
        for query in manager.vertices:
            deciding[query].append(manager.worker)
        constraints = (share.constraint for share in manager.shares)
        ending |= {constraint.last for constraint in constraints if constraint.percentile is not None}
    queries: dict[str, dict[str, OwnQuery]] = defaultdict(dict)
    for vertex in graph.vertices.values():
        queries[vertex.worker][vertex.id] = OwnQuery(
            longest_ms[vertex.task], tuple(deciding.get(vertex.id, ())), vertex.task in sources,
            reads.get(vertex.id, {}) if vertex.id in deciding else {}, vertex.task in ending)
    return queries


def _watched(
    manager: Manager, graph: RuntimeGraph, longest_ms: Mapping[str, int]
) -> tuple[tuple[QosShare, ...], dict[str, QosVertex], tuple[tuple[str, str], ...]]:
    """A manager's shares, and the graph that it needs for them."""
    vertices = (graph.vertices[query] for query in sorted(manager.vertices))
    return (
        tuple(_share(share.constraint, tuple(sorted(share.anchors))) for share in manager.shares),
        {vertex.id: QosVertex(vertex.task, vertex.worker, longest_ms[vertex.task]) for vertex in vertices},
        tuple(sorted((channel.source, channel.target) for channel in manager.channels)))


def _share(constraint: LatencyConstraint, anchors: tuple[str, ...]) -> QosShare:
    tasks = constraint.tasks
    return QosShare(
        tasks, constraint.limit_s, constraint.over_s, anchors, constraint.counts(tasks[0]), constraint.percentile,
        constraint.counts(tasks[-1]), constraint.waits)


def _named(reports: Mapping[str, Collection[Element]]) -> dict[str, tuple[str, ...]]:
    return {to: tuple(sorted(map(text_of, elements))) for to, elements in sorted(reports.items())}
