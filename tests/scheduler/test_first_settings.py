"""New queries begin in the mode that their plan says, where their slot has room, and are not restarted for it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.changing import plan_change
from scheduler.model.encoding import plan_from_json, plan_to_json
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment
from scheduler.model.plan import Plan
from scheduler.model.settings_of_fragments import MOST_OPEN_A_SLOT, USUAL, FragmentSettings, settings_of_new
from scheduler.planning import plan_submission
from scheduler.rebasing import rebase

from .catalogue import EMPTY, PRICES, TYPES, flow, submit

OPEN = FragmentSettings(200, real_time=True)
LINE = flow("d", {"s": "sensors", "a": ("scale", {"by": 1}), "p": "alarm"}, "s > a > p")
TWIN = flow("e", {"s": "sensors", "a": ("scale", {"by": 2}), "p": "alarm"}, "s > a > p")
ALL_OPEN = dict.fromkeys(("s", "a", "p"), OPEN)


def planned(estate: Estate, dataflow=LINE, **settings: FragmentSettings) -> Plan:
    return plan_submission(
        estate, dataflow, dataflow_id=dataflow.name, team="water", task_types=TYPES, prices=PRICES, settings=settings)


def test_a_new_query_begins_open_where_its_plan_says_so() -> None:
    plan = planned(EMPTY, **ALL_OPEN)
    [name] = plan.fragments_after
    assert plan.settings_after == {name: OPEN}
    assert plan_from_json(plan_to_json(plan)) == plan
    assert apply_plan(EMPTY, plan).settings == {name: OPEN}
    assert planned(EMPTY).settings_after == {}, "plans without open batches are what they were, digests too"


def test_a_query_with_a_task_that_cannot_be_open_begins_with_micro_batches() -> None:
    assert planned(EMPTY, s=OPEN, p=OPEN).settings_after == {}


def test_what_runs_keeps_its_mode_where_a_submission_joins_it() -> None:
    estate = submit(EMPTY, LINE)
    [running] = estate.fragments
    plan = planned(estate, TWIN, **ALL_OPEN)
    [new] = plan.fragments_after.keys() - plan.fragments_before.keys()
    assert plan.settings_after == {new: OPEN}, "it begins behind the source that they share"
    assert apply_plan(estate, plan).settings.get(running, USUAL) == USUAL


def test_a_plan_that_is_carried_over_sets_the_queries_that_it_starts_by_their_new_names() -> None:
    plan = planned(EMPTY, **ALL_OPEN)
    later = replace(EMPTY, generation=EMPTY.generation + 3)
    rebased = rebase(plan, later, query_cores=0.01)
    assert rebased.digest == plan.digest
    [name] = rebased.fragments_after
    assert name not in plan.fragments_after
    assert apply_plan(later, rebased).settings == {name: OPEN}


def test_what_another_version_starts_begins_open_too() -> None:
    estate = submit(EMPTY, LINE)
    other = flow("d", {"s": "sensors", "a": ("scale", {"by": 3}), "p": "alarm"}, "s > a > p")
    plan = plan_change(
        estate, other, former=LINE, dataflow_id="d", team="water", task_types=TYPES, prices=PRICES, settings=ALL_OPEN)
    new = plan.fragments_after.keys() - plan.fragments_before.keys()
    assert new and plan.settings_after == dict.fromkeys(new, OPEN)
    assert apply_plan(estate, plan).settings == plan.settings_after


@given(st.integers(0, MOST_OPEN_A_SLOT + 2), st.integers(1, 4))
def test_batches_of_new_queries_stay_open_only_while_their_slot_has_room(opened: int, new: int) -> None:
    after = {f"f2-{number}": Fragment(f"f2-{number}", ("t",), "n1/0", 1) for number in range(new)}
    made = settings_of_new({}, after, {}, {"n1/0": opened}, dict.fromkeys(after, OPEN))
    assert len(made) == min(new, max(0, MOST_OPEN_A_SLOT - opened))
    assert all(settings == OPEN for settings in made.values())
