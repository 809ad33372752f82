"""What a batch costs is exact where it was seen, and follows from the types of tasks where nothing was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.batch_costs import MOST_FOR_EVENTS, TIMES_ITS_CPU, BatchesSeen, batch_cost, times_its_cpu
from scheduler.model.costs import Costs
from tests.scheduler.catalogue import TYPES

COSTS = Costs(query_batch_s=0.03, scale=1.0)
TASKS = [(TYPES["sensor"], 1.0), (TYPES["parse"], 1.0)] if {"sensor", "parse"} <= TYPES.keys() else [
    (task_type, 1.0) for task_type in list(TYPES.values())[:2]]


@given(st.integers(1, 500), st.floats(0.05, 5), st.floats(0, 1000), st.integers(1, 4))
def test_it_says_of_the_batches_that_were_seen_what_they_took(
    batches: int, batch_s: float, events_a_batch: float, threads: int
) -> None:
    seen = BatchesSeen(batches, batches * batch_s, batches * events_a_batch)
    interval_s = 2.0
    cost = batch_cost(TASKS, costs=COSTS, rate_per_s=events_a_batch / interval_s, batches_seen=seen, threads=threads)

    assert cost.duration_s(interval_s) == pytest.approx(batch_s)
    assert cost.busy * interval_s <= MOST_FOR_EVENTS * batch_s * (1 + 1e-9)
    assert cost.batch_s >= (1 - MOST_FOR_EVENTS) * batch_s * (1 - 1e-9)


def test_of_one_that_was_never_seen_durations_follow_from_its_cpu() -> None:
    cost = batch_cost(TASKS, costs=COSTS, rate_per_s=10)

    assert cost.batch_cpu_s == pytest.approx(0.03 + sum(COSTS.task_batch_s(task_type) for task_type, _ in TASKS))
    assert cost.batch_s == pytest.approx(TIMES_ITS_CPU * cost.batch_cpu_s)
    assert batch_cost(TASKS, costs=COSTS, rate_per_s=10, batches_seen=BatchesSeen()) == cost


def test_each_bundle_has_batches_of_its_own() -> None:
    whole = batch_cost(TASKS, costs=COSTS, rate_per_s=10)
    divided = batch_cost(TASKS, costs=COSTS, rate_per_s=10, bundles=3)

    assert divided.batch_cpu_s == pytest.approx(3 * whole.batch_cpu_s)
    assert divided.event_cpu_s == pytest.approx(whole.event_cpu_s)
    assert divided.event_s == pytest.approx(whole.event_s / 3)


def test_how_many_times_their_cpu_batches_take_is_learned_from_all() -> None:
    assert times_its_cpu([(1.0, 0.5), (3.0, 0.5)]) == pytest.approx(4.0)
    assert times_its_cpu([]) == TIMES_ITS_CPU
