"""Shares of what short intervals cost: the Shapley value, by its definition over all orders of arrival."""

from __future__ import annotations

from itertools import permutations
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.sharing import airport_shares, limit_shares

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


@given(COSTS, st.floats(0, 10))
def test_what_is_for_a_limit_is_what_the_user_would_pay_less_without_it(
    costs: dict[str, float], unlimited: float
) -> None:
    shares = airport_shares(costs)
    for user, part in limit_shares(costs, unlimited).items():
        without = airport_shares({**costs, user: min(costs[user], unlimited)})[user]
        assert part == pytest.approx(shares[user] - without, abs=1e-9)
        assert 0 <= part <= shares[user] + 1e-9
        if costs[user] <= unlimited:
            assert part == 0, "who asks for no more than anybody gets pays for no limit"


@given(COSTS, st.floats(0, 10))
def test_what_is_for_limits_adds_up_to_what_these_take(costs: dict[str, float], unlimited: float) -> None:
    parts = limit_shares(costs, unlimited)
    assert sum(parts.values()) == pytest.approx(max(0.0, max(costs.values()) - unlimited), abs=1e-9)


@given(COSTS, st.floats(0, 10), st.floats(0, 10))
def test_a_stricter_limit_of_another_raises_no_part_that_is_for_limits(
    costs: dict[str, float], unlimited: float, more: float
) -> None:
    strictest = max(costs, key=lambda user: (costs[user], user))
    before = limit_shares(costs, unlimited)
    after = limit_shares({**costs, strictest: costs[strictest] + more}, unlimited)
    for user, part in before.items():
        if user != strictest:
            assert after[user] == pytest.approx(part, abs=1e-9)
