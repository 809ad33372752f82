"""Small steps come to hold a limit that can be held, and take no less CPU than the plan does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.pacing import Queries, Wanted, expected_at, pace
from scheduler.latency.stepping import step
from scheduler.latency.triggers import BatchCost
from scheduler.latency.ways import Way

WAY = Way({"a": (), "b": ("a",)}, frozenset({"a"}), frozenset({"b"}))


def played(queries: Queries, wants: list[Wanted], rounds: int) -> tuple[int | None, Queries]:
    """Rounds in which every measurement is what the model says: after how many the limits held, and how they ended."""
    held = None
    for number in range(rounds):
        now = expected_at(queries, wants, queries.before_s)
        if held is None and all(now[want.key].latency_s <= want.limit_s for want in wants):
            held = number
        stepped = step(queries, wants, {want.key: now[want.key].latency_s for want in wants})
        queries = replace(queries, before_s=stepped.interval_s)
    return held, queries


@given(st.sampled_from([0.02, 0.05, 0.1]), st.floats(0.5, 5.0))
def test_a_limit_comes_to_hold_and_costs_no_less_than_by_the_plan(batch_s: float, limit_s: float) -> None:
    costs = {query: BatchCost(batch_s, 0.05) for query in "ab"}
    queries = Queries(costs, {"b": ("a",)}, before_s={"a": 8.0, "b": 8.0}, largest_s=8.0)
    wants = [Wanted("w", WAY, limit_s)]

    held, ended = played(queries, wants, 40)
    planned = pace(queries, wants)

    assert held is not None
    assert expected_at(ended, wants, ended.before_s)["w"].latency_s <= limit_s
    cores = sum(cost.cores(ended.before_s[query]) for query, cost in costs.items())
    assert cores >= 0.85 * planned.cores, "but for the tenth of a limit that the plan leaves free"


def test_what_no_limit_needs_grows_and_what_is_not_measured_stays() -> None:
    queries = Queries({"a": BatchCost(0.1, 0.05), "b": BatchCost(0.1, 0.05), "c": BatchCost(0.1, 0.05)},
                      {"b": ("a",)}, before_s={"a": 2.0, "b": 2.0, "c": 2.0}, largest_s=8.0)
    stepped = step(queries, [Wanted("w", WAY, 0.5)], {})

    assert stepped.interval_s == pytest.approx({"a": 2.0, "b": 2.0, "c": 2.2})
