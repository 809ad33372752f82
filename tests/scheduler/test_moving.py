"""Moving a query: what goes where, that a move keeps all that others see, and that it can be taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.model.errors import InvalidTransition, NotFound
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot, node_of
from scheduler.moving import plan_move, slots_for, why_not_moved
from scheduler.undoing import undo

from .catalogue import PRICES, TYPES, flow, pause, submit
from .invariants import check_estate, check_plan, cut_of
from .test_rearranging_properties import SHORT, live, lives

LINE = flow(
    "line", {"s": "sensors", "a": ("scale", {"by": 1}), "c": "count", "o": "archive"}, "s > a > c > o")
OTHER = flow("other", {"s": "sensors", "a": ("scale", {"by": 1}), "p": "alarm"}, "s > a > p")
TWO_NODES = (Slot("n1", 0), Slot("n1", 1), Slot("n2", 0))


def moved(estate: Estate, query: str = "f1-0", slot: str = "n1/1", dataflow: str = "line"):
    return plan_move(estate, dataflow, query=query, slot=slot, task_types=TYPES, prices=PRICES)


def test_a_query_goes_on_elsewhere_with_its_channels_and_readers() -> None:
    estate = submit(submit(Estate(slots=TWO_NODES), LINE), OTHER)
    before = estate.fragments["f1-0"]
    plan = moved(estate)
    check_plan(estate, plan)
    after = apply_plan(estate, plan)
    heir = after.fragments[plan.steps[0].fragment]
    assert (heir.slot, heir.tasks, heir.inherits) == ("n1/1", before.tasks, ("f1-0",)) and "f1-0" not in after.fragments
    assert heir.outlets == before.outlets
    assert all(heir.channel_of(task) == before.channel_of(task) for task in before.outlets)
    assert plan.touched == ("other",), "who shares the query notices"
    back = apply_plan(after, undo(after, plan))
    assert cut_of(back) == cut_of(estate)


@pytest.mark.parametrize(("query", "slot", "error", "words"), [
    ("f9-9", "n1/1", NotFound, "has no query f9-9"),
    ("f1-0", "n1/9", NotFound, "no slot n1/9"),
    ("f1-0", "n1/0", InvalidTransition, "runs in n1/0 already"),
    ("f1-0", "n2/0", InvalidTransition, "what it has read and keeps is on n1"),
])
def test_what_cannot_be_is_told_with_a_remedy(query: str, slot: str, error: type, words: str) -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    with pytest.raises(error, match=words) as raised:
        moved(estate, query, slot)
    assert raised.value.remedy


def test_state_that_cannot_be_handed_over_and_what_rests_stay() -> None:
    tasks = {"s": "sensors", "w": "window", "o": "archive"}
    with pytest.raises(InvalidTransition, match="window"):
        moved(submit(Estate(slots=TWO_NODES), flow("line", tasks, "s > w > o")))
    estate = pause(submit(submit(Estate(slots=TWO_NODES), LINE), OTHER), "line")
    assert "paused" in why_not_moved(estate, estate.fragments["f1-0"], task_types=TYPES)


def test_a_move_is_not_taken_back_once_others_have_changed_it() -> None:
    estate = submit(Estate(slots=TWO_NODES), LINE)
    plan = moved(estate)
    after = apply_plan(estate, plan)
    with pytest.raises(InvalidTransition, match="gone"):
        undo(replace(after, slots=TWO_NODES[1:]), plan)
    again = apply_plan(after, moved(after, plan.steps[0].fragment, "n1/0"))
    with pytest.raises(InvalidTransition, match="changed again"):
        undo(again, plan)


@SHORT
@given(lives(longest=6), st.randoms())
def test_every_move_keeps_the_invariants_and_can_be_taken_back(life, chance) -> None:
    estate, reference = live(life)
    for name, fragment in sorted(estate.fragments.items()):
        if why_not_moved(estate, fragment, task_types=TYPES) or not slots_for(fragment, estate.slots):
            continue
        slot = chance.choice(slots_for(fragment, estate.slots))
        assert node_of(slot) == node_of(fragment.slot) and slot != fragment.slot
        dataflow = next(user for user in estate.users[fragment.active_tasks[0]] if not estate.submitted[user].paused)
        plan = moved(estate, name, slot, dataflow)
        check_plan(estate, plan)
        after = apply_plan(estate, plan)
        check_estate(after, reference)
        assert cut_of(apply_plan(after, undo(after, plan))) == cut_of(estate)
