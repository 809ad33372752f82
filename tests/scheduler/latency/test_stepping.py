"""Managers that step come to hold a limit that can be held, and take no less CPU than the plan does."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.qos import OwnQuery, QosReport
from scheduler.latency.constrained_paths import constraints_on
from scheduler.latency.managing import REPORT_S, QosManager, agreed_ms, grown_ms
from scheduler.latency.pacing import Queries, Wanted, expected_at, pace
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.setting_up import qos_setups
from scheduler.latency.stepping import lengthened_s, shortened_s
from scheduler.latency.triggers import BatchCost
from scheduler.latency.ways import Way

WAY = Way({"a": (), "b": ("a",)}, frozenset({"a"}), frozenset({"b"}))


def manager_of(limit_s: float) -> QosManager:
    """The manager of two queries on one node, with a limit on both."""
    graph = RuntimeGraph([Vertex("a", "a", "n1"), Vertex("b", "b", "n1")], [Channel("a", "b")])
    setups = qos_setups(
        graph, constraints_on(WAY, limit_s=limit_s, over_s=60.0),
        longest_ms=dict.fromkeys("ab", 8_000), sources={"a"})
    return QosManager(setups["n1"], now_s=0.0)


def measured(queries: Queries) -> QosReport:
    """What is measured where everything is as the model says."""
    first_s, then_s = queries.before_s["a"], queries.before_s["b"]
    took_s = {name: cost.duration_s(queries.before_s[name]) for name, cost in queries.costs.items()}
    waits_s = max(0.0, then_s - first_s) / 2
    return QosReport(
        "n1", {"a": first_s / 2 + took_s["a"], "b": took_s["b"], "a>b": waits_s}, {"a": first_s, "b": 2 * waits_s},
        dict(queries.before_s), took_s)


def played(queries: Queries, limit_s: float, *, seconds: int = 900) -> tuple[Queries, list[float]]:
    """How the intervals end, and when something was changed."""
    manager, changed_s = manager_of(limit_s), []
    for now_s in range(0, seconds, round(REPORT_S)):
        manager.take(measured(queries), now_s=now_s)
        if manager.decide(now_s):
            changed_s.append(float(now_s))
        wishes = manager.wishes()["n1"].intervals_ms
        queries = replace(queries, before_s={name: wish_ms / 1000 for name, wish_ms in wishes.items()})
    return queries, changed_s


@given(st.sampled_from([0.02, 0.05, 0.1]), st.floats(0.5, 5.0))
def test_a_limit_comes_to_hold_and_costs_no_less_than_by_the_plan(batch_s: float, limit_s: float) -> None:
    costs = {query: BatchCost(batch_s, 0.05) for query in "ab"}
    queries = Queries(costs, {"b": ("a",)}, before_s={"a": 8.0, "b": 8.0}, largest_s=8.0)
    wants = [Wanted("w", WAY, limit_s)]

    ended, changed_s = played(queries, limit_s)
    planned = pace(queries, wants)

    holds_s = expected_at(ended, wants, ended.before_s)["w"].latency_s
    assert holds_s <= limit_s
    cores = sum(cost.cores(ended.before_s[query]) for query, cost in costs.items())
    assert cores >= 0.85 * planned.cores, "but for the tenth of a limit that the plan leaves free"
    assert all(after - before >= 4 * REPORT_S for before, after in pairwise(changed_s)), (
        "what was measured before a change is let through first")


def test_what_is_measured_before_a_change_is_no_reason_for_another() -> None:
    manager, late = manager_of(1.0), QosReport("n1", {"a": 4.1, "b": 0.1}, {"a": 8.0}, {"a": 8.0, "b": 8.0}, {"a": 0.1})
    decided_s = []
    for now_s in range(0, 100, 5):
        manager.take(late, now_s=now_s)
        if manager.decide(now_s):
            decided_s.append(now_s)
    assert len(decided_s) == 1, "nothing is said of the new interval yet"
    manager.take(replace(late, intervals_s={"a": 0.125, "b": 8.0}), now_s=100)
    assert not manager.decide(105)


def test_only_a_reader_that_waits_is_made_quicker() -> None:
    assert shortened_s(8.0, lifetime_s=0.0, batch_s=0.1) == 8.0
    assert shortened_s(8.0, lifetime_s=0.15, batch_s=0.1) == 8.0, "work is what takes long there"
    assert shortened_s(8.0, lifetime_s=0.04, batch_s=0.01) == pytest.approx(8.0 * 0.98**20)
    assert shortened_s(0.1, lifetime_s=8.0, batch_s=0.5) == 0.1, "it is never made slower"
    assert lengthened_s(2.0, longest_s=8.0) == pytest.approx(2.2)
    assert lengthened_s(7.9, longest_s=8.0) == 8.0


def test_of_several_managers_the_one_that_wants_batches_nearest_counts() -> None:
    own = OwnQuery(8_000, ("n1", "n2"))
    assert agreed_ms(own, 4_000, {"n1": 4_000, "n2": 500}) == 500
    assert agreed_ms(own, 500, {"n1": 4_000}) == 500, "the other one has just begun, and may be of the same mind"
    assert agreed_ms(own, 4_000, {"n1": 300}) == 300
    assert agreed_ms(own, 500, {"n1": 4_000, "n2": 4_000, "gone": 500}) == 4_000
    assert agreed_ms(own, 500, {"n1": 9_000, "n2": 9_000}) == 8_000
    assert agreed_ms(own, 500, {}) == 500
    assert grown_ms(own, 500) == 500
    assert grown_ms(OwnQuery(8_000), 500) == 550, "no limit is on it"
