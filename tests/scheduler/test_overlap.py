"""Overlap against counting by hand, and the order of clusters against average linkage written the slow way."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.reuse.overlap import cluster_order, share_of_smaller, shared_tasks

DATAFLOWS = st.lists(st.sets(st.sampled_from("abcdefghij")), max_size=9)
GROUPS = st.lists(st.integers(0, 4), min_size=1, max_size=14)


@given(DATAFLOWS)
def test_shared_tasks_are_the_intersections(dataflows: list[set[str]]) -> None:
    shared = shared_tasks(dataflows)
    assert shared.shape == (len(dataflows), len(dataflows))
    for i, one in enumerate(dataflows):
        for j, other in enumerate(dataflows):
            assert shared[i, j] == len(one & other)


@given(DATAFLOWS)
def test_the_share_of_the_smaller(dataflows: list[set[str]]) -> None:
    share = share_of_smaller(shared_tasks(dataflows))
    for i, one in enumerate(dataflows):
        for j, other in enumerate(dataflows):
            smaller = min(len(one), len(other))
            assert share[i, j] == (pytest.approx(len(one & other) / smaller) if smaller else 0)
            if one and one <= other:
                assert share[i, j] == 1


@given(DATAFLOWS)
def test_an_order_has_everything_once_and_is_the_same_each_time(dataflows: list[set[str]]) -> None:
    similarity = share_of_smaller(shared_tasks(dataflows))
    order = cluster_order(similarity)
    assert sorted(order) == list(range(len(dataflows)))
    assert order == cluster_order(similarity)


@given(DATAFLOWS)
def test_what_is_joined_by_sharing_stands_together_the_largest_first(dataflows: list[set[str]]) -> None:
    order = cluster_order(share_of_smaller(shared_tasks(dataflows)))
    runs = runs_of([group_of(dataflows, position) for position in order])
    assert len(runs) == len({frozenset(group) for group, _ in runs}), "no group is torn apart"
    assert [length for _, length in runs] == sorted((length for _, length in runs), reverse=True)


@given(GROUPS, st.randoms(use_true_random=False))
def test_alike_stand_together_within_what_shares_a_source(groups: list[int], chance) -> None:
    """Everything shares a little, the members of a group much: each group is one run of the order."""
    similarity = np.array([[0.9 if one == other else 0.1 for other in groups] for one in groups])
    order = cluster_order(similarity)
    assert len(runs_of([groups[position] for position in order])) == len(set(groups))


@given(st.integers(2, 9), st.integers(0, 10**6))
def test_every_cluster_of_average_linkage_is_a_run_of_the_order(size: int, seed: int) -> None:
    values = np.random.default_rng(seed).random((size, size)) + 0.01  # no two averages are equal
    similarity = np.triu(values, 1) + np.triu(values, 1).T
    place = {position: index for index, position in enumerate(cluster_order(similarity))}
    for cluster in average_linkage(similarity):
        places = sorted(place[position] for position in cluster)
        assert places[-1] - places[0] == len(cluster) - 1


def test_clusters_are_turned_so_that_the_most_alike_meet() -> None:
    """Two pairs, of which one of each is alike: those two stand in the middle."""
    similarity = np.array([[1, .9, .3, 0], [.9, 1, 0, 0], [.3, 0, 1, .9], [0, 0, .9, 1]])
    assert cluster_order(similarity) in {(1, 0, 2, 3), (3, 2, 0, 1)}


@pytest.mark.parametrize("size", [0, 1])
def test_next_to_nothing_has_an_order(size: int) -> None:
    assert cluster_order(np.zeros((size, size))) == tuple(range(size))
    assert shared_tasks([["a"]] * size).tolist() == [[1]] * size


def group_of(dataflows: list[set[str]], position: int) -> frozenset[int]:
    """The dataflows that one reaches over shared tasks."""
    group = {position}
    while True:
        more = {i for i, tasks in enumerate(dataflows) for j in group if tasks & dataflows[j]} | group
        if more == group:
            return frozenset(group)
        group = more


def runs_of(values: list) -> list[tuple[object, int]]:
    """Equal values that follow each other, as (value, how often)."""
    runs: list[tuple[object, int]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1] + 1)
        else:
            runs.append((value, 1))
    return runs


def average_linkage(similarity: np.ndarray) -> list[frozenset[int]]:
    """Every cluster that joining the two most alike again and again makes, averages taken over all members."""
    clusters = [frozenset([position]) for position in range(len(similarity))]
    made = list(clusters)
    while len(clusters) > 1:
        one, other = max(combinations(clusters, 2), key=lambda pair: np.mean(
            [similarity[i, j] for i in pair[0] for j in pair[1]]))
        clusters = [cluster for cluster in clusters if cluster not in (one, other)] + [one | other]
        made.append(one | other)
    return made
