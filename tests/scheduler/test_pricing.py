"""Prices: with what was measured and its error, with what is declared elsewhere, and of whom a plan makes pay more."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from scheduler.model.costs import DECLARED, Costs
from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.performance.pricing import cores_at, query_cores, task_cores
from scheduler.performance.running_costs import running_cost
from scheduler.planning import plan_removal, plan_submission
from scheduler.rearranging import plan_pause, plan_resumption

from .catalogue import EMPTY, PRICES, TYPES, flow, pause, submit

ETL = flow(
    "etl", {"s": "sensors", "a": ("scale", {"by": 1}), "f": "thin", "o": "archive"}, "s > a > f > o", rates={"s": 100})
STATS = flow(
    "stats", {"s": "sensors", "a": ("scale", {"by": 1}), "x": "alone", "o": "alarm"}, "s > a > x > o", rates={"s": 100})
MEASURED = Costs(
    query_batch_s=0.1, batch_s={"sensors": 0.01, "scale": 0.02, "thin": 0.03}, scale=2.0, queries=14, error=0.2,
    fixed_cores=0.05,
    event_us={"sensors": 50.0, "scale": 0.0, "thin": 7.0}, machine="cpu-a, 2 cores", version=4)
HERE = replace(PRICES, costs=MEASURED)


def planned(estate, dataflow, prices=HERE, team="water"):
    return plan_submission(
        estate, dataflow, dataflow_id=dataflow.name, team=team, task_types=TYPES, prices=prices)


def test_a_plan_is_priced_with_what_was_measured_and_says_its_error():
    price = planned(EMPTY, ETL).price
    batches_per_s = 1000 / PRICES.trigger_ms
    cores = task_cores(ETL, task_types=TYPES, prices=HERE)
    assert cores["s"] == pytest.approx(100 * 50e-6 + batches_per_s * 0.01)
    assert cores["o"] == pytest.approx(2 * task_cores(ETL, task_types=TYPES, prices=PRICES)["o"]), "declared, scaled"
    assert price.cores_delta == pytest.approx(sum(cores.values()) + 0.1 * batches_per_s + MEASURED.fixed_cores)
    assert price.cores_error == pytest.approx(0.2 * price.cores_delta, abs=1e-6)
    assert (price.measured_queries, price.machine, price.not_measured) == (14, "cpu-a, 2 cores", ("archive",))
    assert "14 queries measured" in price.basis and "archive" in price.basis and "Estimated" not in price.basis


def test_where_nothing_was_measured_it_is_as_declared_and_says_so():
    price = planned(EMPTY, ETL, PRICES).price
    assert price.measured_queries == 0 and price.not_measured == ()
    assert price.cores_error == price.cores_delta > 0, "a first guess, and it says so"
    assert price.basis.startswith("Estimated, not measured")
    stored = json.loads(plan_to_json(planned(EMPTY, ETL, PRICES)))["price"]
    assert not {"rests_on", "since_ms", "machine"} & stored.keys(), "of an estimate nothing more is stored"


def test_a_frozen_plan_keeps_the_price_that_it_was_computed_with():
    plan = planned(EMPTY, ETL)
    back = plan_from_json(plan_to_json(plan))
    assert back == plan and back.price == plan.price
    other = planned(EMPTY, ETL, replace(PRICES, costs=replace(MEASURED, query_batch_s=0.2)))
    assert other.price.cores_delta > plan.price.cores_delta and other.digest != plan.digest
    assert other.steps == plan.steps


def test_a_removal_gives_back_what_is_known_now_of_what_runs():
    estate = submit(EMPTY, ETL)  # priced as declared
    back = plan_removal(estate, "etl", task_types=TYPES, prices=HERE).price
    assert back.cores_delta == pytest.approx(-planned(EMPTY, ETL).price.cores_delta)
    old = replace(next(iter(estate.tasks.values())), rate_per_s=None, cores=0.5)
    aged = replace(estate, tasks={**estate.tasks, old.id: old})
    cost = running_cost(aged, old.id, task_types=TYPES, prices=HERE)
    assert (1 - cost.query_part) * cost.figure.cores == pytest.approx(0.5), "of an older version: as it was expected"


def money_of_shared(estate, prices):
    """What the two shared tasks cost an hour, with their even part of the query's batches."""
    fragment = next(fragment for fragment in estate.fragments.values())
    return sum(
        cores_at(TYPES[estate.tasks[task].type], estate.tasks[task].rate_per_s, prices=prices)
        + (query_cores(prices) + prices.costs.fixed_cores) / len(fragment.tasks)
        for task in fragment.tasks[:2]) * prices.core_hour


@pytest.mark.parametrize("prices", [PRICES, HERE], ids=["declared", "measured"])
def test_others_are_told_what_their_bills_gain_and_lose(prices):
    alone = submit(EMPTY, ETL)
    whole = money_of_shared(alone, prices)
    [change] = planned(alone, STATS, prices, team="air").bill_changes
    assert (change.team, change.money_per_hour_delta) == ("water", pytest.approx(-whole / 2, abs=2e-6))
    both = submit(alone, STATS, team="air")
    [change] = plan_removal(both, "stats", task_types=TYPES, prices=prices).bill_changes
    assert (change.team, change.money_per_hour_delta) == ("water", pytest.approx(whole / 2, abs=2e-6))
    assert plan_pause(both, "stats", task_types=TYPES, prices=prices).bill_changes == (change,)
    paused = pause(both, "stats")
    [again] = plan_resumption(paused, "stats", task_types=TYPES, prices=prices).bill_changes
    assert (again.team, again.money_per_hour_delta) == ("water", -change.money_per_hour_delta)
    assert plan_removal(paused, "stats", task_types=TYPES, prices=prices).bill_changes == (), "it paid nothing"
    assert plan_removal(alone, "etl", task_types=TYPES, prices=prices).bill_changes == ()


def test_three_users_pay_in_thirds_and_the_own_team_counts_without_the_dataflow_itself():
    estate = submit(submit(submit(EMPTY, ETL), STATS, team="air"), STATS, dataflow_id="third", team="air")
    whole = money_of_shared(submit(EMPTY, ETL), PRICES)
    changes = {
        change.team: change.money_per_hour_delta
        for change in plan_removal(estate, "third", task_types=TYPES, prices=PRICES).bill_changes}
    # Of the two tasks of all three: water 1/3 -> 1/2. Of those and the two of air: 1/3 -> 1/2, and 1/2 -> 1.
    assert changes["water"] == pytest.approx(whole / 6, abs=2e-6) and changes["air"] > changes["water"]


def test_declared_costs_know_no_type():
    assert DECLARED.not_measured(["b", "a"]) == ("a", "b") and not DECLARED.are_measured
