"""Dynamic task chaining: which tasks of a violated sequence become one query (paper [5], 3.5.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .runtime_graph import RuntimeGraph

CAPACITY = 0.9  # of a core: what a chain may take


@dataclass(frozen=True, slots=True)
class ChainingFacts:
    """What decides whether vertices may become one query.

    ``slots`` and ``cores`` are by vertex: where it runs, and the CPU that it takes there. ``apart`` are the vertices
    whose task says ``chain: never``; ``chains`` those that share a query already, by vertex.
    """

    slots: Mapping[str, str]
    cores: Mapping[str, float]
    apart: Collection[str] = ()
    chains: Mapping[str, str] = field(default_factory=dict)


def longest_chain(
    path: Sequence[str], graph: RuntimeGraph, facts: ChainingFacts, *, capacity: float = CAPACITY
) -> tuple[str, ...]:
    """The longest series of neighbours on a path that may become one query; of equal ones the first, or none.

    Parameters
    ----------
    path : sequence of str
        The vertices of a violated sequence, from its beginning to its end.
    graph : RuntimeGraph
        Where they are: all channels of a vertex count, also those that lie on no constraint.
    facts : ChainingFacts
        Slots, CPU, and what must stay apart.
    capacity : float, optional
        Cores that a chain may take in all.

    Notes
    -----
    The tasks run in the same slot, none of them in a chain already; their CPU is below ``capacity`` of a core; inside
    the series nothing enters or leaves by another channel, while the first may have several inputs and the last
    several outputs.
    """
    best: tuple[str, ...] = ()
    for start in range(len(path)):
        cores = 0.0
        for end in range(start, len(path)):
            vertex = path[end]
            cores += facts.cores.get(vertex, 0.0)
            if cores >= capacity or vertex in facts.apart or vertex in facts.chains:
                break
            if end > start and not _goes_on(path[end - 1], vertex, graph, facts):
                break
            if end > start and end - start + 1 > len(best):
                best = tuple(path[start: end + 1])
    return best


def overloaded(chain: Collection[str], cores: Mapping[str, float], *, capacity: float = CAPACITY) -> bool:
    """Whether a chain takes as much as it may, and has to be cut again."""
    return sum(cores.get(vertex, 0.0) for vertex in chain) >= capacity


def _goes_on(before: str, vertex: str, graph: RuntimeGraph, facts: ChainingFacts) -> bool:
    into, out_of = graph.into(vertex), graph.out_of(before)
    joined = len(out_of) == 1 and len(into) == 1 and out_of[0] == into[0]
    return joined and facts.slots[before] == facts.slots[vertex]
