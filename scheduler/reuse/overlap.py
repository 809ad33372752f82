"""Overlap between submitted dataflows: how many running tasks two of them share, and an order that shows clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np


def shared_tasks(tasks_of: Sequence[Iterable[str]]) -> np.ndarray:
    """The number of running tasks that each two dataflows share.

    Tasks that serve the same dataflows count as one column with a weight, and those that serve one dataflow need none:
    the product is of as many columns as there are ways to share, which is few where whole trunks are shared.

    Parameters
    ----------
    tasks_of : sequence of iterables of str
        For each dataflow, the running tasks that serve it.
    """
    tasks = [frozenset(task_ids) for task_ids in tasks_of]
    users: dict[str, list[int]] = {}
    for position, task_ids in enumerate(tasks):
        for task_id in task_ids:
            users.setdefault(task_id, []).append(position)
    position_sets = Counter(tuple(positions) for positions in users.values() if len(positions) > 1)
    incidence = np.zeros((len(tasks), len(position_sets)), dtype=np.float64)
    for column, positions in enumerate(position_sets):
        incidence[list(positions), column] = 1.0
    shared = (incidence * np.fromiter(position_sets.values(), dtype=np.float64, count=len(position_sets))) @ incidence.T
    overlaps = shared.astype(np.int64)
    np.fill_diagonal(overlaps, [len(task_ids) for task_ids in tasks])
    return overlaps


def share_of_smaller(shared: np.ndarray) -> np.ndarray:
    """Shared tasks as a part of the smaller dataflow's, 0 to 1 (the Szymkiewicz-Simpson coefficient).

    1 if one dataflow is wholly part of the other, however large that is. ``shared`` as `shared_tasks` gives it.
    """
    sizes = np.diagonal(shared)
    smaller = np.minimum.outer(sizes, sizes)
    return np.divide(shared, smaller, out=np.zeros(shared.shape), where=smaller > 0)


def cluster_order(similarity: np.ndarray) -> tuple[int, ...]:
    """An order in which alike stand together: unweighted average linkage (UPGMA), its leaves turned to their likes.

    Clusters are joined by the nearest-neighbour chain [1], in time quadratic in their number. Where two are joined,
    each may be turned round; they are put so that the two that meet are the most alike [2]. What is alike to nothing
    is joined to nothing: clusters follow each other from the largest to the smallest.

    Parameters
    ----------
    similarity : numpy.ndarray
        Symmetric and not negative; the diagonal does not count.

    Returns
    -------
    tuple of int
        Positions, each once; the same for the same matrix.

    References
    ----------
    .. [1] Murtagh, "A Survey of Recent Advances in Hierarchical Clustering Algorithms", 1983.
    .. [2] Gruvaeus and Wainer, "Two Additions to Hierarchical Cluster Analysis", 1972.
    """
    original = np.asarray(similarity, dtype=np.float64)
    linked = original.copy()
    np.fill_diagonal(linked, -1.0)
    leaves = {position: [position] for position in range(len(linked))}
    finished: list[list[int]] = []
    chain: list[int] = []
    while leaves:
        if not chain:
            chain.append(min(leaves))
        last = chain[-1]
        nearest = int(np.argmax(linked[last]))
        if len(chain) > 1 and linked[last, chain[-2]] == linked[last, nearest]:
            nearest = chain[-2]  # of equals the one before: along the chain similarity grows, so it ends
        if linked[last, nearest] <= 0:
            finished.append(leaves.pop(last))
            linked[:, last] = -1.0
            chain.pop()
        elif len(chain) > 1 and nearest == chain[-2]:
            _join(linked, leaves, last, nearest, original)
            del chain[-2:]
        else:
            chain.append(nearest)
    return tuple(
        leaf for cluster in sorted(finished, key=lambda cluster: (-len(cluster), min(cluster))) for leaf in cluster
    )


def _join(linked: np.ndarray, leaves: dict[int, list[int]], gone: int, survivor: int, original: np.ndarray) -> None:
    """Make one cluster of two, under the one's position; its similarity to another is the average over its members."""
    one, other = len(leaves[gone]), len(leaves[survivor])
    average = (one * linked[gone] + other * linked[survivor]) / (one + other)
    average[linked[survivor] < 0] = -1.0  # what is no more stays so
    linked[survivor], linked[:, survivor] = average, average
    linked[survivor, survivor] = -1.0
    linked[gone], linked[:, gone] = -1.0, -1.0
    leaves[survivor] = _facing(leaves[survivor], leaves.pop(gone), original)


def _facing(one: list[int], other: list[int], similarity: np.ndarray) -> list[int]:
    """The two in a row, each turned so that the ends that meet are the most alike."""
    orders = [(a, b) for a in (one, one[::-1]) for b in (other, other[::-1])]
    left, right = max(orders, key=lambda way: similarity[way[0][-1], way[1][0]])
    return left + right
