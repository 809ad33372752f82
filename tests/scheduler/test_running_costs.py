"""What a running task costs: an estimate, what was metered, or what was billed; and how such figures add up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.cost_figures import BILLED, ESTIMATED, MEASURED, CostFigure, CostMeter, total_cost
from scheduler.performance.running_costs import (
    LEAST_METERED_S,
    SAME_COST,
    cost_told,
    metered,
    running_costs,
    turned_cost,
)
from scheduler.planning import plan_removal, plan_submission
from scheduler.rearranging import plan_pause, plan_resumption

from .catalogue import EMPTY, PRICES, TYPES, flow, pause, submit

ETL = flow(
    "etl", {"s": "sensors", "a": ("scale", {"by": 1}), "f": "thin", "o": "archive"}, "s > a > f > o", rates={"s": 100})
STATS = flow(
    "stats", {"s": "sensors", "a": ("scale", {"by": 1}), "x": "alone", "o": "alarm"}, "s > a > x > o", rates={"s": 100})
ESTIMATE = CostFigure(0.1, 0.0, 0.2, 0.005)
AMOUNTS = st.floats(0.0, 50.0)


def after(readings, *, seconds=15.0):
    meter = None
    for number, cores in enumerate(readings, 1):
        meter = metered(meter, cores=cores, per_hour=2 * cores, seconds=seconds, at_ms=round(1000 * number * seconds))
    return meter


@given(st.lists(AMOUNTS, min_size=1, max_size=60))
def test_a_meter_stays_among_its_readings_and_begins_as_their_mean(readings):
    meter = after(readings)
    assert min(readings) - 1e-9 <= meter.cores <= max(readings) + 1e-9 and meter.variance >= 0
    assert meter.per_hour == pytest.approx(2 * meter.cores) and meter.since_ms == 0
    few = readings[:10]  # of two and a half minutes
    assert after(few).cores == pytest.approx(sum(few) / len(few))


@given(AMOUNTS, AMOUNTS)
def test_a_meter_follows_what_changes_and_is_not_moved_by_one_reading(before, now):
    steady = after([before] * 80)
    once = metered(steady, cores=now, per_hour=0.0, seconds=15.0, at_ms=0)
    assert abs(once.cores - before) <= 0.06 * abs(now - before) + 1e-9
    assert after([before] * 80 + [now] * 80).cores == pytest.approx(now, abs=0.05 * abs(now - before) + 1e-9)


def test_an_estimate_is_told_until_a_task_was_metered_for_some_minutes():
    meter = CostMeter(seconds=LEAST_METERED_S - 1, cores=0.4, since_ms=7)
    assert cost_told(ESTIMATE, None) == cost_told(ESTIMATE, meter) == ESTIMATE
    shown = cost_told(ESTIMATE, replace(meter, seconds=LEAST_METERED_S, variance=0.01, per_hour=0.02))
    assert (shown.basis, shown.cores, shown.per_hour, shown.since_ms) == (MEASURED, 0.4, 0.02, 7)
    assert (shown.low, shown.high) == (pytest.approx(0.3), pytest.approx(0.5)), "by its spread"


@given(st.floats(0.01, 10.0), st.floats(0.01, 10.0))
def test_what_was_billed_is_told_while_what_is_metered_agrees(billed, now):
    meter = CostMeter(
        seconds=600, cores=now, billed_s=3600, billed_cores=billed, billed_per_hour=1.0, billed_since_ms=3)
    shown = cost_told(ESTIMATE, meter)
    if abs(billed - now) <= SAME_COST * max(billed, now):
        assert (shown.basis, shown.cores, shown.per_hour, shown.since_ms) == (BILLED, billed, 1.0, 3)
    else:
        assert (shown.basis, shown.cores) == (MEASURED, now)


def test_of_several_figures_the_weakest_basis_is_told():
    figures = [
        CostFigure(1, 1, 1, 1, BILLED, 5), CostFigure(2, 1, 3, 2, MEASURED, 9), CostFigure(3, 2, 4, 3, MEASURED, 8)]
    assert total_cost(figures) == CostFigure(6, 4, 8, 6, MEASURED, 9)
    assert total_cost([*figures, ESTIMATE]).basis == ESTIMATED and total_cost([]).cores == 0


def meters_for(estate, *, times=3.0):
    """All that runs was metered to take so many times what is estimated."""
    costs = running_costs(estate, list(estate.tasks), task_types=TYPES, prices=PRICES)
    return replace(PRICES, meters={
        task: CostMeter(600, times * cost.figure.cores, 0.0, times * cost.figure.per_hour, 1)
        for task, cost in costs.items()})


@pytest.mark.parametrize("times", [0.2, 1.0, 3.0])
def test_a_pause_a_resumption_and_a_removal_say_what_the_tasks_cost(times):
    estate = submit(EMPTY, ETL)
    prices = meters_for(estate, times=times)
    whole = total_cost(cost.figure for cost in running_costs(
        estate, list(estate.tasks), task_types=TYPES, prices=prices).values())
    assert whole.cores == pytest.approx(
        times * plan_submission(EMPTY, ETL, dataflow_id="etl", team="t", task_types=TYPES, prices=PRICES)
        .price.cores_delta)
    back = plan_removal(estate, "etl", task_types=TYPES, prices=prices).price
    assert back.cores_delta == pytest.approx(-whole.cores, abs=1e-6)
    assert back.money_per_hour_delta == pytest.approx(-whole.per_hour, abs=1e-6)
    assert (back.rests_on, back.since_ms) == (MEASURED, 1) and "Measured" in back.basis
    assert plan_pause(estate, "etl", task_types=TYPES, prices=prices).price.cores_delta == back.cores_delta
    again = plan_resumption(pause(estate, "etl"), "etl", task_types=TYPES, prices=prices).price
    assert again.cores_delta == pytest.approx(whole.cores, abs=1e-6)


def test_a_query_that_goes_on_for_others_keeps_what_it_takes_for_being_there():
    estate = submit(submit(EMPTY, ETL), STATS, team="air")
    prices = meters_for(estate)
    tasks = [task for task in estate.submitted["etl"].running.values() if estate.users[task] == ("etl",)]
    costs = running_costs(estate, tasks, task_types=TYPES, prices=prices)
    freed = turned_cost(estate, tasks, task_types=TYPES, prices=prices)
    assert 0 < freed.cores < sum(cost.figure.cores for cost in costs.values())
    assert freed.cores == pytest.approx(sum(
        (1 - cost.query_part) * cost.figure.cores for cost in costs.values()))
    assert plan_removal(estate, "etl", task_types=TYPES, prices=prices).price.cores_delta == pytest.approx(
        -freed.cores, abs=1e-6)


def test_a_newcomer_is_priced_with_what_is_metered_of_what_it_reuses():
    estate = submit(EMPTY, ETL)
    prices = meters_for(estate)
    plan = plan_submission(estate, STATS, dataflow_id="stats", team="air", task_types=TYPES, prices=prices)
    reused = total_cost(cost.figure for cost in running_costs(
        estate, plan.reused, task_types=TYPES, prices=prices).values())
    assert plan.price.cores_alone == pytest.approx(plan.price.cores_delta + reused.cores, abs=1e-5)
    assert plan.price.rests_on == "", "what it adds is an estimate"
    [change] = plan.bill_changes
    assert change.money_per_hour_delta == pytest.approx(-reused.per_hour / 2, abs=1e-6)


def test_batches_are_priced_as_far_apart_as_they_are():
    estate = submit(EMPTY, ETL)
    [fragment] = estate.fragments
    slower = replace(PRICES, paces_ms={fragment: 10 * PRICES.trigger_ms})
    often, rarely = (plan_removal(estate, "etl", task_types=TYPES, prices=prices).price for prices in (PRICES, slower))
    assert 0 < -rarely.cores_delta < -often.cores_delta / 2
