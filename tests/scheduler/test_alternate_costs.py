"""What alternates of a running dynamic task are worth, take and give, and what a switch costs: held to what runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.model.cost_figures import ESTIMATED, MEASURED, CostMeter, total_cost
from scheduler.model.task_types import DYNAMIC
from scheduler.performance.alternate_costs import alternate_figures
from scheduler.performance.alternates_at_work import meter_key
from scheduler.performance.running_costs import LEAST_METERED_S, running_costs
from scheduler.planning import plan_submission
from scheduler.rearranging import plan_pause, plan_resumption
from scheduler.setting import plan_switch

from .catalogue import EMPTY, PRICES, TYPES, flow, submit
from .strategies import dataflows

WAYS = [
    {"name": "all", "type": "scale", "config": {"by": 2}, "value": 4},
    {"name": "few", "type": "thin", "value": 1},
]
TWO = flow(
    "two", {"s": "sensors", "w": ("dynamic", {"alternates": WAYS}), "a": ("scale", {"by": 3}), "o": "archive"},
    "s > w > a > o", rates={"s": 1000})


def whole(estate, *, prices=PRICES, dataflow="two"):
    return total_cost(cost.figure for cost in running_costs(
        estate, estate.submitted[dataflow].running.values(), task_types=TYPES, prices=prices).values())


def switched(estate, to, *, prices=PRICES, task="w", dataflow="two"):
    plan = plan_switch(estate, dataflow, task=task, alternate=to, task_types=TYPES, prices=prices)
    return apply_plan(estate, plan), plan.price


def meters(estate, **by_alternate):
    """Meters of the dynamic task: cores, and events in and out per second, by alternate."""
    task = estate.submitted["two"].running["w"]
    return replace(PRICES, meters={
        meter_key(task, name): CostMeter(600.0, cores, 0.0, 2 * cores, 1, in_per_s=comes, out_per_s=goes)
        for name, (cores, comes, goes) in by_alternate.items()})


def test_it_costs_what_the_alternate_that_is_on_takes_and_gives_on():
    estate = submit(EMPTY, TWO)
    planned = plan_submission(EMPTY, TWO, dataflow_id="two", team="water", task_types=TYPES, prices=PRICES).price
    assert whole(estate).cores == pytest.approx(planned.cores_delta), "as planned, by the alternate that is on at first"
    after, price = switched(estate, "few")
    assert whole(after).cores - whole(estate).cores == pytest.approx(price.cores_delta, abs=2e-6)
    # 1,000 events/s of 10 instead of 2 µs here, and behind a tenth of 1,000 events/s of 10 and 5 µs
    assert price.cores_delta == pytest.approx(1000 * (2 - 10) / 1e6 - 900 * (10 + 5) / 1e6)
    back, price_back = switched(after, "all")
    assert price_back.cores_delta == pytest.approx(-price.cores_delta) and whole(back).cores == whole(estate).cores


@settings(max_examples=60)
@given(dataflows(), st.data())
def test_a_switch_costs_the_difference_of_what_runs_before_and_after(dataflow, data):
    dynamic = sorted(task.id for task in dataflow.tasks if task.type == DYNAMIC)
    assume(dynamic)
    estate = submit(EMPTY, dataflow, "two")
    for task in data.draw(st.lists(st.sampled_from(dynamic), min_size=1, max_size=3)):
        running = estate.submitted["two"].running[task]
        [other] = [way.name for way in alternate_figures(
            estate, running, task_types=TYPES, prices=PRICES) if not way.is_on]
        before = whole(estate)
        estate, price = switched(estate, other, task=task)
        assert whole(estate).cores - before.cores == pytest.approx(price.cores_delta, abs=2e-6)


def test_what_one_alternate_was_seen_to_take_is_no_figure_of_another():
    estate = submit(EMPTY, TWO)
    task = estate.submitted["two"].running["w"]
    prices = meters(estate, all=(0.5, 1000.0, 1000.0))
    ways = {way.name: way for way in alternate_figures(estate, task, task_types=TYPES, prices=prices)}
    assert (ways["all"].cost.basis, ways["all"].cost.cores, ways["all"].is_on) == (MEASURED, 0.5, True)
    assert (ways["few"].cost.basis, ways["few"].is_on) == (ESTIMATED, False)
    assert [ways[name].worth for name in ("all", "few")] == [1.0, 0.25]
    assert (ways["few"].selectivity, ways["few"].selectivity_is_measured) == (0.1, False), "as its type declares"
    assert ways["few"].event_s == pytest.approx(2e-6) and ways["all"].event_s > 1e-4
    after, price = switched(estate, "few", prices=prices)
    assert whole(after, prices=prices).cores - whole(estate, prices=prices).cores == pytest.approx(
        price.cores_delta, abs=2e-6)
    assert price.cores_delta < -0.4 and price.rests_on == "", "of the other there is an estimate"


def test_what_is_behind_is_expected_to_work_on_what_an_alternate_was_seen_to_give():
    estate = submit(EMPTY, TWO)
    seen = meters(estate, all=(0.5, 1000.0, 900.0), few=(0.1, 1000.0, 450.0))
    after, price = switched(estate, "few", prices=seen)
    # It takes 0.4 cores less here; behind, half of 1,000 events/s of 10 and 5 µs
    assert price.cores_delta == pytest.approx(-0.4 - 500 * 15e-6)
    assert whole(after, prices=seen).cores - whole(estate, prices=seen).cores == pytest.approx(
        price.cores_delta, abs=2e-6)
    ways = alternate_figures(after, after.submitted["two"].running["w"], task_types=TYPES, prices=seen)
    assert [(way.selectivity, way.selectivity_is_measured) for way in ways] == [(0.9, True), (0.45, True)]


def test_a_meter_says_nothing_before_it_has_seen_enough_and_of_no_events():
    estate = submit(EMPTY, TWO)
    task = estate.submitted["two"].running["w"]
    for short in (
        CostMeter(LEAST_METERED_S - 1, 0.5, in_per_s=10.0, out_per_s=5.0),
        CostMeter(600.0, 0.5, in_per_s=0.0, out_per_s=0.0), CostMeter(600.0, 0.5),
    ):
        prices = replace(PRICES, meters={meter_key(task, "all"): short})
        [first, _] = alternate_figures(estate, task, task_types=TYPES, prices=prices)
        assert (first.selectivity, first.selectivity_is_measured, first.event_s) == (1.0, False, 10e-6)


def test_a_task_with_an_alternate_for_each_key_costs_what_all_of_them_were_seen_to_take():
    ways = [{"name": name, "type": "count", "value": value} for name, value in (("all", 2), ("few", 1))]
    keyed = flow(
        "two", {"s": "sensors", "w": ("dynamic_fold", {"alternates": ways, "begin": "shared", "by": ["city"]}),
                "o": "archive"}, "s > w > o", rates={"s": 1000})
    estate = submit(EMPTY, keyed)
    task = estate.submitted["two"].running["w"]
    seen = replace(PRICES, meters={
        meter_key(task): CostMeter(600.0, 0.5, 0.0, 1.0, 1, in_per_s=1000.0, out_per_s=1000.0)})
    cost = running_costs(estate, [task], task_types=TYPES, prices=seen)[task].figure
    assert (cost.basis, cost.cores) == (MEASURED, 0.5)
    ways = alternate_figures(estate, task, task_types=TYPES, prices=seen)
    assert [way.cost.basis for way in ways] == [ESTIMATED] * 2, "that says nothing of either by itself"
    _, price = switched(estate, "few", prices=seen)
    assert price.cores_delta == pytest.approx(0), "an estimate is held against an estimate"


def test_a_switch_of_what_rests_costs_nothing_before_it_works_again():
    estate = submit(EMPTY, TWO)
    paused = apply_plan(estate, plan_pause(estate, "two", task_types=TYPES, prices=PRICES))
    after, price = switched(paused, "few")
    assert (price.cores_delta, price.money_per_hour_delta, price.cores_error) == (0, 0, 0)
    again = apply_plan(after, plan_resumption(after, "two", task_types=TYPES, prices=PRICES))
    assert whole(again).cores == pytest.approx(whole(switched(estate, "few")[0]).cores)


def test_a_static_task_has_no_alternates():
    estate = submit(EMPTY, TWO)
    assert alternate_figures(estate, estate.submitted["two"].running["a"], task_types=TYPES, prices=PRICES) == ()
