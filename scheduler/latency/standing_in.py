"""Stand-ins for the managers of nodes that are away: nodes find that out by themselves. Ours.

Reports to a manager, and what it wishes, are in the broker under the name of its node. So who stands in reads and says
the same under that name, and nobody else needs to know who manages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from scheduler.contracts.qos import QosStandIn

from .managers import Manager
from .runtime_graph import RuntimeGraph

STAND_INS = 2  # of each manager
AWAY_S = 10.0  # after the last report of a node has expired
GAP_S = 5.0  # without a look: nobody could be heard then


def successors(managers: Iterable[Manager], graph: RuntimeGraph) -> dict[str, tuple[str, ...]]:
    """The stand-ins of each manager, the first one first: the other nodes with most of its queries."""
    ordered = {}
    for manager in managers:
        number = Counter(graph.vertices[query].worker for query in manager.vertices)
        del number[manager.worker]
        by_number = sorted((-queries, worker) for worker, queries in number.items())
        ordered[manager.worker] = tuple(worker for _, worker in by_number[:STAND_INS])
    return ordered


class Hearing:
    """The knowledge of which nodes are away: those of which nothing was heard for `AWAY_S`.

    Parameters
    ----------
    nodes : iterable of str
        The nodes; each counts as heard of when this begins.
    """

    def __init__(self, nodes: Iterable[str], *, now_s: float) -> None:
        self._heard_s = dict.fromkeys(nodes, now_s)
        self._looked_s = now_s

    def away(self, heard: Collection[str], now_s: float) -> frozenset[str]:
        """The nodes that are away now. Where nobody could look for a while, nobody was silent in it."""
        silent = now_s - self._looked_s <= GAP_S
        self._looked_s = now_s
        for node in self._heard_s:
            if node in heard or not silent:
                self._heard_s[node] = now_s
        return frozenset(node for node, heard_s in self._heard_s.items() if now_s - heard_s >= AWAY_S)


def stood_in_for(stands_in: Mapping[str, QosStandIn], away: Collection[str]) -> frozenset[str]:
    """The nodes for whose managers this one acts: they are away, and so are all that would come before it."""
    return frozenset(
        node for node, part in stands_in.items()
        if node in away and all(earlier_node in away for earlier_node in part.before))


def listened_for(stands_in: Mapping[str, QosStandIn]) -> frozenset[str]:
    """The nodes of which it has to be known whether they are away."""
    return frozenset(stands_in).union(*(part.before for part in stands_in.values()))
