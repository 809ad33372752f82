"""Named savepoints, in the science: what is exact, and what a plan makes of a dataflow that begins from one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.changing import plan_change
from scheduler.exact_savepoints import NoExactSavepoint, SavepointDiffers, beginnings, savepoint_of
from scheduler.model.dataflow import Dataflow
from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.model.errors import NoSlots
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.plan import Plan
from scheduler.model.saved_states import SavedStates, SavedTask
from scheduler.model.settings_of_fragments import FragmentSettings, settings_of_new
from scheduler.planning import plan_submission
from scheduler.rearranging import plan_pause
from scheduler.rebasing import rebase

from .catalogue import EMPTY, PRICES, TYPES, flow, submit, unchained

LINE = flow("d", {"s": "sensors", "a": ("scale", {"by": 1}), "c": "count", "o": "archive"}, "s > a > c > o")
HERE: dict = {"task_types": TYPES, "prices": PRICES}


def saved(estate: Estate, dataflow: Dataflow, *, node: str = "n1") -> SavedStates:
    fragment, tasks = savepoint_of(estate, dataflow, dataflow_id=dataflow.name, task_types=TYPES)
    return SavedStates(f"{node}-00000001", "monday", node, fragment, 1_790_000_000_000, 17, tasks)


def begun(estate: Estate, dataflow: Dataflow, states: SavedStates, *, name: str = "later", **more) -> Plan:
    return plan_submission(
        estate, replace(dataflow, name=name), dataflow_id=name, team="water", begin_from=states, **HERE, **more)


def test_sources_and_tasks_with_state_are_what_a_savepoint_has():
    estate = submit(EMPTY, LINE)
    states = saved(estate, LINE)
    running = estate.submitted["d"].running
    assert {task: identity.running for task, identity in states.tasks.items()} == {
        task: running[task] for task in ("s", "c")}
    assert states.fragment == estate.places[running["c"]][0]


@pytest.mark.parametrize(("dataflow", "why"), [
    (unchained(LINE, "c"), "are in 2 queries"),
    (flow("d", {"s": "sensors", "w": "window", "o": "archive"}, "s > w > o"), "w keeps its state inside Spark"),
    (flow("d", {"s": "sensors", "t": ("sensors", {"seed": 1}), "c": "count", "o": "archive"}, "s > c > o", "t > c"),
     "are in 3 queries"),
], ids=["a query of its own", "state of Spark", "two sources"])
def test_what_is_not_of_one_moment_or_cannot_be_copied_is_refused(dataflow, why):
    estate = submit(EMPTY, dataflow)
    with pytest.raises(NoExactSavepoint, match=why):
        saved(estate, dataflow)


def test_what_rests_is_refused():
    estate = submit(EMPTY, LINE)
    rested = apply_plan(estate, plan_pause(estate, "d", **HERE))
    with pytest.raises(NoExactSavepoint, match="is paused"):
        saved(rested, LINE)


def test_a_plan_begins_where_the_savepoint_is_and_joins_nothing_of_another_past():
    estate = submit(EMPTY, LINE)
    states = saved(estate, LINE, node="n2")
    plan = begun(estate, LINE, states)
    assert plan.reused == () and plan.fragments_before == {} and plan.otherwise is None
    [(name, fragment)] = plan.fragments_after.items()
    assert fragment.slot == "n2/0"
    ids = plan.dataflow.running
    assert plan.settings_after == {name: FragmentSettings(restores={
        ids[task]: SavedTask(states.id, states.fragment, states.tasks[task].running) for task in ("s", "c")})}
    assert "savepoint monday" in plan.notes[0] and "2026-09-21 14:13:20 UTC" in plan.notes[0]
    assert plan_from_json(plan_to_json(plan)) == plan
    after = apply_plan(estate, plan)
    assert after.settings[name] == plan.settings_after[name]
    other = plan_submission(after, replace(LINE, name="e"), dataflow_id="e", team="water", **HERE)
    assert set(other.reused) == set(estate.submitted["d"].running.values())


def test_it_is_carried_over_to_that_node_and_no_other():
    estate = submit(EMPTY, LINE)
    plan = begun(estate, LINE, saved(estate, LINE, node="n2"))
    busy = replace(submit(estate, replace(LINE, name="x", tasks=tuple(
        replace(task, config={"seed": 5}) if task.id == "s" else task for task in LINE.tasks))), generation=7)
    rebased = rebase(plan, busy, query_cores=0.01)
    [(name, fragment)] = rebased.fragments_after.items()
    assert fragment.slot == "n2/0" and rebased.digest == plan.digest
    assert rebased.settings_after.keys() == {name} and rebased.settings_after[name].restores


def changed(estate: Estate, dataflow: Dataflow, states: SavedStates | None, *, former: Dataflow, **more) -> Plan:
    return plan_change(
        estate, dataflow, former=former, dataflow_id=former.name, team="water", begin_from=states, **HERE, **more)


@given(by=st.integers(1, 3), other=st.booleans(), again=st.integers(1, 3))
def test_a_version_that_begins_from_one_takes_the_place_of_the_whole_dataflow_and_of_nothing_else(by, other, again):
    """Also of the same document, and again and again from one savepoint: each time with the states of then."""
    estate = submit(EMPTY, LINE)
    estate = submit(estate, replace(LINE, name="e")) if other else estate
    states, former = saved(estate, LINE, node="n2"), LINE
    version = replace(LINE, tasks=tuple(
        replace(task, config={"by": by}) if task.id == "a" else task for task in LINE.tasks))
    for _ in range(again):
        ran = estate.submitted["d"].running
        plan = changed(estate, version, states, former=former)
        assert plan.reused == () and plan.otherwise is None
        runs = plan.dataflow.running
        assert {task.id for task in plan.started} == set(runs.values()) and not set(runs.values()) & set(estate.tasks)
        assert {task.id for task in plan.stopped} == (
            set() if set(ran.values()) & set(estate.submitted.get("e", plan.dataflow).running.values())
            else set(ran.values()))
        [begun_fragment] = plan.fragments_after.keys() - plan.fragments_before.keys()
        assert plan.fragments_after[begun_fragment].slot == "n2/0"
        assert {task: place.task for task, place in plan.settings_after[begun_fragment].restores.items()} == {
            runs[task]: states.tasks[task].running for task in ("s", "c")}
        assert "c begins with its state of then" in plan.notes[0] and "Without state: a, o." in plan.notes[0]
        assert plan_from_json(plan_to_json(plan)) == plan
        estate, former = apply_plan(estate, plan), version
    assert estate.submitted.get("e") is None or all(
        task in estate.tasks for task in estate.submitted["e"].running.values())
    # Taken back, nothing of it goes on, though both are the same document; as another version, all of it does.
    back = changed(estate, version, None, former=version, anew=True)
    assert not set(back.dataflow.running.values()) & set(estate.submitted["d"].running.values())
    assert set(changed(estate, version, None, former=version).reused) == set(estate.submitted["d"].running.values())


def test_how_each_task_begins_is_said_of_each():
    estate = submit(EMPTY, LINE)
    states = saved(estate, LINE)
    of_tasks = {task.task: (task.begins, task.why) for task in beginnings(states, LINE, TYPES)}
    assert of_tasks == {
        "s": ("position", "goes on with event 17, due when it starts"), "a": ("nothing", "keeps no state"),
        "c": ("state", "begins with its state of then"), "o": ("nothing", "keeps no state")}
    other = flow("d", {"s": ("sensors", {"seed": 4}), "t": "count", "o": "archive"}, "s > t > o")
    assert {task.task: task.why for task in beginnings(states, other, TYPES) if task.begins == "refused"} == {
        "s": "has another seed than then", "t": "is not in the savepoint",
        "c": "is in the savepoint, and the dataflow has no such task with state or source"}


def test_a_node_without_slots_is_named():
    estate = submit(EMPTY, LINE)
    with pytest.raises(NoSlots, match="Node n9"):
        begun(estate, LINE, saved(estate, LINE, node="n9"))


def test_queries_that_go_on_with_its_work_begin_with_what_that_leaves():
    estate = submit(EMPTY, LINE)
    plan = begun(estate, LINE, saved(estate, LINE))
    [(name, fragment)] = plan.fragments_after.items()
    heir = replace(fragment, id="f9-0", inherits=(name,))
    assert settings_of_new({name: fragment}, {"f9-0": heir}, dict(plan.settings_after), {}) == {}


@given(by=st.integers(-9, 9), more=st.booleans(), count=st.booleans(), seed=st.integers(0, 2))
def test_it_begins_exactly_where_its_sources_and_tasks_with_state_are_the_same(by, more, count, seed):
    """Whatever else of it differs: tasks between them, sinks."""
    estate = submit(EMPTY, LINE)
    states = saved(estate, LINE)
    tasks = {"s": ("sensors", {"seed": seed}), "a": ("scale", {"by": by}), "o": ("archive", {"name": "else"})}
    tasks |= {"c": "count"} if count else {}
    tasks |= {"d": "count"} if more else {}
    between = [task for task in ("c", "d") if task in tasks]
    dataflow = flow("later", tasks, " > ".join(["s", "a", *between, "o"]))
    if seed == 0 and count and not more:
        restores = next(iter(begun(estate, dataflow, states).settings_after.values())).restores
        assert {place.task for place in restores.values()} == {identity.running for identity in states.tasks.values()}
        return
    with pytest.raises(SavepointDiffers) as raised:
        begun(estate, dataflow, states)
    assert raised.value.facts["tasks"].keys() == {
        *(["s"] if seed else []), *(["d"] if more else []), *([] if count else ["c"])}
    assert begun(Estate(slots=(Slot("n1", 0),)), LINE, states), "whatever runs"
