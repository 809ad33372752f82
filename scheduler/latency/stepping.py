"""Adaptive output buffer sizing (paper [5], 3.5.1, equation 2) on intervals: small steps by what is measured.

The lifetime of an output buffer is here the interval of a query's batches: events wait half of it. Selectable in place
of `pacing.pace`, and compared with it in ``docs/latency.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .buffers import BufferSizing, adapted_size
from .pacing import Pacing, Queries, Wanted, expected_at

SHRINK = 0.98  # r, for each ms that events wait
GROW = 1.1  # s


def step(queries: Queries, wants: Sequence[Wanted], measured_s: Mapping[str, float]) -> Pacing:
    """The next intervals: shorter along the slowest way of each limit that is missed, longer where nobody waits.

    Parameters
    ----------
    queries : Queries
        The queries that work; ``before_s`` says which intervals they have.
    wants : sequence of Wanted
        Limits, on ways of these queries.
    measured_s : mapping of str to float
        Mean latency of each limit, by key, since intervals changed last; those that are not measured yet wait.

    Returns
    -------
    Pacing
        What limits come to is what the model says of the new intervals.
    """
    interval_s = {query: queries.before_s.get(query, queries.largest_s) for query in queries.costs}
    sizing = BufferSizing(smallest=queries.smallest_s, largest=queries.largest_s, shrink=SHRINK, grow=GROW)
    now = expected_at(queries, wants, interval_s)
    on_a_way = {query for want in wants for query in want.way.writers}
    stepped = dict(interval_s)
    for want in wants:
        latency_s = measured_s.get(want.key)
        if latency_s is None or latency_s <= want.limit_s:
            continue
        for query in now[want.key].path:
            least_s = min(queries.costs[query].least_s, queries.largest_s)
            wanted_s = adapted_size(
                interval_s[query], lifetime_s=interval_s[query], source_latency_s=queries.costs[query].batch_s,
                sizing=sizing)
            stepped[query] = min(stepped[query], max(least_s, wanted_s))
    for query, seconds in interval_s.items():
        bound_s = min(queries.largest_s, queries.bounds_s.get(query, queries.largest_s))
        if query not in on_a_way or seconds / 2 <= sizing.no_latency_s:
            stepped[query] = min(bound_s, GROW * seconds)
        stepped[query] = min(bound_s, stepped[query])
    expected = expected_at(queries, wants, stepped)
    cores = sum(cost.cores(stepped[query]) for query, cost in queries.costs.items())
    return Pacing(stepped, cores, expected)
