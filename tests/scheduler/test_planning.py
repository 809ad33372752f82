"""Plans: what they refuse and cost, how they go stale, how they are stored and reversed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from scheduler.applying import apply_plan
from scheduler.model.encoding import plan_digest, plan_from_json, plan_to_json, to_json
from scheduler.model.errors import AlreadySubmitted, AlteredPlan, NoSlots, NotSubmitted, StalePlan, UnknownTaskType
from scheduler.model.estate import Estate
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes
from scheduler.performance.pricing import task_cores
from scheduler.performance.rates import input_rates_per_s
from scheduler.planning import plan_removal, plan_submission
from tests.scheduler.reversing import reverse_plan, reverse_steps
from tests.scheduler.running_dataflows import running_dataflows
from tests.scheduler.sharing import shared_with, sharing

from .catalogue import EMPTY, PRICES, TYPES, flow, remove, submit

ETL = flow(
    "etl", {"s": "sensors", "a": ("scale", {"by": 1}), "f": "thin", "o": "archive"}, "s > a > f > o", rates={"s": 100}
)
STATS = flow(
    "stats", {"s": "sensors", "a": ("scale", {"by": 1.0}), "x": "alone", "o": "alarm"}, "s > a > x > o",
    rates={"s": 100},
)


def planned(estate, dataflow, **options):
    arguments = {"dataflow_id": dataflow.name, "team": "water", "task_types": TYPES, "prices": PRICES} | options
    return plan_submission(estate, dataflow, **arguments)


def removal(estate, dataflow_id):
    return plan_removal(estate, dataflow_id, task_types=TYPES, prices=PRICES)


def test_a_plan_says_what_starts_what_is_reused_and_who_is_touched():
    plan = planned(submit(EMPTY, ETL), STATS)
    assert [task.type for task in plan.started] == ["alone", "alarm"]
    assert plan.reused == tuple(plan.dataflow.running[task_id] for task_id in ("s", "a"))
    assert (plan.kind, plan.generation, plan.touched) == ("submit", 1, ("etl",))
    assert plan.dataflow.sinks == ("o",) and plan.dataflow.team == "water"
    assert plan.started[0].parents == (plan.dataflow.running["a"],)
    assert dict(plan.started[1].config) == {"level": 3}, "defaults are filled in"


def test_what_cannot_be_planned_is_refused_with_a_remedy():
    estate = submit(EMPTY, ETL)
    for error, attempt in (
        (AlreadySubmitted, lambda: planned(estate, ETL)),
        (NotSubmitted, lambda: removal(estate, "stats")),
        (NoSlots, lambda: planned(Estate(), ETL)),
        (UnknownTaskType, lambda: planned(estate, STATS, task_types=TaskTypes([TYPES["sensors"]]))),
        (StalePlan, lambda: apply_plan(estate, planned(EMPTY, STATS))),
    ):
        with pytest.raises(error) as raised:
            attempt()
        shape = raised.value.as_dict()
        assert shape["code"] and shape["message"] and shape["remedy"]


def test_nothing_to_start_needs_no_slot():
    estate = replace(submit(EMPTY, ETL), slots=())
    assert planned(estate, ETL, dataflow_id="twin").started == ()


def test_a_plan_is_applied_once():
    plan = planned(EMPTY, ETL)
    estate = apply_plan(EMPTY, plan)
    with pytest.raises(StalePlan) as raised:
        apply_plan(estate, plan)
    assert raised.value.facts == {"plan_generation": 0, "estate_generation": 1}


def test_planning_leaves_the_estate_as_it_was():
    estate = submit(EMPTY, ETL)
    before = to_json(estate)
    planned(estate, STATS)
    removal(estate, "etl")
    assert to_json(estate) == before


def test_the_same_question_has_the_same_digest_and_another_has_another():
    plan = planned(EMPTY, ETL)
    assert plan.digest == planned(EMPTY, ETL).digest == plan_digest(plan) and len(plan.digest) == 64
    others = [
        planned(EMPTY, STATS), planned(EMPTY, ETL, team="roads"), planned(EMPTY, ETL, dataflow_id="d"),
        planned(EMPTY, ETL, prices=Prices(core_hour=1)),
    ]
    assert len({plan.digest, *(other.digest for other in others)}) == 5


def test_a_digest_is_of_what_a_plan_means_and_not_of_the_estates_number():
    plan, later = planned(EMPTY, ETL), planned(replace(EMPTY, generation=8), ETL)
    assert plan.digest == later.digest and set(later.fragments_after) == {"f9-0"}
    assert plan_from_json(plan_to_json(later)) == later
    altered = {**json.loads(plan_to_json(later)), "generation": 9}
    with pytest.raises(AlteredPlan):
        plan_from_json(altered)


def test_plans_and_estates_come_back_from_json_as_they_were():
    estate = submit(EMPTY, ETL)
    for plan in (planned(estate, STATS), removal(estate, "etl"), reverse_plan(removal(estate, "etl"))):
        assert plan_from_json(plan_to_json(plan)) == plan
        assert plan_from_json(json.loads(plan_to_json(plan))) == plan


def test_a_plan_that_was_altered_in_store_is_refused():
    stored = json.loads(plan_to_json(planned(EMPTY, ETL)))
    stored["price"]["money_per_hour_delta"] = 0
    with pytest.raises(AlteredPlan):
        plan_from_json(stored)


def test_steps_are_undone_last_first():
    plan = removal(submit(submit(EMPTY, ETL), STATS), "etl")
    (step,) = plan.steps
    (back,) = reverse_steps(plan)
    assert (step.kind, step.active, step.active_before) == ("close_tail", 2, 4)
    assert (back.kind, back.active, back.active_before) == ("open_tail", 4, 2)
    plan = planned(submit(EMPTY, ETL), STATS)
    assert [step.kind for step in plan.steps] == ["start_fragment", "start_fragment", "open_outlet"]
    assert [step.kind for step in reverse_steps(plan)] == ["close_outlet", "stop_fragment", "stop_fragment"]
    assert reverse_plan(plan).steps == reverse_steps(plan)


def test_rates_follow_the_streams():
    tasks = {"s": "sensors", "t": "sensors", "a": "thin", "b": "alone", "o": "archive"}
    dataflow = flow("x", tasks, "s > a > b > o", "t > b", "s > o", rates={"s": 100})
    assert input_rates_per_s(dataflow, task_types=TYPES) == pytest.approx(
        {"s": 100, "t": 10, "a": 100, "b": 100 * 0.1 + 10, "o": 20 + 100}
    )
    streams = tuple(
        replace(stream, selectivity=0.5) if stream.source == "a" else stream for stream in dataflow.streams
    )
    assert input_rates_per_s(replace(dataflow, streams=streams), task_types=TYPES)["b"] == pytest.approx(60)
    cores = task_cores(dataflow, task_types=TYPES, prices=Prices(trigger_ms=500))
    assert cores["s"] == pytest.approx(100 * 8 / 1e6 + 2 * 0.006)
    often = task_cores(dataflow, task_types=TYPES, prices=Prices(trigger_ms=250))
    more = {task_id: often[task_id] - cores[task_id] for task_id in tasks}
    state = {task_id: 0.025 * TYPES[kind].stateful for task_id, kind in tasks.items()}
    assert more == pytest.approx({task_id: 2 * (0.006 + state[task_id]) for task_id in tasks})


def batches(dataflow, *task_ids):
    """Cores that a dataflow's tasks, or some of them, take for batches every 200 ms."""
    types = [TYPES[task.type] for task in dataflow.tasks if not task_ids or task.id in task_ids]
    return 5 * sum(0.031 if task_type.stateful else 0.006 for task_type in types)


def test_the_price_is_what_events_queries_and_batches_cost():
    plan = planned(EMPTY, ETL)
    tasks = (100 * 8 + 100 * 10 + 100 * 2 + 10 * 5) / 1e6 + batches(ETL)
    query = 1000 / 200 * 0.033 + 0.007  # with its slot's driver
    assert plan.price.cores_delta == plan.price.cores_alone == pytest.approx(tasks + query)
    assert plan.price.money_per_hour_delta == pytest.approx((tasks + query) * 0.10)
    assert (plan.price.tasks_started, plan.price.queries_started) == (4, 1)
    assert "EUR" in plan.price.basis and "200 ms" in plan.price.basis

    merged = planned(submit(EMPTY, ETL), STATS)
    assert merged.price.cores_delta == pytest.approx(2 * (100 * 5 / 1e6) + batches(STATS, "x", "o") + 2 * query)
    assert merged.price.cores_alone == pytest.approx(
        (100 * 8 + 100 * 10 + 100 * 5 + 100 * 5) / 1e6 + batches(STATS) + 2.5 * query), "with half of the query"
    back = removal(apply_plan(submit(EMPTY, ETL), merged), "stats")
    assert back.price.cores_delta == pytest.approx(-merged.price.cores_delta)
    assert back.price.cores_alone == pytest.approx(merged.price.cores_alone)
    assert (back.price.tasks_stopped, back.price.queries_stopped, back.price.tasks_reused) == (2, 2, 2)


def test_a_type_that_is_gone_can_still_be_removed():
    estate = submit(EMPTY, ETL)
    plan = plan_removal(estate, "etl", task_types=TaskTypes([]), prices=PRICES)
    assert apply_plan(estate, plan).tasks == {}


def test_a_private_dataflow_is_merged_with_its_own_teams_only():
    private = replace(ETL, visibility="private")
    estate = submit(EMPTY, ETL, "shared", "water")
    assert planned(estate, private, dataflow_id="a", team="water").reused == ()
    estate = submit(estate, private, "a", "water")
    assert planned(estate, private, dataflow_id="b", team="roads").reused == ()
    again = planned(estate, private, dataflow_id="c", team="water")
    assert (len(again.reused), again.touched) == (4, ("a",))
    assert {task.scope for task in estate.tasks.values()} == {"", "water"}


def test_what_is_shared_is_counted_and_named():
    estate = submit(submit(EMPTY, ETL), STATS)
    shared = sharing(estate)
    assert (shared.tasks_alone, shared.tasks_running, shared.tasks_shared, shared.tasks_saved) == (8, 6, 2, 2)
    assert shared.share_saved == pytest.approx(0.25)
    assert shared.cores_alone - shared.cores_running == pytest.approx(100 * (8 + 10) / 1e6 + batches(STATS, "s", "a"))
    assert shared_with(estate, "stats") == {"s": ("etl",), "a": ("etl",), "x": (), "o": ()}
    assert sharing(EMPTY).share_saved == 0


def test_running_dataflows_merge_and_come_apart():
    estate = submit(submit(EMPTY, ETL), flow("other", {"s": "sensors", "o": "archive"}, "s > o"))
    assert [(len(running.tasks), running.serves) for running in running_dataflows(estate)] == [
        (4, ("etl",)), (2, ("other",))]
    joint = flow(
        "joint", {"s": "sensors", "t": "sensors", "m": ("scale", {"by": 9}), "o": "archive"}, "s > m > o", "t > m",
        rates={"s": 100},
    )
    estate = submit(estate, joint)
    assert [running.serves for running in running_dataflows(estate)] == [("etl", "joint", "other")]
    assert len(running_dataflows(remove(estate, "joint"))) == 2
