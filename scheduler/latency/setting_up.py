"""The set-up of all nodes' managers and reporters as what each is sent (paper [5], 3.4.2: algorithms 1 to 3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from scheduler.contracts.qos import OwnQuery, QosSetup, QosShare, QosVertex, channel_text

from .constraints import Element, LatencyConstraint, along
from .managers import Manager, Share, compute_qos_setup, reporters
from .runtime_graph import Channel, RuntimeGraph, Vertex


def qos_setups(
    graph: RuntimeGraph, constraints: Iterable[LatencyConstraint], *, up: Collection[str],
    longest_ms: Mapping[str, int], sources: Collection[str], version: int = 0,
) -> dict[str, QosSetup]:
    """What each node is sent, by node; those with neither queries nor anything to watch are left out.

    Parameters
    ----------
    graph : RuntimeGraph
        All queries that work: a task is a fragment, a vertex one of its queries.
    constraints : iterable of LatencyConstraint
        Along fragments of the graph.
    up : collection of str
        The nodes that are heard of: who watched for another one gives its share to one of these.
    longest_ms : mapping of str to int
        How far apart batches may be at most, by fragment.
    sources : collection of str
        The fragments that events come into from outside.
    version : int, optional
        Of all these.
    """
    managers = stood_in(compute_qos_setup(graph, constraints), graph, up=up)
    reports = reporters(graph, managers)
    deciding: dict[str, list[str]] = defaultdict(list)
    for manager in managers:
        for query in manager.vertices:
            deciding[query].append(manager.worker)
    own: dict[str, dict[str, OwnQuery]] = defaultdict(dict)
    for vertex in graph.vertices.values():
        own[vertex.worker][vertex.id] = OwnQuery(
            longest_ms[vertex.task], tuple(deciding.get(vertex.id, ())), vertex.task in sources)
    watching = {manager.worker: manager for manager in managers}
    return {
        node: _setup(node, version, graph, watching.get(node, Manager(node, ())), reports.get(node, {}), own[node])
        for node in sorted({*own, *watching})}


def stood_in(managers: Iterable[Manager], graph: RuntimeGraph, *, up: Collection[str]) -> tuple[Manager, ...]:
    """The managers with the shares of nodes that are away given to others: to that node which has most of a share.

    A share of which no node is heard stays where it is, for none of it works.
    """
    shares: dict[str, list[Share]] = defaultdict(list)
    for manager in managers:
        for share in manager.shares:
            shares[manager.worker if manager.worker in up else _nearest(share, graph, up) or manager.worker].append(
                share)
    return tuple(Manager(worker, tuple(shares[worker])) for worker in sorted(shares))


def constraint_of(share: QosShare) -> LatencyConstraint:
    """What a share's sequences are held to."""
    return LatencyConstraint(along(share.path)[0 if share.counts_first else 1:], share.limit_s, share.over_s)


def graph_of(setup: QosSetup) -> RuntimeGraph:
    """What a manager knows of the runtime graph."""
    return RuntimeGraph(
        [_vertex(query, of) for query, of in setup.queries.items()], [Channel(*ends) for ends in setup.channels])


def text_of(element: Element) -> str:
    """A query or channel as reports name it."""
    return element if isinstance(element, str) else channel_text(element.source, element.target)


def _vertex(query: str, of: QosVertex) -> Vertex:
    return Vertex(query, of.task, of.node)


def _nearest(share: Share, graph: RuntimeGraph, up: Collection[str]) -> str | None:
    number = Counter(worker for vertex in share.vertices if (worker := graph.vertices[vertex].worker) in up)
    return min(number, key=lambda worker: (-number[worker], worker), default=None)


def _setup(
    node: str, version: int, graph: RuntimeGraph, manager: Manager, reports: Mapping[str, Collection[Element]],
    own: Mapping[str, OwnQuery],
) -> QosSetup:
    vertices = (graph.vertices[query] for query in sorted(manager.vertices))
    return QosSetup(
        version=version, node=node,
        shares=tuple(
            QosShare(share.constraint.tasks, share.constraint.limit_s, share.constraint.over_s,
                     tuple(sorted(share.anchors)), share.constraint.counts(share.constraint.tasks[0]))
            for share in manager.shares),
        queries={vertex.id: QosVertex(vertex.task, vertex.worker) for vertex in vertices},
        channels=tuple(sorted((channel.source, channel.target) for channel in manager.channels)),
        reports={to: tuple(sorted(map(text_of, elements))) for to, elements in sorted(reports.items())},
        own=dict(sorted(own.items())))
