"""How new tasks are cut into chains, placed on slots and joined to what runs, and how they are taken away again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.applying import apply_plan
from scheduler.mapping.least_loaded import place_least_loaded
from scheduler.model.errors import NoSlots
from scheduler.model.fragment import Slot
from scheduler.model.plan import Step
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.planning import plan_removal, plan_submission
from scheduler.reuse.fragments import LONGEST_CHAIN, cut_into_chains
from scheduler.reuse.merge import merge

from .catalogue import EMPTY, PRICES, SLOTS, TYPES, flow, remove, submit, unchained

BY = {number: ("scale", {"by": number}) for number in range(1, 9)}


def chains_of(dataflow, **options):
    """The chains of a dataflow that runs alone, by submitted task ids."""
    merged = merge({}, dataflow, task_types=TYPES)
    names = {running_id: task_id for task_id, running_id in merged.running.items()}
    chains = cut_into_chains(merged.started, task_types=TYPES, **options)
    return [" ".join(names[task_id] for task_id in chain) for chain in chains]


def step(estate, dataflow_id, kind, fragment, task=None, **more):
    task_id = estate.submitted[dataflow_id].running[task] if task else None
    return Step(kind=kind, fragment=fragment, task=task_id, **more)


LINE = flow("line", {"s": "sensors", "a": BY[1], "b": BY[2], "c": BY[3], "o": "archive"}, "s > a > b > c > o")


def test_a_line_is_one_chain():
    assert chains_of(LINE) == ["s a b c o"]


def test_a_fork_continues_along_the_longest_way_to_a_sink():
    tasks = {"s": "sensors", "p": "alarm", "a": BY[1], "b": BY[2], "o": "archive", "q": ("archive", {"name": "q"})}
    assert chains_of(flow("x", tasks, "s > p", "s > a > b > o", "a > q")) == ["s a b o", "p", "q"]


def test_a_task_with_several_parents_starts_a_chain():
    tasks = {"s": "sensors", "a": BY[1], "b": BY[2], "c": BY[3], "o": "archive"}
    assert sorted(chains_of(flow("x", tasks, "s > a > c", "s > b > c > o"))) in (
        ["b", "c o", "s a"], ["a", "c o", "s b"],
    )


def test_a_chain_goes_on_with_another_child_where_the_farthest_one_has_several_parents():
    tasks = {"s": "sensors", "t": ("sensors", {"seed": 1}), "a": BY[1], "b": BY[2], "o": "archive", "p": "alarm"}
    assert chains_of(flow("x", tasks, "s > a > b > o", "t > a", "s > p")) == ["s p", "t", "a b o"]


def test_a_type_that_never_chains_is_a_chain_of_its_own():
    tasks = {"s": "sensors", "a": BY[1], "x": "alone", "b": BY[2], "o": "archive"}
    assert chains_of(flow("x", tasks, "s > a > x > b > o")) == ["s a", "x", "b o"]


def test_a_task_that_its_dataflow_keeps_apart_is_a_chain_of_its_own():
    tasks = {"s": "sensors", "a": BY[1], "b": BY[2], "o": "archive"}
    estate = submit(EMPTY, unchained(flow("x", tasks, "s > a > b > o"), "a"))
    names = {running_id: task_id for task_id, running_id in estate.submitted["x"].running.items()}
    assert [[names[task_id] for task_id in fragment.tasks] for fragment in estate.fragments.values()] == [
        ["s"], ["a"], ["b", "o"]]
    plan = plan_removal(estate, "x", task_types=TYPES, prices=PRICES)
    assert plan.price.cores_alone == pytest.approx(-plan.price.cores_delta), "three queries, alone as together"


def test_a_task_that_runs_in_a_chain_stays_there_and_that_is_told():
    estate = submit(EMPTY, LINE)
    plan = plan_submission(
        estate, unchained(replace(LINE, name="strict"), "a"), dataflow_id="strict", team="roads", task_types=TYPES,
        prices=PRICES)
    assert any("a runs in a query with others already" in note for note in plan.notes)
    estate = apply_plan(estate, plan)
    assert estate.users_of(estate.submitted["line"].running["a"]).unchained
    assert not estate.users_of(estate.submitted["line"].running["b"]).unchained


def test_a_chain_may_have_a_longest_length():
    assert chains_of(LINE, longest_chain=2) == ["s a", "b c", "o"]
    assert chains_of(LINE, longest_chain=1) == ["s", "a", "b", "c", "o"]
    assert chains_of(LINE, longest_chain=5) == ["s a b c o"]


def test_a_long_chain_is_cut_into_queries_that_spark_can_plan():
    middle = {f"t{number:03}": ("scale", {"by": number}) for number in range(200)}
    long = flow("long", {"s": "sensors", **middle, "o": "archive"}, " > ".join(("s", *middle, "o")))
    estate = submit(EMPTY, long)
    lengths = [len(fragment.tasks) for fragment in estate.fragments.values()]
    assert max(lengths) <= LONGEST_CHAIN < 100 and sum(lengths) == 202 and len(lengths) == 5


def test_merging_at_the_end_of_a_chain_in_its_middle_and_where_an_outlet_is_open():
    estate = submit(EMPTY, LINE)
    assert list(estate.fragments) == ["f1-0"] and not estate.fragments["f1-0"].outlets

    middle = flow("middle", {"s": "sensors", "a": BY[1], "b": BY[2], "p": "alarm"}, "s > a > b > p")
    estate = submit(estate, middle)
    b = estate.submitted["middle"].running["b"]
    assert estate.fragments["f1-0"].outlets == {b: ("f2-0",)}
    assert estate.fragments["f2-0"].tasks == (estate.submitted["middle"].running["p"],)

    again = flow("again", {"s": "sensors", "a": BY[1], "b": BY[2], "d": BY[4], "o": "archive"}, "s > a > b > d > o")
    plan = plan_submission(estate, again, dataflow_id="again", team="water", task_types=TYPES, prices=PRICES)
    assert plan.steps == (
        Step(kind="start_fragment", fragment="f3-0"),
        Step(kind="open_outlet", fragment="f1-0", task=b, reader="f3-0"),
    )
    estate = submit(estate, again)
    assert estate.fragments["f1-0"].outlets == {b: ("f2-0", "f3-0")}
    assert estate.fragments["f1-0"].active == 5


def test_the_same_dataflow_twice_starts_nothing():
    estate = submit(EMPTY, LINE)
    plan = plan_submission(estate, LINE, dataflow_id="twin", team="roads", task_types=TYPES, prices=PRICES)
    assert (plan.started, plan.steps, plan.fragments_after, plan.touched) == ((), (), {}, ("line",))
    assert plan.price.cores_delta == 0 and plan.price.cores_alone > 0
    estate = submit(estate, LINE, "twin", "roads")
    plan = plan_removal(estate, "line", task_types=TYPES, prices=PRICES)
    assert (plan.stopped, plan.steps, len(plan.reused)) == ((), (), 5)


def test_unmerging_closes_outlets_then_tails_then_stops_fragments_downstream_first():
    estate = submit(EMPTY, LINE)
    side = {
        "s": "sensors", "a": BY[1], "d": BY[4], "e": BY[5], "p": ("archive", {"name": "p"}), "q": "alarm",
    }
    estate = submit(estate, flow("side", side, "s > a > d > e > p", "d > q"))
    assert {fragment.id: len(fragment.tasks) for fragment in estate.fragments.values()} == {"f1-0": 5, "f2-0": 3,
        "f2-1": 1}

    plan = plan_removal(estate, "side", task_types=TYPES, prices=PRICES)
    assert plan.steps == (
        step(estate, "side", "close_outlet", "f1-0", "a", reader="f2-0"),
        Step(kind="stop_fragment", fragment="f2-1"),
        Step(kind="stop_fragment", fragment="f2-0"),
    )
    plan = plan_removal(estate, "line", task_types=TYPES, prices=PRICES)
    assert plan.steps == (step(estate, "line", "close_tail", "f1-0", "a", active=2, active_before=5),)
    assert plan.touched == ("side",)

    estate = remove(estate, "line")
    assert estate.fragments["f1-0"].active_tasks == estate.fragments["f1-0"].tasks[:2]
    assert set(estate.fragments["f1-0"].outlets) == {estate.submitted["side"].running["a"]}


def test_a_task_whose_tail_was_closed_starts_afresh_when_it_is_wanted_again():
    estate = submit(submit(EMPTY, LINE), flow("short", {"s": "sensors", "a": BY[1], "p": "alarm"}, "s > a > p"))
    estate = remove(estate, "line")
    estate = submit(estate, LINE, "back")
    assert estate.fragments["f1-0"].active == 2, "the paused tasks stay paused: what they knew is out of date"
    assert len(estate.fragments["f4-0"].tasks) == 3
    assert estate.places[estate.submitted["back"].running["b"]] == ("f4-0", 0)


def test_merging_joins_several_running_dataflows():
    fragment_id = flow("one", {"s": "sensors", "o": "archive"}, "s > o")
    two = flow("two", {"s": ("sensors", {"seed": 2}), "o": "archive"}, "s > o")
    tasks = {"s": "sensors", "t": ("sensors", {"seed": 2}), "m": BY[1], "o": "archive"}
    both = flow("both", tasks, "s > m > o", "t > m")
    estate = submit(submit(submit(EMPTY, fragment_id), two), both)
    assert set(estate.fragments) == {"f1-0", "f2-0", "f3-0"}
    assert [list(estate.fragments[first].outlets.values()) for first in ("f1-0", "f2-0")] == [[("f3-0",)], [("f3-0",)]]


def test_the_heaviest_fragment_goes_first_to_the_slot_with_least_to_do():
    slots = [Slot("a", 0), Slot("a", 1), Slot("b", 0)]
    assert place_least_loaded([1, 1, 1, 1], slots=slots, load={}) == ("a/0", "a/1", "b/0", "a/0")
    assert place_least_loaded([1, 5, 1], slots=slots, load={}) == ("a/1", "a/0", "b/0")
    assert place_least_loaded([1, 1], slots=slots, load={"a/0": 3.0, "a/1": 0.5, "gone/0": 0.0}) == ("b/0", "a/1")
    assert place_least_loaded([], slots=[], load={}) == ()
    with pytest.raises(NoSlots) as raised:
        place_least_loaded([1], slots=[], load={})
    assert raised.value.remedy


def test_new_fragments_spread_over_the_slots():
    estate = EMPTY
    for number in range(6):
        estate = submit(estate, flow(f"d{number}", {"s": ("sensors", {"seed": number}), "o": "archive"}, "s > o"))
    assert sorted(fragment.slot for fragment in estate.fragments.values()) == sorted(
        [slot.name for slot in SLOTS] * 2
    )


@pytest.mark.parametrize(("start", "other", "is_told"), [
    ("oldest", 0, True), ("2026-05-01T00:00:00Z", 0, True), ("newest", 0, False), ("oldest", 1, False)])
def test_who_asks_for_old_events_of_a_source_that_is_read_already_is_told_to_get_none(start, other, is_told):
    types = TaskTypes([*TYPES.values(), TaskType(
        "table", "source", "Rows.", "none:none", (
            Parameter("start", "string", "Where.", default="newest"), Parameter("keep_dead", "integer", "Letters.")),
        connector="none:none")])
    estate = EMPTY
    for name, keep_dead in (("first", 0), ("second", other)):
        rows = ("table", {"start": start, "keep_dead": keep_dead})
        plan = plan_submission(
            estate, flow(name, {"rows": rows, "o": ("archive", {"name": name})}, "rows > o"), dataflow_id=name,
            team="roads", task_types=types, prices=PRICES)
        assert any("rows is read already" in note for note in plan.notes) is (is_told and name == "second")
        estate = apply_plan(estate, plan)
