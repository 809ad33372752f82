"""Shares of what short intervals cost: the Shapley value, by its definition over all orders of arrival."""

from __future__ import annotations

from itertools import permutations
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.sharing import airport_shares

COSTS = st.dictionaries(st.sampled_from("abcde"), st.floats(0, 10), min_size=1)


@given(COSTS)
def test_shares_are_the_mean_of_what_each_adds_in_every_order(costs: dict[str, float]) -> None:
    added: dict[str, list[float]] = {user: [] for user in costs}
    for order in permutations(costs):
        highest = 0.0
        for user in order:
            added[user].append(max(highest, costs[user]) - highest)
            highest = max(highest, costs[user])

    assert airport_shares(costs) == pytest.approx({user: mean(parts) for user, parts in added.items()})


@given(COSTS, st.floats(0, 10))
def test_who_comes_to_need_more_raises_no_other_share(costs: dict[str, float], more: float) -> None:
    user = min(costs)
    after = airport_shares({**costs, user: costs[user] + more})

    for other, share in airport_shares(costs).items():
        assert other == user or after[other] <= share + 1e-9


def test_nobody_is_charged_where_nobody_needs_it() -> None:
    assert airport_shares({}) == {}
