"""Limits on very wide ways, and crowds of very many queries: decided by rules, for a program of them takes too long.

The site chooses the intervals of all teams one after the other. So what one limit may take is bounded by the size of
its way, and by no clock: what is chosen must not depend on how busy the machine is. The rules look up slowest paths as
programs do, a few times. All queries of a wide way get one interval (readers follow their writers then), the longest
with which the limit holds. The CPU of a slot is divided by max-min fairness. Ours.

References
----------
.. [1] Bertsekas and Gallager, "Data Networks", 1992, 6.5.2 (max-min fairness).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from .interval_rounding import rounded_s
from .pacing_values import Queries
from .triggers import BatchCost
from .ways import Way, upstream_of

MOST_STREAMS = 300  # between the queries of a limit: the programs of one with more take seconds
MOST_TOGETHER = 600  # queries, and streams between them, of one program
MOST_EFFORT = 40_000.0  # of all programs of one round, as `effort_of` counts it
STEPS = 48  # intervals that are tried of a wide way: each 18% longer than the one before


def is_wide(reads: Mapping[str, tuple[str, ...]], way: Way) -> bool:
    """True if a limit on this way is decided by the rule: more than `MOST_STREAMS` are between all queries upstream of
    its end."""
    return sum(len(reads.get(query, ())) for query in upstream_of(reads, way.writers)) > MOST_STREAMS


def one_interval_s(
    costs: Mapping[str, BatchCost], most_s: Mapping[str, float], latency_s: Callable[[Mapping[str, float]], float], *,
    limit_s: float, smallest_s: float, largest_s: float,
) -> tuple[dict[str, float], float]:
    """The intervals of the queries of a wide way: one of `STEPS` for all, the longest with which its limit holds.

    Parameters
    ----------
    costs : mapping of str to BatchCost
        Of its queries.
    most_s : mapping of str to float
        The intervals that they have otherwise: none gets a longer one.
    latency_s : callable
        The latency of the limit, by the intervals of these queries.

    Returns
    -------
    tuple
        The intervals, and the latency with them; the shortest ones where the limit holds with none.
    """
    def at(step: int) -> dict[str, float]:
        seconds = largest_s * (smallest_s / largest_s) ** (step / (STEPS - 1))
        return {query: min(most_s[query], rounded_s(max(seconds, cost.least_s), cost.least_s))
                for query, cost in costs.items()}

    low, high = 0, STEPS - 1
    while low < high:
        middle = (low + high) // 2
        if latency_s(at(middle)) <= limit_s:
            high = middle
        else:
            low = middle + 1
    return at(low), latency_s(at(low))


def crowd_shares(wanted_cores: Mapping[int, float], room: float) -> dict[int, float]:
    """Divide the CPU of a slot, in cores: who wants less than an even part gets it, the others share the rest evenly.

    Examples
    --------
    >>> crowd_shares({1: 0.1, 2: 0.9, 3: 2.0}, 0.9)
    {1: 0.1, 2: 0.4, 3: 0.4}
    """
    shares: dict[int, float] = {}
    for number, (name, cores) in enumerate(sorted(wanted_cores.items(), key=lambda item: (item[1], item[0]))):
        shares[name] = min(cores, max(0.0, room - sum(shares.values())) / (len(wanted_cores) - number))
    return shares


def in_shares(
    queries: Queries, groups: Sequence[Sequence[str]], slots: Iterable[str], interval_s: Mapping[str, float]
) -> dict[str, float]:
    """The intervals of queries of crowded slots, longer where a group of them takes more than its share of a slot: by
    one factor, and no longer than the longest of each query. Those of other slots stay."""
    stretched = dict(interval_s)
    for slot in slots:
        here = {number: [query for query in group if queries.slot_of.get(query) == slot]
                for number, group in enumerate(groups)}
        wanted_cores = {number: sum(queries.costs[query].cores(interval_s[query]) for query in names)
                  for number, names in here.items() if names}
        for number, share in crowd_shares(wanted_cores, queries.capacity[slot]).items():
            if share >= wanted_cores[number]:
                continue
            costs = {query: queries.costs[query] for query in here[number]}
            longest_s = {query: min(queries.largest_s, queries.bounds_s.get(query, queries.largest_s))
                         for query in costs}
            times = _times_longer(costs, interval_s, longest_s, share)
            stretched |= {query: max(interval_s[query], min(longest_s[query], times * interval_s[query]))
                          for query in costs}
    return stretched


def _times_longer(
    costs: Mapping[str, BatchCost], interval_s: Mapping[str, float], longest_s: Mapping[str, float], cores: float
) -> float:
    """The factor by which intervals have to be longer so that queries take no more than so many cores; infinite where
    they take more at their longest intervals."""
    remaining_cores = cores - sum(cost.rate_per_s * cost.event_cpu_s for cost in costs.values())
    batches = sum(cost.batch_cpu_s / interval_s[query] for query, cost in costs.items())
    for query in sorted(costs, key=lambda query: (longest_s[query] / interval_s[query], query)):
        if remaining_cores <= 0:
            break
        if batches / remaining_cores <= longest_s[query] / interval_s[query]:
            return batches / remaining_cores
        remaining_cores -= costs[query].batch_cpu_s / longest_s[query]
        batches -= costs[query].batch_cpu_s / interval_s[query]
    return math.inf


def total_size(reads: Mapping[str, tuple[str, ...]], queries: Iterable[str]) -> int:
    """The queries, and the streams between them, that a program of these would have."""
    return sum(1 + len(reads.get(query, ())) for query in queries)


def effort_of(reads: Mapping[str, tuple[str, ...]], queries: Collection[str]) -> float:
    """The effort of a program of these queries, in units of which 5,000 to 9,000 took a CPU second on the machine that
    they were measured on; nothing of one query."""
    return total_size(reads, queries) ** 1.5 if len(queries) > 1 else 0.0
