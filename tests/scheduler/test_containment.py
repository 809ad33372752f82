"""Containment: a task made from a wider one that runs; outputs, invariants and what stays when dataflows go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.duplicates import deduplicate, equivalent_tasks
from scheduler.model.task_types import TaskTypes
from scheduler.performance.rates import input_rates_per_s
from scheduler.planning import plan_submission
from scheduler.rearranging import plan_pause
from scheduler.reuse.containment import contain
from scheduler.reuse.near_misses import near_misses
from tests.scheduler.sibling_index import SiblingIndex

from .catalogue import EMPTY, PRICES, flow
from .containing import (
    TYPES,
    as_it_runs,
    band,
    contained,
    containment,
    in_a_row,
    remove,
    simulated,
    submit,
)
from .invariants import check_estate
from .reference import Reference


def test_a_range_inside_a_wider_one_becomes_a_refinement_of_it():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    mine = band("narrow", 10, 30)
    estate, plan = submit(estate, mine, "narrow")
    [refinement] = plan.refined
    wide = estate.submitted["wide"].running["f"]
    assert (refinement.task, refinement.running) == ("f", wide)
    assert estate.tasks[estate.submitted["narrow"].running["f"]].parents == (wide,)
    assert len(plan.started) == 2, "the refinement and what is downstream of it"
    assert plan.price.cores_alone > submit(EMPTY, mine, "narrow")[1].price.cores_alone, "it pays for the wider one, too"


def test_it_is_off_unless_it_is_asked_for_and_an_exact_match_goes_first():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    direct, plan = submit(estate, band("narrow", 10, 30), "narrow", on=False)
    assert plan.refined == () and len(plan.started) == 2
    _, again = submit(direct, band("narrow", 10, 30), "again")
    assert again.refined == () and again.started == ()


def test_who_submits_the_same_later_finds_the_refinement():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    estate, first = submit(estate, band("narrow", 10, 30), "first")
    estate, _ = submit(estate, band("wider", 0, 35), "nearer", on=False)
    estate, second = submit(estate, band("narrow", 10, 30), "second")
    assert second.started == () and second.dataflow.running == first.dataflow.running
    assert [refinement.running for refinement in second.refined] == [refinement.running for refinement in first.refined]


def test_of_several_the_tightest_is_refined():
    estate, _ = submit(EMPTY, band("wide", 0, 45), "wide")
    estate, _ = submit(estate, band("tight", 5, 32), "tight", on=False)
    _, plan = submit(estate, band("narrow", 10, 30), "narrow")
    assert plan.refined[0].running == estate.submitted["tight"].running["f"]


def test_a_wider_task_that_the_merge_would_not_join_is_none():
    def totals(name, window):
        return flow(name, {"s": "source", "t": ("total", {"window": window}), "o": "end"}, "s > t > o")

    estate, _ = submit(EMPTY, totals("first", 2), "first")
    plan = plan_submission(
        estate, totals("fresh", 2), dataflow_id="fresh", team="water", task_types=TYPES, prices=PRICES, fresh=True)
    estate = remove(apply_plan(estate, plan), "first")  # what is left was started fresh: nobody joins it
    _, plan = submit(estate, totals("mine", 4), "mine")
    assert plan.refined == () and len(plan.started) == 2

    newer = TaskTypes(
        [replace(task_type, version=2) if task_type.name == "band" else task_type for task_type in TYPES.values()])
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    plan = plan_submission(
        estate, band("narrow", 10, 30), dataflow_id="narrow", team="water", task_types=newer, prices=PRICES,
        containment=containment(estate))
    assert plan.refined == () and len(plan.started) == 2


def test_a_wider_task_that_rests_is_not_woken_for_a_refinement():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    estate = apply_plan(estate, plan_pause(estate, "wide", task_types=TYPES, prices=PRICES))
    _, plan = submit(estate, band("narrow", 10, 30), "narrow")
    assert plan.refined == ()
    wide = estate.submitted["wide"].running["f"]
    assert wide not in plan.resumed
    both = flow("both", {"s": "source", "w": ("band", {"low": 0, "high": 40}), "o": "end",
                         "f": ("band", {"low": 10, "high": 30}), "p": ("end", {"name": "b"})}, "s > w > o", "s > f > p")
    _, plan = submit(estate, both, "both")
    assert [refinement.running for refinement in plan.refined] == [wide], "it is woken for the dataflow itself"


def test_the_wider_task_stays_while_a_refinement_needs_it():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    wide = estate.submitted["wide"].running
    estate, _ = submit(estate, band("narrow", 10, 30), "narrow")
    estate = remove(estate, "wide")
    assert wide["f"] in estate.tasks and wide["o"] not in estate.tasks
    estate = remove(estate, "narrow")
    assert not estate.tasks and not estate.fragments


def test_a_dataflow_that_has_the_wider_task_itself_refines_that():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    both = flow("both", {
        "s": "source", "w": ("band", {"low": 0, "high": 40}), "n": ("band", {"low": 10, "high": 30}),
        "o": "end", "p": ("end", {"name": "b"})}, "s > w > o", "s > n > p")
    contained_flow = contained(estate, both)
    assert {task.id for task in contained_flow.dataflow.tasks} == {"s", "w", "n", "o", "p"}
    assert Stream("w", "n") in contained_flow.dataflow.streams and contained_flow.refinements[0].wider == "w"


def test_two_refinements_of_one_task_read_it_once():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    two = flow("two", {
        "s": "source", "m": ("band", {"low": 5, "high": 6}), "n": ("band", {"low": 10, "high": 30}),
        "o": "end", "p": ("end", {"name": "b"})}, "s > m > o", "s > n > p")
    contained_flow = contained(estate, two)
    assert len(contained_flow.dataflow.tasks) == 6 and len(
        {refinement.wider for refinement in contained_flow.refinements}) == 1


def test_a_refinement_that_the_dataflow_has_already_is_not_made_twice():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    narrow = {"low": 10, "high": 30}
    both = flow("both", {
        "s": "source", "w": ("band", {"low": 0, "high": 40}), "n": ("band", narrow), "d": ("band", narrow),
        "o": "end", "p": ("end", {"name": "b"})}, "s > w > n > o", "s > d > p")
    contained_flow = contained(estate, both)
    assert contained_flow.refinements == () and not equivalent_tasks(contained_flow.dataflow, task_types=TYPES)


def test_scopes_keep_apart_and_state_may_be_wanted_fresh():
    estate, _ = submit(EMPTY, band("wide", 0, 40, visibility="private"), "wide", team="roads")
    assert contained(estate, band("narrow", 10, 30)).refinements == ()
    assert contained(estate, band("narrow", 10, 30), scope="roads").refinements
    blocks = {"s": "source", "t": ("total", {"window": 2}), "o": "end"}
    estate, _ = submit(EMPTY, flow("fine", blocks, "s > t > o"), "fine")
    coarse = flow("coarse", blocks | {"t": ("total", {"window": 6})}, "s > t > o")
    assert contained(estate, coarse).refinements
    assert contained(estate, coarse, fresh_for="coarse").refinements == ()


def test_behind_a_task_that_is_started_anew_nothing_is_contained():
    def blocks(name, low, high):
        return flow(name, {"s": "source", "t": ("total", {"window": 4}), "f": ("band", {"low": low, "high": high}),
                           "o": "end"}, "s > t > f > o")

    estate, _ = submit(EMPTY, blocks("wide", 0, 40), "wide")
    _, with_it = submit(estate, blocks("narrow", 10, 30), "narrow", fresh=True)
    _, without = submit(estate, blocks("narrow", 10, 30), "narrow", fresh=True, on=False)

    assert with_it.refined == () and len(with_it.started) == len(without.started) == 3
    assert with_it.price.cores_delta == pytest.approx(without.price.cores_delta)
    _, joining = submit(estate, blocks("narrow", 10, 30), "narrow")
    assert joining.refined and len(joining.started) == 2, "what is joined is refined"
    assert joining.otherwise == with_it.price and with_it.otherwise == joining.price, "each is priced as it would be"


def test_rates_behind_a_refinement_are_what_they_were():
    estate, _ = submit(EMPTY, band("wide", 0, 40), "wide")
    mine = band("narrow", 10, 30)
    before = input_rates_per_s(mine, task_types=TYPES)
    after = input_rates_per_s(contained(estate, mine).dataflow, task_types=TYPES)
    assert after["o"] == pytest.approx(before["o"]) and after["f"] < before["f"]


def test_near_misses_tell_savings_against_the_refinement():
    estate, _ = submit(EMPTY, band("wide", 10, 31), "wide")
    mine = band("narrow", 10, 30)
    options = {"siblings": SiblingIndex(estate.tasks.values()), "task_types": TYPES, "prices": PRICES}
    [plain] = near_misses(estate.tasks, mine, **options)
    [against] = near_misses(estate.tasks, mine, containment=containment(estate), **options)
    assert 0 < against.cores_saved < plain.cores_saved


# Random dataflows -----------------------------------------------------------------------------------------------------

NARROW = st.tuples(st.integers(0, 4), st.integers(5, 9)).map(lambda pair: {"low": pair[0] * 5, "high": pair[1] * 5})
STEPS = st.one_of(
    NARROW.map(lambda config: ("band", config)),
    st.tuples(NARROW, NARROW, st.sampled_from([1, 2]), st.booleans()).map(lambda drawn: ("dynamic", {"alternates": [
        {"name": "a", "type": "band", "config": drawn[0], "value": drawn[2]},
        {"name": "b", **(in_a_row(drawn[1], {"low": 10, "high": 30}) if drawn[3] else {
            "type": "band", "config": drawn[1]})}]})),
    st.sampled_from([1, 2, 3, 4, 6]).map(lambda window: ("total", {"window": window})))


@st.composite
def random_dataflows(draw):
    tasks, streams = [Task("s", "source", {})], []
    for position in range(draw(st.integers(1, 4))):
        parent = draw(st.sampled_from([task.id for task in tasks]))
        tasks.append(Task(f"t{position}", *draw(STEPS)))
        streams.append(Stream(parent, f"t{position}"))
    for parent in sorted({task.id for task in tasks} - {stream.source for stream in streams}):
        tasks.append(Task(f"o{parent}", "end", {"name": parent}))
        streams.append(Stream(parent, f"o{parent}"))
    visibility = draw(st.sampled_from(["shared", "shared", "private"]))
    return deduplicate(Dataflow("x", tuple(tasks), tuple(streams), visibility=visibility), task_types=TYPES)


def goes_right(history):
    """Dataflows come and go, some with containment: outputs are those of the dataflow alone, the invariants hold."""
    estate, reference, present = EMPTY, Reference(TYPES), {}
    for number, (dataflow, on, team, gone) in enumerate(history):
        if gone and present:
            leaver = sorted(present)[0]
            estate = remove(estate, leaver)
            reference.remove(leaver)
            del present[leaver]
        scope = team if dataflow.visibility == "private" else ""
        rewritten = contained(estate, dataflow, scope=scope) if on else None
        effective = rewritten.dataflow if on else dataflow
        assert not equivalent_tasks(effective, task_types=TYPES)
        before, name = estate, f"d{number}"
        estate, plan = submit(estate, dataflow, name, on=on, team=team)
        assert {task.id for task in plan.started}.isdisjoint(before.tasks)
        assert all(refinement.running in before.tasks for refinement in plan.refined)
        reference.add(name, effective, team)
        present[name] = dataflow
    check_estate(estate, reference)
    for name, dataflow in present.items():
        running = estate.submitted[name].running
        got = simulated(as_it_runs(estate, name))
        assert {sink: got[running[sink]] for sink in estate.submitted[name].sinks} == simulated(dataflow)
    for name in sorted(present):
        estate = remove(estate, name)
    assert not estate.tasks and not estate.fragments


@given(
    st.lists(st.tuples(random_dataflows(), st.booleans()), max_size=4), random_dataflows(), st.booleans())
def test_containment_never_starts_more_tasks_than_there_are_without_it(history, newest, fresh):
    estate = EMPTY
    for number, (dataflow, on) in enumerate(history):
        estate, _ = submit(estate, dataflow, f"d{number}", on=on)
    _, with_it = submit(estate, newest, "newest", fresh=fresh)
    _, without = submit(estate, newest, "newest", fresh=fresh, on=False)

    assert len(with_it.started) <= len(without.started)
    assert all(refinement.running in {*with_it.reused} for refinement in with_it.refined)


HISTORIES = st.lists(
    st.tuples(random_dataflows(), st.booleans(), st.sampled_from(["water", "roads"]), st.booleans()),
    min_size=2, max_size=6)


@settings(max_examples=50)
@given(HISTORIES)
def test_outputs_stay_and_the_invariants_hold(history):
    goes_right(history)


@pytest.mark.long
@settings(max_examples=1_500)
@given(HISTORIES)
def test_outputs_stay_and_the_invariants_hold_in_many_cases(history):
    goes_right(history)


def test_without_a_rule_or_a_wider_task_nothing_changes():
    mine = band("narrow", 10, 30)
    assert contain({}, mine, task_types=TYPES, containment=None).dataflow is mine
    estate, _ = submit(EMPTY, replace(band("other", 50, 60)), "other")
    assert contained(estate, mine).dataflow is mine
