"""Dynamic task chaining: which tasks of a violated sequence become one query (paper [5], 3.5.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.model.checks import FiniteFigures

from .runtime_graph import RuntimeGraph

CAPACITY = 0.9  # of a core: what a chain may take
FUSES_BELOW = 0.7  # cores of what is fused: less than what a chain is cut at, or it would go back and forth
EXACT = 1e-9  # of a core: what a sum of floats may be too small by


@dataclass(frozen=True, slots=True)
class ChainingFacts(FiniteFigures):
    """The facts that decide whether vertices may become one query.

    By vertex: ``slots``, where it runs; ``cores``, the CPU that it takes there; ``chains``, the vertices that share its
    query; ``once``, the part of its CPU that is the overhead of a query, which a chain takes only once (0 where
    unknown, as in the paper). ``apart``: the vertices whose task says ``chain: never``.
    """

    slots: Mapping[str, str]
    cores: Mapping[str, float]
    apart: Collection[str] = ()
    chains: Mapping[str, str] = field(default_factory=dict)
    once: Mapping[str, float] = field(default_factory=dict)

    def saved_by(self, vertices: Collection[str]) -> float:
        """Cores that vertices take less as one query."""
        once = [min(self.once.get(vertex, 0.0), self.cores.get(vertex, 0.0)) for vertex in vertices]
        return sum(once) - max(once, default=0.0)


def chainable_series(
    path: Sequence[str], graph: RuntimeGraph, facts: ChainingFacts, *, capacity: float = CAPACITY
) -> tuple[tuple[str, ...], ...]:
    """Every series of two and more neighbours on a path that may become one query: the longest first, of equal ones
    that which begins first.

    Parameters
    ----------
    path : sequence of str
        The vertices of a violated sequence, from its beginning to its end.
    graph : RuntimeGraph
        The graph of their vertices: all channels of a vertex count, also those that lie on no constraint.
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
    series_found: list[tuple[str, ...]] = []
    for start in range(len(path)):
        for end in range(start, len(path)):
            vertex, series = path[end], tuple(path[start: end + 1])
            if vertex in facts.apart or vertex in facts.chains:
                break
            if end > start and not _goes_on(path[end - 1], vertex, graph, facts):
                break
            # One vertex more never takes less, so no longer series has room either.
            if sum(facts.cores.get(name, 0.0) for name in series) - facts.saved_by(series) >= capacity - EXACT:
                break
            if end > start:
                series_found.append(series)
    return tuple(sorted(series_found, key=len, reverse=True))


def _goes_on(before: str, vertex: str, graph: RuntimeGraph, facts: ChainingFacts) -> bool:
    into, out_of = graph.into(vertex), graph.out_of(before)
    joined = len(out_of) == 1 and len(into) == 1 and out_of[0] == into[0]
    return joined and facts.slots[before] == facts.slots[vertex]
