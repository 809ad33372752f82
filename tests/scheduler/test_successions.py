"""Whose place queries take: of random histories of an estate, every query that ends leaves its place to those that do
its work, and none takes the place of one that goes on."""

from __future__ import annotations

from hypothesis import given

from scheduler.applying import apply_plan
from scheduler.changing import plan_change
from scheduler.history.successions import successions
from scheduler.model.estate import Estate
from scheduler.undoing import undo

from .catalogue import EMPTY, PRICES, TYPES, flow, submit
from .test_moving import LINE, TWO_NODES, moved
from .test_rearranging import fuse, gap
from .test_rearranging_properties import SHORT, lives, planned


def at_work(estate: Estate) -> dict[str, set[str]]:
    return {bundle.id: set(fragment.kept_tasks) for fragment in estate.fragments.values()
            for bundle in fragment.queries if not bundle.leaving}


def test_a_move_there_and_back_is_one_line() -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    plan = moved(estate)
    [heir] = successions(plan)
    assert successions(plan) == {heir: ("f1-0",)}
    after = apply_plan(estate, plan)
    [again] = successions(undo(after, plan))
    assert successions(undo(after, plan)) == {again: (heir,)}


def test_a_fused_query_takes_the_place_of_all_the_one_that_read_its_input_first() -> None:
    estate = gap()
    assert successions(fuse(estate, "side")) == {"f4-0": ("f1-0", "f2-0")}


def test_a_query_of_another_version_takes_the_place_of_the_one_at_its_first_tasks_name() -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    other = flow("line", {"s": ("sensors", {"seed": 7}), "a": ("scale", {"by": 1}), "o": "archive"}, "s > a > o")
    plan = plan_change(
        estate, other, former=LINE, dataflow_id="line", team="water", task_types=TYPES, prices=PRICES, fresh=False)
    [begun] = set(plan.fragments_after) - set(estate.fragments)
    assert successions(plan) == {begun: ("f1-0",)}


@given(lives())
@SHORT
def test_whoever_does_the_work_of_queries_that_end_takes_their_place(life: list[tuple]) -> None:
    estate = EMPTY
    for what, dataflow_id, *more in life:
        plan = planned(estate, what, dataflow_id, *more)
        if plan is None:
            continue
        after = apply_plan(estate, plan)
        old, new = at_work(estate), at_work(after)
        places = successions(plan)
        for heir, formers in places.items():
            assert heir in new and heir not in old
            assert set(formers) <= old.keys() and new.keys().isdisjoint(formers)
        for heir in new.keys() - old.keys():
            by_work = {former for former in old.keys() - new.keys() if old[former] & new[heir]}
            assert by_work <= set(places.get(heir, ()))
            assert what == "change" or set(places.get(heir, ())) == by_work
        estate = after
