"""Settings: planned, applied, inherited by what goes on with others' work, and taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.model.dataflow import Task
from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.model.errors import InvalidTransition, NotFound, NotSubmitted
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, Slot
from scheduler.model.plan import Plan
from scheduler.model.settings_of_fragments import MOST_OPEN_A_SLOT, USUAL, FragmentSettings, settings_of_new
from scheduler.moving import plan_move
from scheduler.setting import plan_settings, plan_switch
from scheduler.undoing import undo

from .catalogue import PRICES, TYPES, flow, submit

OPEN = FragmentSettings(real_time=True)
DYNAMIC_LINE = flow("d", {
    "s": "sensors", "a": ("dynamic", {"alternates": [
        {"name": "all", "type": "scale", "config": {"by": 1}, "value": 2}, {"name": "few", "type": "thin"}]}),
    "p": "alarm"}, "s > a > p")
LINE = flow("d", {"s": "sensors", "a": ("scale", {"by": 1}), "p": "alarm"}, "s > a > p")


def one_query() -> Estate:
    """A dataflow in one query, on a node of two slots."""
    return submit(Estate(slots=(Slot("n1", 0), Slot("n1", 1))), LINE)


def set_in(estate: Estate, **real_time: bool) -> Plan:
    return plan_settings(
        estate, "d", real_time={name.replace("_", "-"): opens for name, opens in real_time.items()},
        trigger_ms={name.replace("_", "-"): 20 for name in real_time}, cores_delta=0.25, task_types=TYPES,
        prices=PRICES, why="A limit of 50 ms is to be had.")


def test_a_setting_changes_what_a_query_is_set_to_and_nothing_else() -> None:
    estate = one_query()
    [name] = estate.fragments
    plan = set_in(estate, **{name.replace("-", "_"): True})
    assert (plan.kind, [step.key for step in plan.steps]) == ("set", [f"set:{name}"])
    assert plan.price is not None and plan.price.cores_delta == pytest.approx(0.25)
    after = apply_plan(estate, plan)
    assert after.settings == {name: FragmentSettings(20, real_time=True)}
    assert (after.fragments, after.tasks, after.submitted) == (estate.fragments, estate.tasks, estate.submitted)
    assert plan_from_json(plan_to_json(plan)) == plan


def test_it_is_taken_back_from_the_plan_as_long_as_it_is_in_force() -> None:
    estate = one_query()
    [name] = estate.fragments
    plan = set_in(estate, **{name.replace("-", "_"): True})
    after = apply_plan(estate, plan)
    back = undo(after, plan)
    assert back is not None and back.kind == "set" and back.price is not None
    assert back.price.cores_delta == pytest.approx(-0.25)
    before = apply_plan(after, back)
    assert before.settings == {}
    with pytest.raises(InvalidTransition, match="set to something else"):
        undo(before, plan)


def test_what_cannot_be_set_is_refused() -> None:
    estate = one_query()
    [name] = estate.fragments
    key = name.replace("-", "_")
    with pytest.raises(InvalidTransition, match="set so already"):
        set_in(estate, **{key: False})
    with pytest.raises(NotFound):
        set_in(estate, f9_9=True)
    with pytest.raises(NotSubmitted):
        plan_settings(Estate(), "d", real_time={name: True}, task_types=TYPES, prices=PRICES)


def test_a_query_that_moves_keeps_its_settings() -> None:
    estate = one_query()
    [name] = estate.fragments
    estate = apply_plan(estate, set_in(estate, **{name.replace("-", "_"): True}))
    moved = apply_plan(estate, plan_move(
        estate, "d", query=name, slot="n1/1", task_types=TYPES, prices=PRICES))
    [heir] = moved.fragments
    assert heir != name and moved.settings == {heir: FragmentSettings(20, real_time=True)}


settings_drawn = st.builds(FragmentSettings, st.none() | st.integers(20, 60_000), st.booleans())


@given(st.lists(settings_drawn, min_size=1, max_size=4), st.integers(0, MOST_OPEN_A_SLOT + 1))
def test_what_goes_on_with_others_work_has_the_shortest_interval_and_stays_open_if_all_were(
    earlier: list[FragmentSettings], opened: int
) -> None:
    before = {f"f1-{number}": Fragment(f"f1-{number}", (f"t{number}",), "n1/0", 1) for number in range(len(earlier))}
    heir = Fragment("f2-0", tuple(f"t{number}" for number in range(len(earlier))), "n1/0", 1, inherits=tuple(before))
    begun_with = settings_of_new(
        before, {"f2-0": heir}, dict(zip(before, earlier, strict=True)), {"n1/0": opened}).get("f2-0", USUAL)
    intervals = [former.trigger_ms for former in earlier if former.trigger_ms is not None]
    assert begun_with.trigger_ms == (min(intervals) if intervals else None)
    assert begun_with.real_time == (all(former.real_time for former in earlier) and opened < MOST_OPEN_A_SLOT)


def test_fragments_that_begin_anew_have_usual_settings() -> None:
    old, new = Fragment("f1-0", ("a",), "n1/0", 1), Fragment("f2-0", ("b",), "n1/0", 1)
    assert settings_of_new({"f1-0": old}, {"f1-0": old, "f2-0": new}, {"f1-0": OPEN}, {}) == {}


def switched(estate: Estate, alternate: str, *, task: str = "a", dataflow_id: str = "d") -> Plan:
    return plan_switch(
        estate, dataflow_id, task=task, alternate=alternate, task_types=TYPES, prices=PRICES, why="By hand.")


def test_a_switch_says_which_alternate_is_on_and_changes_nothing_else() -> None:
    estate = submit(Estate(slots=(Slot("n1", 0), Slot("n1", 1))), DYNAMIC_LINE)
    [name], task = estate.fragments, estate.submitted["d"].running["a"]
    plan = switched(estate, "few")
    assert (plan.kind, [step.key for step in plan.steps]) == ("set", [f"switch:{name}:{task}"])
    assert plan.price is not None and plan.price.cores_delta < 0  # it costs less an event
    assert plan_from_json(plan_to_json(plan)) == plan
    after = apply_plan(estate, plan)
    assert after.settings == {name: FragmentSettings(alternates={task: "few"})}
    assert (after.fragments, after.tasks) == (estate.fragments, estate.tasks)


def test_a_switch_leaves_what_was_set_meanwhile_and_is_left_by_it() -> None:
    estate = submit(Estate(slots=(Slot("n1", 0), Slot("n1", 1))), DYNAMIC_LINE)
    [name], task = estate.fragments, estate.submitted["d"].running["a"]
    plan = switched(estate, "few")
    paced = replace(estate, settings={name: FragmentSettings(70, real_time=True, alternates={"other": "x"})})
    after = apply_plan(paced, plan)
    assert after.settings == {name: FragmentSettings(70, real_time=True, alternates={"other": "x", task: "few"})}
    closed = apply_plan(after, set_in(after, **{name.replace("-", "_"): False}))
    assert closed.settings == {name: FragmentSettings(20, alternates={"other": "x", task: "few"})}


def test_a_switch_is_taken_back_unless_another_came_since() -> None:
    estate = submit(Estate(slots=(Slot("n1", 0), Slot("n1", 1))), DYNAMIC_LINE)
    [name], task = estate.fragments, estate.submitted["d"].running["a"]
    plan = switched(estate, "few")
    after = apply_plan(estate, plan)
    back = undo(after, plan)
    assert back is not None and [step.key for step in back.steps] == [f"switch:{name}:{task}"]
    before = apply_plan(after, back)
    assert before.settings == {name: FragmentSettings(alternates={task: "all"})}
    with pytest.raises(InvalidTransition, match="since"):
        undo(before, plan)


def test_alternates_go_along_with_a_query_that_moves() -> None:
    estate = submit(Estate(slots=(Slot("n1", 0), Slot("n1", 1))), DYNAMIC_LINE)
    [name], task = estate.fragments, estate.submitted["d"].running["a"]
    after = apply_plan(estate, switched(estate, "few"))
    slot = next(slot.name for slot in after.slots if slot.name != after.fragments[name].slot)
    moved = apply_plan(after, plan_move(after, "d", query=name, slot=slot, task_types=TYPES, prices=PRICES))
    [heir] = moved.fragments
    assert heir != name and moved.settings == {heir: FragmentSettings(alternates={task: "few"})}


@pytest.mark.parametrize(("task", "alternate", "wrong", "remedy"), [
    ("s", "few", NotFound, "Name one of a."), ("a", "fwe", NotFound, "Did you mean few?"),
    ("a", "all", InvalidTransition, "nothing to change")])
def test_a_switch_that_cannot_be_is_refused(task: str, alternate: str, wrong: type, remedy: str) -> None:
    estate = submit(Estate(slots=(Slot("n1", 0),)), DYNAMIC_LINE)
    with pytest.raises(wrong) as refused:
        switched(estate, alternate, task=task)
    assert remedy in refused.value.remedy


def test_dataflows_share_a_dynamic_task_and_its_switches() -> None:
    estate = submit(Estate(slots=(Slot("n1", 0), Slot("n1", 1))), DYNAMIC_LINE)
    other = replace(DYNAMIC_LINE, tasks=(*DYNAMIC_LINE.tasks[:2], Task("p", "archive")))
    estate = submit(estate, other, dataflow_id="e", team="roads")
    assert estate.submitted["d"].running["a"] == estate.submitted["e"].running["a"]
    assert switched(estate, "few").touched_teams == ("roads",)


def two_dynamic() -> Estate:
    """Two tasks with alternates, in one query."""
    config = dict(DYNAMIC_LINE.tasks[1].config)
    return submit(Estate(slots=(Slot("n1", 0),)), flow("d", {
        "s": "sensors", "a": ("dynamic", config), "b": ("dynamic", config), "p": "alarm"}, "s > a > b > p"))


def test_tasks_switch_together_by_one_plan_and_back() -> None:
    estate = two_dynamic()
    first, second = (estate.submitted["d"].running[name] for name in "ab")
    plan = plan_switch(
        estate, "d", task="a", alternate="few", along={"b": "few"}, task_types=TYPES, prices=PRICES)
    assert [step.task for step in plan.steps] == [first, second]
    after = apply_plan(estate, plan)

    def on(estate: Estate) -> dict[str, str]:
        return {task: name for settings in estate.settings.values() for task, name in settings.alternates.items()}

    assert on(after) == {first: "few", second: "few"}
    assert on(apply_plan(after, undo(after, plan))) == {first: "all", second: "all"}
    one = plan_switch(estate, "d", task="a", alternate="few", task_types=TYPES, prices=PRICES)
    assert plan.price.cores_delta < one.price.cores_delta < 0
    with pytest.raises(NotFound):
        plan_switch(estate, "d", task="a", alternate="few", along={"c": "few"}, task_types=TYPES, prices=PRICES)


def test_tasks_that_are_one_running_task_switch_to_one_alternate() -> None:
    estate = two_dynamic()
    same = estate.submitted["d"]
    running = {**same.running, "b": same.running["a"]}
    estate = replace(estate, submitted={"d": replace(same, running=running)})

    def planned(**along: str) -> Plan:
        return plan_switch(estate, "d", task="a", alternate="few", along=along, task_types=TYPES, prices=PRICES)

    assert [step.task for step in planned(b="few").steps] == [same.running["a"]]
    for along, message in (({"b": "all"}, "a and b, which are one running task,"), ({"a": "all"}, "a cannot be")):
        with pytest.raises(InvalidTransition) as refused:
            plan_switch(estate, "d", task="a", alternate="few", along=along, stays=True, task_types=TYPES,
                        prices=PRICES)
        assert message in refused.value.message and "few and all at once" in refused.value.message
        assert refused.value.remedy and refused.value.facts["task"] == next(iter(along))
