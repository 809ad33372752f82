"""Intervals of batches: limits hold, and no other choice takes less CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.latency.interval_program import choose_intervals
from scheduler.latency.triggers import BatchCost, BatchPlan, Counted, Effective, PathLimit, latency_s

GRID_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


@st.composite
def _costs(draw: st.DrawFn) -> BatchCost:
    return BatchCost(
        batch_s=draw(st.sampled_from([0.01, 0.05, 0.2])), batch_cpu_s=draw(st.sampled_from([0.02, 0.05, 0.1])),
        rate_per_s=10, event_s=draw(st.sampled_from([0.0, 0.001, 0.02])), event_cpu_s=0.0005)


@st.composite
def _plans(draw: st.DrawFn) -> BatchPlan:
    """A tree of up to four queries, or a join of two sources; a limit on each way to an end, or on none."""
    if draw(st.integers(0, 3)) == 0:
        reads = {"c": ("a", "b")}
        paths = [("a", "c"), ("b", "c")]
    else:
        reads = {"b": ("a",), "c": ("b",), "d": (draw(st.sampled_from(["a", "b"])),)}
        paths = [("a", "b", "c"), ("a", "d") if reads["d"] == ("a",) else ("a", "b", "d")]
    queries = sorted({query for path in paths for query in path})
    limits = [PathLimit(path, draw(st.sampled_from([0.4, 1.0, 3.0, 10.0])), draw(st.sampled_from([0.0, 0.1])),
                    counted=Counted(draw(st.booleans()), draw(st.frozensets(st.sampled_from([path[0], path[-1]])))))
              for path in paths if draw(st.integers(0, 3))]
    return BatchPlan({query: draw(_costs()) for query in queries}, limits, reads, largest_s=8.0, smallest_s=0.05)


def _latency_s(plan: BatchPlan, limit: PathLimit, interval_s: Mapping[str, float]) -> float:
    return limit.other_s + latency_s(
        plan, limit.path, Effective(plan, interval_s, early=1e-6), counted=limit.counted)


@settings(deadline=None)
@given(_plans())
def test_limits_hold_and_no_point_of_a_grid_takes_less_cpu(plan: BatchPlan) -> None:
    chosen = choose_intervals(plan)

    for query, interval_s in chosen.interval_s.items():
        assert plan.costs[query].duration_s(interval_s) <= 0.8 * interval_s + 1e-6
        assert 0.05 - 1e-9 <= interval_s <= 8.0 + 1e-9
    if not chosen.unmet:
        for limit in plan.limits:
            assert _latency_s(plan, limit, chosen.interval_s) <= limit.limit_s + 1e-5
    feasible = []
    for intervals in product(GRID_S, repeat=len(plan.costs)):
        interval_s = dict(zip(plan.costs, intervals, strict=True))
        if any(cost.least_s > interval_s[query] for query, cost in plan.costs.items()):
            continue
        if all(_latency_s(plan, limit, interval_s) <= limit.limit_s for limit in plan.limits):
            feasible.append(sum(cost.cores(interval_s[query]) for query, cost in plan.costs.items()))
    if feasible:
        assert not chosen.unmet
        assert chosen.cores <= min(feasible) * 1.001


@given(_costs(), st.lists(st.tuples(
    st.sampled_from([0.01, 0.3, 1.0, 3.0, 30.0]), st.sampled_from([0.0, 0.2]), st.sampled_from([0.5, 0.95]),
    st.booleans(), st.booleans()), max_size=3))
def test_a_query_alone_has_the_longest_interval_that_its_limits_allow(
    cost: BatchCost, limits: list[tuple[float, float, float, bool, bool]],
) -> None:
    plan = BatchPlan({"a": cost}, [
        PathLimit(("a",), limit_s, other_s, share, Counted(waits, frozenset("a") if passed else frozenset()))
        for limit_s, other_s, share, waits, passed in limits], largest_s=8.0, smallest_s=0.05)

    def holds(interval_s: float) -> list[bool]:
        effective = Effective(plan, {"a": interval_s})
        return [limit.other_s + latency_s(plan, limit.path, effective, share=limit.share, counted=limit.counted)
                <= limit.limit_s + 1e-6 for limit in plan.limits]

    chosen = choose_intervals(plan)

    least_s, interval_s = max(0.05, cost.least_s), chosen.interval_s["a"]
    assert [unmet.limit for unmet in chosen.unmet] == [
        limit for limit, is_met in zip(plan.limits, holds(least_s), strict=True) if not is_met]
    assert holds(interval_s) == holds(least_s)
    assert interval_s == pytest.approx(8.0) or holds(1.01 * interval_s) != holds(interval_s) or (
        chosen.unmet and interval_s == pytest.approx(least_s))


def test_readers_follow_who_writes_and_a_chain_has_one_interval() -> None:
    costs = {query: BatchCost(batch_s=0.1, batch_cpu_s=0.08) for query in "abc"}
    plan = BatchPlan(costs, [PathLimit(("a", "b", "c"), 5.0)], {"b": ("a",), "c": ("b",)})

    chosen = choose_intervals(plan)

    # Half an interval of waiting and three batches: (5 - 0.3) * 2.
    assert chosen.interval_s == pytest.approx(dict.fromkeys("abc", 9.4), rel=1e-3)


def test_whoever_asks_for_more_makes_only_what_he_needs_quicker() -> None:
    costs = {query: BatchCost(batch_s=0.05, batch_cpu_s=0.05) for query in "abc"}
    reads = {"b": ("a",), "c": ("a",)}
    chosen = choose_intervals(BatchPlan(costs, [PathLimit(("a", "b"), 0.6), PathLimit(("a", "c"), 10.0)], reads))

    assert chosen.interval_s["a"] == pytest.approx(1.0, rel=1e-2)
    assert chosen.interval_s["b"] == pytest.approx(1.0, rel=1e-2)
    assert chosen.interval_s["c"] == pytest.approx(18.8, rel=1e-2), "it does not follow a"


def test_without_a_limit_batches_are_as_rare_as_they_may_be() -> None:
    assert choose_intervals(BatchPlan({"a": BatchCost(0.1, 0.1)}, [])).interval_s == pytest.approx({"a": 60.0})


def test_what_cannot_be_met_is_named_with_what_can() -> None:
    plan = BatchPlan({"a": BatchCost(batch_s=0.1, batch_cpu_s=0.05)}, [PathLimit(("a",), 0.1, other_s=0.02)])
    chosen = choose_intervals(plan)

    (unmet,) = chosen.unmet
    assert unmet.limit == plan.limits[0]
    assert unmet.least_s == pytest.approx(0.02 + 0.125 / 2 + 0.1)  # batches of 0.1 s, busy for 80%


def test_a_slot_that_would_be_too_full_is_named() -> None:
    costs = {query: BatchCost(batch_s=0.05, batch_cpu_s=0.1) for query in "ab"}
    limits = [PathLimit(("a",), 0.2), PathLimit(("b",), 0.2)]
    plan = BatchPlan(costs, limits, slot_of={"a": "n1/0", "b": "n1/0"}, capacity={"n1/0": 0.5})
    assert choose_intervals(plan).full == ("n1/0",)
    assert choose_intervals(BatchPlan(costs, limits, slot_of=plan.slot_of, capacity={"n1/0": 1.0})).full == ()


def test_a_query_that_its_events_fill_is_named() -> None:
    chosen = choose_intervals(BatchPlan({"a": BatchCost(0.1, 0.1, rate_per_s=100, event_s=0.01)}, []))
    assert chosen.too_slow == ("a",)


@pytest.mark.parametrize("bad", [{"batch_s": -1.0}, {"batch_cpu_s": float("nan")}, {"rate_per_s": float("inf")}])
def test_costs_are_numbers_from_zero_up(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"from 0 up|no finite number"):
        BatchCost(**{"batch_s": 0.1, "batch_cpu_s": 0.1, **bad})


EXTREMES = st.sampled_from([0.0, 1e-12, 1e-9, 1e-6, 1e-3, 0.05, 0.3, 1.0, 20.0, 1e3, 1e6, 1e9])


@st.composite
def _extreme_plans(draw: st.DrawFn) -> BatchPlan:
    """Up to five queries, each reading some of those before it, with figures that are many powers of ten apart."""
    names = "abcde"[: draw(st.integers(1, 5))]
    costs = {name: BatchCost(*(draw(EXTREMES) for _ in range(5))) for name in names}
    reads = {name: tuple(draw(st.sets(st.sampled_from(names[:at]), max_size=2))) for at, name in enumerate(names) if at}
    limits = []
    for _ in range(draw(st.integers(0, 3))):
        path = [draw(st.sampled_from(names))]
        while reads.get(path[0]) and draw(st.booleans()):
            path.insert(0, draw(st.sampled_from(reads[path[0]])))
        limits.append(PathLimit(tuple(path), draw(EXTREMES), draw(EXTREMES), draw(st.sampled_from([0.5, 0.99]))))
    slots = draw(st.dictionaries(st.sampled_from(names), st.sampled_from(["n/0", "n/1"])))
    capacity = {slot: draw(EXTREMES) for slot in set(slots.values())}
    bounds = draw(st.dictionaries(st.sampled_from(names), EXTREMES.filter(bool)))
    return BatchPlan(costs, limits, reads, slots, capacity, bounds_s=bounds)


@settings(deadline=None, max_examples=300)
@given(_extreme_plans())
def test_of_whatever_figures_intervals_are_chosen_and_what_they_come_to_is_told(plan: BatchPlan) -> None:
    chosen = choose_intervals(plan)

    effective = Effective(plan, chosen.interval_s, early=1e-6)
    assert chosen.interval_s.keys() == plan.costs.keys()
    for query, seconds in chosen.interval_s.items():
        assert 0 < seconds <= plan.longest_s(query) * (1 + 1e-6)
    missed = [limit for limit in plan.limits if limit.other_s + latency_s(
        plan, limit.path, effective, share=limit.share) > limit.limit_s + 1e-5 * max(1.0, limit.limit_s)]
    unmet = [limit.limit for limit in chosen.unmet]
    assert all(limit in unmet for limit in missed)
    assert math.isfinite(chosen.cores)
