"""Managers that step come to hold a limit that can be held, give CPU back where it holds with room, and do not swing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.contracts.qos import OwnQuery, QosReport
from scheduler.latency.constrained_paths import constraints_on
from scheduler.latency.growing_intervals import FULL, REMEMBERED_S, Ceilings, growth, held_at
from scheduler.latency.managing import REPORT_S, IntervalDecision, QosManager, agreed_ms, grown_ms
from scheduler.latency.pacing import LimitOnWay, Queries, expected_at, pace
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.setting_up import qos_setups
from scheduler.latency.stepping import lengthened_s, shortened_s
from scheduler.latency.triggers import WHOLE, BatchCost, Counted
from scheduler.latency.ways import Way

from .lines import lasts_s, waits_s

WAY = Way({"a": (), "b": ("a",)}, frozenset({"a"}), frozenset({"b"}))


def manager_of(limit_s: float, percentile: float | None = None, counted: Counted = WHOLE) -> QosManager:
    """The manager of two queries on one node, with a limit on both or on what counts of them."""
    graph = RuntimeGraph([Vertex("a", "a", "n1"), Vertex("b", "b", "n1")], [Channel("a", "b")])
    way = replace(WAY, counted=counted)
    setups = qos_setups(
        graph, constraints_on(way, limit_s=limit_s, over_s=60.0, percentile=percentile),
        longest_ms=dict.fromkeys("ab", 8_000), sources={"a"})
    return QosManager(setups["n1"], now_s=0.0)


def measured(queries: Queries) -> QosReport:
    """What is measured where everything is as the model says."""
    first_s = queries.before_s["a"]
    took_s = {name: lasts_s(queries, name, queries.before_s) for name in queries.costs}
    waited_s = waits_s(queries, "b", queries.before_s)
    return QosReport(
        "n1", {"a": first_s / 2 + took_s["a"], "b": took_s["b"], "a>b": waited_s}, {"a": first_s, "b": 2 * waited_s},
        dict(queries.before_s), took_s)


def begun(batch_s: float) -> Queries:
    """Both with batches 8 s apart."""
    return Queries(costs_of(batch_s), {"b": ("a",)}, before_s={"a": 8.0, "b": 8.0}, largest_s=8.0)


def costs_of(batch_s: float) -> dict[str, BatchCost]:
    return {query: BatchCost(batch_s, 0.05) for query in "ab"}


Changes = list[tuple[float, Mapping[str, float]]]  # moments, and the intervals that were chosen then


def played(
    queries: Queries, limit_s: float, *, seconds: int = 900, batch_s: Callable[[float], float] | None = None,
    counted: Counted = WHOLE,
) -> tuple[Queries, Changes]:
    """How the intervals end, and what was changed when; what a batch takes may be another at each moment."""
    manager, changes = manager_of(limit_s, counted=counted), []
    for now_s in range(0, seconds, round(REPORT_S)):
        if batch_s is not None:
            queries = replace(queries, costs=costs_of(batch_s(now_s)))
        manager.take(measured(queries), now_s=now_s)
        decided: dict[str, float] = {}
        for decision in manager.decide(now_s):
            decided |= decision.intervals_s
        if decided:
            changes.append((float(now_s), {query: decided[query] / queries.before_s[query] for query in decided}))
        wishes = manager.wishes()["n1"].intervals_ms
        queries = replace(queries, before_s={name: wish_ms / 1000 for name, wish_ms in wishes.items()})
    return queries, changes


def cores_of(queries: Queries) -> float:
    return sum(cost.cores(queries.before_s[query]) for query, cost in queries.costs.items())


@given(st.sampled_from([0.02, 0.05, 0.1]), st.floats(0.5, 5.0))
@settings(max_examples=20)
def test_a_limit_comes_to_hold_and_costs_no_less_than_by_the_plan(batch_s: float, limit_s: float) -> None:
    wants = [LimitOnWay("w", WAY, limit_s)]

    ended, changes = played(begun(batch_s), limit_s, seconds=1_800)
    planned = pace(begun(batch_s), wants)

    assert expected_at(ended, wants, ended.before_s)["w"].latency_s <= limit_s
    assert cores_of(ended) >= 0.85 * planned.cores, "but for the tenth of a limit that the plan leaves free"
    assert all(after - before >= 4 * REPORT_S for (before, _), (after, _) in pairwise(changes)), (
        "what was measured before a change is let through first")


@given(st.sampled_from([0.02, 0.05, 0.1]), st.floats(1.0, 3.5))
@settings(max_examples=15)
def test_where_a_limit_holds_with_room_intervals_become_longer_again_and_come_to_rest(
    batch_s: float, limit_s: float
) -> None:
    wants = [LimitOnWay("w", WAY, limit_s)]

    stepped, _ = played(begun(batch_s), limit_s, seconds=150)
    rested, changes = played(begun(batch_s), limit_s, seconds=3_600)

    assert cores_of(rested) <= 2.5 * pace(begun(batch_s), wants).cores
    assert cores_of(rested) < 0.5 * cores_of(stepped), "steps went down to what batches need"
    assert expected_at(rested, wants, rested.before_s)["w"].latency_s <= FULL * limit_s
    assert changes[-1][0] < 3_000, "then nothing is changed any more"
    shorter = [at_s for at_s, factors in changes if min(factors.values()) < 1]
    longer = [at_s for at_s, factors in changes if max(factors.values()) > 1]
    assert max(shorter) < min(longer), "first the one, then the other"


@given(st.integers(4, 240), st.floats(1.0, 8.0), st.floats(0.1, 0.9))
@settings(max_examples=15)
def test_load_that_swings_makes_intervals_shorter_twice_in_half_an_hour_at_most(
    rounds: int, times: float, busy: float
) -> None:
    period_s = rounds * REPORT_S

    def batch_s(now_s: float) -> float:
        return 0.05 * (times if now_s % period_s < busy * period_s else 1.0)

    _, changes = played(begun(0.05), 1.0, seconds=10_800, batch_s=batch_s)

    shorter = [at_s for at_s, factors in changes if min(factors.values()) < 1]
    later = [at_s for at_s in shorter if at_s > 200]  # from intervals of 8 s they come down first
    for at_s in later:
        assert len([other_s for other_s in later if at_s <= other_s < at_s + REMEMBERED_S]) <= 2


FROM_TASK = Counted(waits=False)  # behind the source, in its query
FROM_STREAM, TO_STREAM, STREAM = (Counted(name == "b", frozenset(name)) for name in ("a", "b", "ab"))


@pytest.mark.parametrize(("counted", "intervals_s", "limit_s", "stepped"), [
    (WHOLE, (8.0, 8.0), 2.0, {"a"}),
    (FROM_TASK, (8.0, 8.0), 2.0, set()),
    (FROM_TASK, (1.0, 8.0), 2.0, {"b"}),
    (FROM_STREAM, (8.0, 8.0), 2.0, set()),
    (FROM_STREAM, (1.0, 8.0), 2.0, {"b"}),
    (TO_STREAM, (8.0, 8.0), 2.0, {"a"}),
    (TO_STREAM, (1.0, 8.0), 2.0, {"a", "b"}),
    (STREAM, (1.0, 8.0), 2.0, {"b"}),
    (STREAM, (8.0, 8.0), 0.04, set())])
def test_only_what_a_limit_covers_is_made_quicker(
    counted: Counted, intervals_s: tuple[float, float], limit_s: float, stepped: set[str]
) -> None:
    queries = replace(begun(0.05), before_s=dict(zip("ab", intervals_s, strict=True)))
    wants = [LimitOnWay("w", replace(WAY, counted=counted), limit_s)]

    ended, changes = played(queries, limit_s, seconds=150, counted=counted)

    shorter = {query for _, factors in changes for query, factor in factors.items() if factor < 1}
    assert stepped <= shorter <= (stepped | {"b"} if stepped else set())
    assert expected_at(ended, wants, ended.before_s)["w"].latency_s <= limit_s


@given(st.sampled_from([WHOLE, FROM_TASK, FROM_STREAM, TO_STREAM]), st.sampled_from([0.2, 1.0, 5.0]),
       st.sampled_from([1.0, 2.0, 8.0]))
def test_a_manager_sees_what_the_plan_expects(counted: Counted, first_s: float, then_s: float) -> None:
    queries = replace(begun(0.05), before_s={"a": first_s, "b": then_s})
    manager = manager_of(0.021, counted=counted)

    decisions = [decision for now_s in range(0, 60, round(REPORT_S)) if manager.take(
        measured(queries), now_s=now_s) is None for decision in manager.decide(now_s)]

    expected = expected_at(queries, [LimitOnWay("w", replace(WAY, counted=counted), 1.0)], queries.before_s)["w"]
    assert all(decision.worst_s == pytest.approx(expected.latency_s) for decision in decisions[:1])


def test_a_reader_for_which_nothing_waits_gets_the_interval_of_its_writer() -> None:
    queries = replace(begun(0.05), before_s={"a": 1.0, "b": 0.1})
    ended, changes = played(queries, 0.8, seconds=1_200)
    assert ended.before_s["a"] == 1.0, "0.6 s of 0.8 s are no room"
    assert 0.99 <= ended.before_s["b"] <= 1.0
    assert all(factors.keys() == {"b"} for _, factors in changes)


@given(st.floats(0, 10), st.floats(0.02, 10), st.lists(st.floats(0.02, 10), max_size=5))
def test_no_growth_leads_to_the_limit(worst_s: float, limit_s: float, intervals_s: list[float]) -> None:
    factor = growth(worst_s, limit_s, intervals_s)
    assert 1 <= factor <= 1.1
    if factor > 1:
        assert worst_s + (factor - 1) * sum(intervals_s) <= FULL * limit_s + 1e-9


def test_what_was_too_long_is_remembered_for_half_an_hour() -> None:
    assert held_at(2.0, worst_s=1.4, limit_s=1.0, waits_s=1.0) == pytest.approx(1.0), "half of the wait was too much"
    assert held_at(2.0, worst_s=9.0, limit_s=1.0, waits_s=1.0) == 0.0, "no interval would have done"
    ceilings = Ceilings()
    ceilings.note("a", 1.0, now_s=0)
    ceilings.note("a", 2.0, now_s=60)
    assert ceilings.of("a", now_s=REMEMBERED_S) == 1.0
    assert ceilings.of("a", now_s=60 + REMEMBERED_S) == ceilings.of("b", now_s=0) == float("inf")


def test_what_was_not_measured_whole_is_not_made_longer() -> None:
    manager, part = manager_of(10.0), QosReport("n1", {"a": 0.1, "a>b": 0.1}, {"a": 0.1}, {"a": 0.1}, {"a": 0.1})
    for now_s in range(0, 400, 5):
        manager.take(part, now_s=now_s)
        assert not manager.decide(now_s)


def decided(manager: QosManager, report: QosReport, *, seconds: int) -> list[IntervalDecision]:
    decisions: list[IntervalDecision] = []
    for now_s in range(0, seconds, round(REPORT_S)):
        manager.take(report, now_s=now_s)
        decisions += manager.decide(now_s)
    return decisions


def test_a_percentile_is_held_as_ages_are_seen_to_be_spread() -> None:
    """Means of 0.6 s, and a limit of 1 s on the 99th percentile."""
    means = QosReport("n1", {"a": 0.5, "b": 0.1, "a>b": 0.0}, {"a": 1.0}, {"a": 1.0, "b": 1.0}, {"a": 0.1, "b": 0.1})
    narrow, wide = {36: 64, 37: 60}, {30: 90, 47: 10}  # all about 0.55 s; most about 0.2 s, and some 3.7 s

    [first, *_] = decided(manager_of(1.0, 99), replace(means, ages={"b": wide}), seconds=60)
    assert first.percentile == 99
    assert first.limit_s == pytest.approx(1.0)
    assert first.worst_s > 3
    assert decided(manager_of(1.0, 99), replace(means, ages={"b": narrow}), seconds=60) == []
    [unseen, *_] = decided(manager_of(1.0, 99), means, seconds=60)
    assert unseen.worst_s == pytest.approx(0.6 * 99 / 50), "as long as nothing is seen, as if all ages were as likely"
    assert decided(manager_of(1.0), replace(means, ages={"b": wide}), seconds=60) == [], "a mean is a mean"


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
    query = OwnQuery(8_000, ("n1", "n2"))
    assert agreed_ms(query, 4_000, {"n1": 4_000, "n2": 500}) == 500
    assert agreed_ms(query, 500, {"n1": 4_000}) == 500, "the other one has just begun, and may be of the same mind"
    assert agreed_ms(query, 4_000, {"n1": 300}) == 300
    assert agreed_ms(query, 500, {"n1": 4_000, "n2": 4_000, "gone": 500}) == 4_000
    assert agreed_ms(query, 500, {"n1": 9_000, "n2": 9_000}) == 8_000
    assert agreed_ms(query, 500, {}) == 500
    assert grown_ms(query, 500) == 500
    assert grown_ms(OwnQuery(8_000), 500) == 550, "no limit is on it"
