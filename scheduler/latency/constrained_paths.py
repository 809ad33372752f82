"""GetConstrainedPaths (paper [5], 3.4.2): the paths of queries that a limit covers, as constraints of managers.

A limit of the paper is on one path; one of a dataflow is on each path of its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from .constraints import LatencyConstraint, along
from .ways import Way

MOST_PATHS = 256  # of one limit, to be watched each
MIDDLE = 50.0  # the percentile that is the mean of ages that are spread evenly


def constrained_paths(way: Way) -> tuple[tuple[str, ...], ...]:
    """Every path of a way from a start to an end; of more than `MOST_PATHS` so many that each stream is on one."""
    forward = _within(way)
    number: dict[str, int] = {}  # of paths from each query to an end
    for query in reversed(way.upstream_first):
        number[query] = (query in way.ends) + sum(number[reader] for reader in forward.get(query, ()))
    if sum(number.get(query, 0) for query in way.starts) <= MOST_PATHS:
        return tuple(path for start in sorted(way.starts & forward.keys()) for path in _all_from(start, way, forward))
    return _covering(way, forward)


def constraints_on(
    way: Way, *, limit_s: float, over_s: float, percentile: float | None = None,
) -> list[LatencyConstraint]:
    """The constraints that a limit on a way gives.

    Parameters
    ----------
    limit_s, over_s : float
        The limit, and the span of its mean, in seconds.

    Returns
    -------
    list of LatencyConstraint
        None of a limit on a stream within a query, which takes no time.
    """
    mean_s, passed = limit_s * MIDDLE / (percentile or MIDDLE), way.counted.passed
    sequences = (
        tuple(element for element in along(path) if element not in passed) for path in constrained_paths(way))
    return [LatencyConstraint(sequence, mean_s, over_s, percentile, way.counted.waits)
            for sequence in sequences if sequence]


def strictest(constraints: Iterable[LatencyConstraint]) -> list[LatencyConstraint]:
    """The constraint with the lowest limit of those on the same path, over the same span and on the same percentile:
    dataflows share queries."""
    least: dict[object, LatencyConstraint] = {}
    for constraint in constraints:
        key = (constraint.sequence, constraint.over_s, constraint.percentile, constraint.waits)
        if key not in least or constraint.limit_s < least[key].limit_s:
            least[key] = constraint
    return list(least.values())


def _within(way: Way) -> dict[str, list[str]]:
    """The readers of each query that lies between a start and an end."""
    reached: set[str] = set()
    for query in way.upstream_first:
        if query in way.starts or reached.intersection(way.writers[query]):
            reached.add(query)
    leads: dict[str, list[str]] = {}
    for query in reversed(way.upstream_first):
        if query in reached and (query in way.ends or leads.get(query)):
            leads.setdefault(query, [])
            for writer in way.writers[query]:
                if writer in reached:
                    leads.setdefault(writer, []).append(query)
    return leads


def _all_from(query: str, way: Way, forward: Mapping[str, list[str]]) -> Iterator[tuple[str, ...]]:
    waiting = [(query,)]
    while waiting:
        path = waiting.pop()
        if path[-1] in way.ends:
            yield path
        waiting += [(*path, reader) for reader in sorted(forward[path[-1]], reverse=True)]


def _covering(way: Way, forward: Mapping[str, list[str]]) -> tuple[tuple[str, ...], ...]:
    until: dict[str, tuple[str, ...]] = {}  # some path from a start
    for query in way.upstream_first:
        if query in forward:
            writer = next((writer for writer in way.writers[query] if writer in until), None)
            until[query] = (query,) if query in way.starts or writer is None else (*until[writer], query)
    path_to_end: dict[str, tuple[str, ...]] = {}  # some path to an end
    for query in reversed(way.upstream_first):
        if query in forward:
            path_to_end[query] = (query,) if query in way.ends else (query, *path_to_end[forward[query][0]])
    paths = {until[query] for query in way.ends & until.keys()}
    covered_streams = {stream for path in paths for stream in pairwise(path)}
    for query, readers in forward.items():
        for reader in readers:
            if (query, reader) not in covered_streams:
                path = (*until[query], *path_to_end[reader])
                paths.add(path)
                covered_streams.update(pairwise(path))
    return tuple(sorted(paths))
