"""Shares of nodes in a latency constraint (paper [5], 3.4.2: algorithms 1 to 3).

Each sequence of the runtime graph that a constraint covers goes through exactly one vertex of the constraint's anchor
task. The node of that vertex manages it, so each is managed exactly once, and no node needs the whole graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .constraints import Element, LatencyConstraint
from .runtime_graph import Channel, RuntimeGraph


@dataclass(frozen=True, slots=True)
class Share:
    """A manager's share of one constraint: every sequence through its ``anchors``, and what lies on these."""

    constraint: LatencyConstraint
    anchors: frozenset[str]
    vertices: frozenset[str]
    channels: frozenset[Channel]


@dataclass(frozen=True, slots=True)
class Manager:
    """The QoS manager of a node: its shares of constraints. A node has one at most."""

    worker: str
    shares: tuple[Share, ...]

    @property
    def vertices(self) -> frozenset[str]:
        """The vertices of its subgraph."""
        return frozenset().union(*(share.vertices for share in self.shares))

    @property
    def channels(self) -> frozenset[Channel]:
        """The channels of its subgraph."""
        return frozenset().union(*(share.channels for share in self.shares))


def compute_qos_setup(graph: RuntimeGraph, constraints: Iterable[LatencyConstraint]) -> tuple[Manager, ...]:
    """ComputeQoSSetup (algorithm 1): the managers of all constraints, by the names of their nodes.

    A constraint is a path through the job graph, so GetConstrainedPaths has one path for each. Where a node manages
    parts of several, its graphs are merged; what it watches of each stays apart, for in the merged graph there may be
    sequences of a constraint that another node manages.
    """
    shares: dict[str, list[Share]] = defaultdict(list)
    for constraint in constraints:
        for worker, share in get_qos_managers(graph, constraint):
            shares[worker].append(share)
    return tuple(Manager(worker, tuple(shares[worker])) for worker in sorted(shares))


def get_qos_managers(graph: RuntimeGraph, constraint: LatencyConstraint) -> list[tuple[str, Share]]:
    """GetQoSManagers (algorithm 2): the nodes that manage one constraint, and each one's share of it."""
    anchor = get_anchor_vertex(graph, constraint.tasks)
    allocations = []
    for worker, anchors in partition_by_worker(graph, anchor).items():
        share = graph_expand(graph, constraint, anchor, anchors)
        if share.vertices:
            allocations.append((worker, share))
    return allocations


def get_anchor_vertex(graph: RuntimeGraph, path: Sequence[str]) -> str:
    """GetAnchorVertex (algorithm 3): of the tasks on most nodes, the first of those with the fewest channels.

    A task's channels are those of its stream into or out of it along the path, whichever has fewer.
    """
    workers = {task: len({vertex.worker for vertex in graph.of_task(task)}) for task in path}
    most = max(workers.values())
    channels = _channel_counts(graph, path)
    candidates = [(position, task) for position, task in enumerate(path) if workers[task] == most]
    return min(candidates, key=lambda candidate: min(channels[candidate[0]: candidate[0] + 2]))[1]


def partition_by_worker(graph: RuntimeGraph, task: str) -> Mapping[str, frozenset[str]]:
    """PartitionByWorker: the vertices of a task by the node that they are on."""
    vertices: dict[str, set[str]] = defaultdict(set)
    for vertex in graph.of_task(task):
        vertices[vertex.worker].add(vertex.id)
    return {worker: frozenset(ids) for worker, ids in vertices.items()}


def graph_expand(graph: RuntimeGraph, constraint: LatencyConstraint, anchor: str, anchors: frozenset[str]) -> Share:
    """GraphExpand: what lies on a sequence of the constraint through one of the anchors, and nothing else.

    Parameters
    ----------
    constraint : LatencyConstraint
        Its tasks are the path along which the graph is followed.
    anchors : frozenset of str
        Those of its vertices that are on one node.
    """
    path = constraint.tasks
    position = path.index(anchor)
    vertices, channels = set(anchors), set[Channel]()
    # Backwards and forwards from the anchors; then what leads to no end of the path is left out.
    layers: list[set[str]] = [set() for _ in path]
    layers[position] = set(anchors)
    for at in range(position, 0, -1):
        layers[at - 1] = {channel.source for vertex in layers[at] for channel in graph.into(vertex)
                          if graph.vertices[channel.source].task == path[at - 1]}
    for at in range(position, len(path) - 1):
        layers[at + 1] = {channel.target for vertex in layers[at] for channel in graph.out_of(vertex)
                          if graph.vertices[channel.target].task == path[at + 1]}
    _prune(graph, layers)
    vertices = set().union(*layers)
    for here, ahead in pairwise(layers):
        channels |= {channel for vertex in here for channel in graph.out_of(vertex) if channel.target in ahead}
    return Share(constraint, frozenset(anchors & layers[position]), frozenset(vertices), frozenset(channels))


def reporters(graph: RuntimeGraph, managers: Iterable[Manager]) -> Mapping[str, Mapping[str, frozenset[Element]]]:
    """The elements that each node's reporter measures for each manager: by node, then by
    manager's node.

    A task is measured where it runs. A channel is measured where it is read: there blocks wait for a batch.
    """
    reports: dict[str, dict[str, set[Element]]] = defaultdict(lambda: defaultdict(set))
    for manager in managers:
        for vertex in manager.vertices:
            reports[graph.vertices[vertex].worker][manager.worker].add(vertex)
        for channel in manager.channels:
            reports[graph.vertices[channel.target].worker][manager.worker].add(channel)
    return {worker: {to: frozenset(elements) for to, elements in by_manager.items()}
            for worker, by_manager in reports.items()}


def _channel_counts(graph: RuntimeGraph, path: Sequence[str]) -> list[float]:
    """Number of channels of the stream into each task of the path; before the first and after the last: infinite."""
    counts = [float("inf")]
    for source, target in pairwise(path):
        counts.append(sum(graph.vertices[channel.target].task == target
                          for vertex in graph.of_task(source) for channel in graph.out_of(vertex.id)))
    return [*counts, float("inf")]


def _prune(graph: RuntimeGraph, layers: list[set[str]]) -> None:
    """Leave out of each layer what has no way from the first one, or none to the last one."""
    for before, here in pairwise(layers):
        here &= {channel.target for vertex in before for channel in graph.out_of(vertex)}
    for after, here in pairwise(reversed(layers)):
        here &= {channel.source for vertex in after for channel in graph.into(vertex)}
