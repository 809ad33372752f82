"""First schedules of what runs without one: what is cut, what is divided, who stays where, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.applying import apply_plan
from scheduler.enactment import parts_of
from scheduler.model.errors import NotEnactable, NothingToChange
from scheduler.model.estate import Estate
from scheduler.model.resources import Supply
from scheduler.planning import plan_submission
from scheduler.rearranging import plan_pause
from scheduler.rescheduling import bound, plan_schedule, plan_schedule_back, schedulable
from scheduler.reuse.fragments import LONGEST_CHAIN
from scheduler.scheduling import prepare, schedule
from tests.scheduler.reversing import reverse_plan

from .catalogue import PRICES, TYPES, flow
from .stored import check_stored
from .test_rescheduling import (
    ESTATE,
    FLOW,
    PROFILES,
    SAM,
    by_task,
    check_divided,
    live_by_task,
    rescheduled,
    submitted,
    supply_of,
)


def unscheduled(estate: Estate, *dataflows, longest_chain=LONGEST_CHAIN) -> Estate:
    """The estate with these dataflows, submitted without a schedule."""
    for dataflow in dataflows:
        estate = apply_plan(estate, plan_submission(
            estate, dataflow, dataflow_id=dataflow.name, team="water", task_types=TYPES, prices=PRICES,
            longest_chain=longest_chain))
    return estate


def test_what_was_submitted_without_a_schedule_is_cut_and_divided_while_it_runs():
    estate = unscheduled(ESTATE, FLOW)
    assert list(estate.fragments) == ["f1-0"]
    plan, planned = rescheduled(estate, rate_per_s=300)
    after = apply_plan(estate, plan)
    check_divided(after)
    assert "f1-0" not in after.fragments and len(after.fragments) == 5
    for task, part in parts_of(planned).items():
        assert [(query.slot, query.threads, query.weight) for query in by_task(after, task).queries
            if not query.leaving] == [
            (bundle.slot, bundle.threads, bundle.weight) for bundle in part]
    source, by, out = (by_task(after, task) for task in ("in", "by", "out"))
    assert source.inherits == out.inherits == ("f1-0",) and not source.divided and not out.divided
    assert by.inherits == () and len(by.bundles) > 1, "it needs nothing of what was, and begins anywhere"
    assert out.channels == {out.tasks[0]: "f1-0.4"}, "who looks at the output notices nothing"
    kinds = {(step.kind, step.fragment) for step in plan.steps}
    assert {("hand_over", source.id), ("start_fragment", by.id), ("route", by.id), ("hand_over", out.id)} <= kinds
    assert "f1-0 ends" in plan.notes[0] and "no event is lost" in plan.notes[0]
    assert plan.notes[1].startswith("by, again work on several slots from now on")
    promised = {bundle.id for bundle in plan.promise.bundles}
    assert promised == {query.id for fragment in after.fragments.values() for query in fragment.queries
        if not query.leaving}
    assert (plan.price.queries_started, plan.price.queries_stopped) == (len(promised), 1), "each of them is named"
    assert plan.price.money_per_hour_delta > 0 and plan.price.slots_per_hour_delta > 0, "it kept no slot before"
    check_stored(plan)
    with pytest.raises(NothingToChange):
        plan_schedule(after, "air", planned, task_types=TYPES, prices=PRICES)
    back = plan_schedule_back(after, plan)
    assert "not fused again" in back.notes[0]
    for reverse in (back, reverse_plan(plan)):
        once_more = apply_plan(after, reverse)
        check_divided(once_more)
        assert live_by_task(once_more) == live_by_task(estate)


def test_a_query_of_one_task_is_divided_under_its_own_id():
    estate = unscheduled(ESTATE, FLOW, longest_chain=1)
    before = by_task(estate, "by")
    plan, _ = rescheduled(estate, rate_per_s=300)
    after = apply_plan(estate, plan)
    by = by_task(after, "by")
    assert by.id == before.id in {bundle.id for bundle in by.bundles} and len(by.bundles) == 3 and not by.inherits
    kinds = [(step.kind, step.bundle) for step in plan.steps if step.fragment == by.id]
    assert [kind for kind, _ in kinds].count("start_bundle") == 2 and ("route", None) in kinds
    source = by_task(after, "in")
    assert source.inherits == (by_task(estate, "in").id,) and not source.divided, "it only gets another slot"
    assert live_by_task(apply_plan(after, plan_schedule_back(after, plan))) == live_by_task(estate)


COUNTED_BY = flow(
    "counted", {"in": "sensors", "by": ("scale", {"by": 2}), "n": "count", "out": ("archive", {"name": "n"})},
    "in > by > n > out", rates={"in": 100})


def test_what_others_run_in_the_same_chain_stays_together_and_they_are_asked():
    """Others went on with the same chain: its other tasks stay one query, and read where they read before."""
    estate = unscheduled(ESTATE, COUNTED_BY, FLOW)
    plan, _ = rescheduled(estate, rate_per_s=60)
    after = apply_plan(estate, plan)
    check_divided(after)
    n, out = (after.submitted["counted"].running[task] for task in ("n", "out"))
    rest = after.fragments[after.places[n][0]]
    assert rest.tasks == (n, out) and not rest.divided and rest.inherits == ("f1-0",)
    by = by_task(after, "by")
    assert set(by.outlets[by.tasks[0]]) == {rest.id, by_task(after, "again").id}
    assert by.channels == {by.tasks[0]: "f1-0.1"} and by.inherits == ("f1-0",), "others read it all along"
    assert by.channels_of(by.tasks[0])[[query.id for query in by.queries].index(by.id)] == "f1-0.1"
    assert plan.touched == ("counted",)
    assert live_by_task(apply_plan(after, reverse_plan(plan))) == live_by_task(estate)


def test_what_is_shared_fused_is_cut_by_a_first_schedule_and_left_alone_by_the_next():
    """Whoever was submitted with a schedule left alone what ran fused already, and so do schedules after that."""
    estate = unscheduled(ESTATE, COUNTED_BY)
    estate = apply_plan(estate, submitted(estate))
    alike = replace(FLOW, name="alike")
    estate = unscheduled(estate, alike)
    assert [estate.submitted[name].scheduled for name in ("counted", "air", "alike")] == [False, True, False]
    assert by_task(estate, "again").divided and by_task(estate, "by").id == "f1-0"

    schedulable_tasks, _ = schedulable(estate, "air", FLOW, task_types=TYPES)
    assert set(schedulable_tasks) == {"again", "some", "out"}
    plan, _ = rescheduled(estate, rate_per_s=300)
    assert any(note.startswith("in, by stay fused") and "for others, too" in note for note in plan.notes)

    schedulable_tasks, _ = schedulable(estate, "alike", alike, task_types=TYPES)
    assert set(schedulable_tasks) == {"in", "by", "again", "some",
        "out"}, "it uses what is divided, and has no schedule itself"
    plan, _ = rescheduled(estate, rate_per_s=300, dataflow=alike)
    after = apply_plan(estate, plan)
    check_divided(after)
    assert after.submitted["alike"].scheduled and "f1-0" not in after.fragments
    check_stored(plan)


def test_who_takes_over_a_place_stays_on_its_node_for_that_and_then_leaves():
    estate = unscheduled(ESTATE, flow("first", {"in": "sensors", "out": "archive"}, "in > out", rates={"in": 100}))
    estate = unscheduled(estate, FLOW)
    home = by_task(estate, "by").slot
    other = "n1" if home.startswith("n2") else "n2"
    running, _ = schedulable(estate, "air", FLOW, task_types=TYPES)
    job = prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=60, among={"by"})
    supply = Supply(tuple(node for node in supply_of(estate, list(running.values())).free if node.name == other))
    planned = schedule(job, SAM, supply=supply)
    plan = plan_schedule(estate, "air", planned, task_types=TYPES, prices=PRICES)
    after = apply_plan(estate, plan)
    check_divided(after)
    by = by_task(after, "by")
    [heir] = [one for one in by.bundles if one.leaving]
    assert (heir.id, heir.slot) == (by.id, home) and all(one.slot.startswith(other) for one in by.bundles[:-1])
    upstream = by_task(after, "in", "first")
    assert by.id in upstream.outlets[upstream.tasks[0]]
    assert ("leave_bundle", by.id) in {(step.kind, step.bundle) for step in plan.steps}
    whole = dict.fromkeys(["by"], home.partition("/")[0])
    assert bound({"by": by_task(estate, "by")}, replace(job, one_slot=frozenset({"by"}))) == whole


def test_state_that_cannot_be_handed_over_keeps_a_chain_together():
    averaged = flow("averaged", {"in": "sensors", "w": "window", "out": "archive"}, "in > w > out", rates={"in": 100})
    estate = unscheduled(ESTATE, averaged)
    running, why_not = schedulable(estate, "averaged", averaged, task_types=TYPES)
    assert running == {} and "the state of window cannot be handed to another query" in why_not
    planned = schedule(prepare(FLOW, task_types=TYPES, profiles=PROFILES), SAM, supply=supply_of(ESTATE))
    with pytest.raises(NotEnactable, match="cannot be cut into tasks while they run"):
        plan_schedule(estate, "averaged", planned, task_types=TYPES, prices=PRICES)
    # A fork of it is a query of its own, and is scheduled; the rest is told to stay.
    forked = flow(
        "forked", {"in": "sensors", "w": "window", "x": "thin", "out": "archive", "by": ("scale", {"by": 2}),
                   "off": "alarm"}, "in > w > x > out", "in > by > off", rates={"in": 100})
    estate = unscheduled(ESTATE, forked)
    plan, _ = rescheduled(estate, dataflow=forked, rate_per_s=60)
    assert {bundle.task for bundle in plan.promise.bundles} == {"by", "off"}
    assert any(note.startswith("in, w, x, out stay fused and without a schedule") for note in plan.notes)


def test_a_chain_with_tasks_of_a_paused_dataflow_is_not_cut():
    estate = unscheduled(ESTATE, COUNTED_BY, FLOW)
    estate = apply_plan(estate, plan_pause(estate, "counted", task_types=TYPES, prices=PRICES))
    running, why_not = schedulable(estate, "air", FLOW, task_types=TYPES)
    assert not why_not and set(running) == {"again", "some", "out"}
    plan, _ = rescheduled(estate, rate_per_s=60)
    assert any("in, by stay fused" in note and "paused" in note for note in plan.notes)
    check_divided(apply_plan(estate, plan))
    everything = apply_plan(estate, plan_pause(estate, "air", task_types=TYPES, prices=PRICES))
    assert "resume it first" in schedulable(everything, "air", FLOW, task_types=TYPES)[1]
