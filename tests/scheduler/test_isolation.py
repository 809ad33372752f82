"""Which task makes a chain slow, where it is cut for those who do not need that, and that a cut can be taken back."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.defragmenting import plan_defragmentation
from scheduler.isolating import plan_isolation
from scheduler.model.behind import CHOICES, SPILL, agreed, needs_in
from scheduler.model.errors import InvalidTransition, NothingToGain
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment
from scheduler.planning import plan_removal
from scheduler.reuse.defragment import DefragmentRule
from scheduler.reuse.fragmentation import fragmentation
from scheduler.reuse.isolation import cut_for_others, slowest_task
from scheduler.undoing import undo

from .catalogue import EMPTY, PRICES, SLOTS, TYPES, flow, pause, submit
from .invariants import check_estate, check_homes, check_plan, cut_of
from .test_rearranging_properties import SHORT, live, lives

LINE = flow(
    "line", {"s": "sensors", "a": ("scale", {"by": 1}), "b": ("scale", {"by": 2}), "c": "count", "o": "archive"},
    "s > a > b > c > o")
SHORTER = flow("short", {"s": "sensors", "a": ("scale", {"by": 1}), "p": "alarm"}, "s > a > p")


def shared() -> tuple[Estate, Fragment]:
    """A chain of five whose first two tasks another dataflow needs."""
    estate = submit(submit(Estate(slots=SLOTS[:2]), LINE), SHORTER)
    return estate, estate.fragments["f1-0"]


def isolation(estate: Estate, slow: str):
    return plan_isolation(estate, estate.users[slow][0], slow=slow, task_types=TYPES, prices=PRICES, why="It is slow.")


@pytest.mark.parametrize(("latency_ms", "position"), [
    ([5, 10, 900, 910], 2),
    ([5, 10, 900, 5_000], 3),
    ([800, 810, 900, 1_000], None),  # nothing dominates: the slot is full
    ([5, 6, 7, 100], None),  # too little to be a reason
    ([5, 10, None, 900], None),
    ([], None),
    ([5_000], None),
])
def test_the_task_that_adds_most_and_at_least_half_is_the_slow_one(
    latency_ms: list[float | None], position: int | None
) -> None:
    assert slowest_task(latency_ms, least_ms=400) == position


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=8), st.floats(0, 1e4))
def test_no_other_task_adds_more_than_the_slow_one(added_ms: list[float], least_ms: float) -> None:
    latency_ms = [sum(added_ms[: end + 1]) for end in range(len(added_ms))]
    position = slowest_task(latency_ms, least_ms=least_ms)
    if position is not None and position > 0:
        grown = latency_ms[position] - latency_ms[position - 1]
        assert grown >= least_ms and grown >= latency_ms[-1] / 2
        assert all(after - before <= grown for before, after in pairwise(latency_ms))


def test_a_chain_is_cut_in_front_of_what_only_the_users_of_the_slow_task_need() -> None:
    estate, chain = shared()
    for slow in (2, 3, 4):
        cut = cut_for_others(estate, chain, slow=slow, task_types=TYPES)
        assert cut is not None and (cut.position, cut.why_not) == (2, "")
    for slow in (0, 1):
        assert cut_for_others(estate, chain, slow=slow, task_types=TYPES) is None, "all need it"


def test_whoever_is_paused_is_kept_waiting_by_nobody() -> None:
    estate, _ = shared()
    estate = pause(estate, "short")
    assert cut_for_others(estate, estate.fragments["f1-0"], slow=3, task_types=TYPES) is None


def test_state_that_cannot_move_is_told() -> None:
    tasks = {"s": "sensors", "a": ("scale", {"by": 1}), "w": "window", "o": "archive"}
    estate = submit(submit(EMPTY, flow("line", tasks, "s > a > w > o")), SHORTER)
    chain = estate.fragments["f1-0"]
    slow = chain.tasks[2]
    cut = cut_for_others(estate, chain, slow=2, task_types=TYPES)
    assert cut is not None and "window" in cut.why_not
    with pytest.raises(InvalidTransition, match="window"):
        isolation(estate, slow)


def test_the_slow_part_reads_a_stream_that_others_need_and_is_not_fused_again() -> None:
    estate, chain = shared()
    plan = isolation(estate, chain.tasks[3])
    check_plan(estate, plan)
    after = apply_plan(estate, plan)
    upper, lower = (after.fragments[step.fragment] for step in plan.steps)
    assert (upper.tasks, lower.tasks) == (chain.tasks[:2], chain.tasks[2:])
    assert lower.channel_of(chain.tasks[4]) == "f1-0.4", "its output is where it was"
    assert upper.channel_of(chain.tasks[1]) == "f1-0.1", "the other reads on where it did"
    needs = needs_in(after)
    assert needs[upper.tasks[0]].dataflows > needs[lower.tasks[0]].dataflows
    again = {"task_types": TYPES, "prices": PRICES, "rule": DefragmentRule(ratio=0.0)}
    assert plan_defragmentation(after, "line", **again).steps
    with pytest.raises(NothingToGain):
        plan_defragmentation(after, "line", **again, apart={lower.tasks[0]})
    assert fragmentation(after, "line", task_types=TYPES, query_cores=0.1, apart={lower.tasks[0]}).steps == 0


def test_what_nobody_waits_for_is_not_cut() -> None:
    estate = submit(EMPTY, LINE)
    with pytest.raises(NothingToGain):
        isolation(estate, estate.fragments["f1-0"].tasks[3])


def test_a_cut_is_not_taken_back_once_others_have_changed_it() -> None:
    estate, chain = shared()
    plan = isolation(estate, chain.tasks[3])
    after = apply_plan(estate, plan)
    assert cut_of(apply_plan(after, undo(after, plan))) == cut_of(estate)
    gone = apply_plan(after, plan_removal(after, "short", task_types=TYPES, prices=PRICES))
    assert cut_of(apply_plan(gone, undo(gone, plan))), "a reader that left changes nothing of it"
    with pytest.raises(InvalidTransition):
        undo(pause(after, "line"), plan)


@SHORT
@given(lives(longest=6), st.randoms())
def test_every_cut_keeps_the_invariants_and_can_be_taken_back(life, chance) -> None:
    estate, reference = live(life)
    for name, chain in sorted(estate.fragments.items()):
        if not chain.active:
            continue
        slow = chance.randrange(chain.active)
        cut = cut_for_others(estate, chain, slow=slow, task_types=TYPES)
        needed = [
            {user for user in estate.users[task] if not estate.submitted[user].paused} for task in chain.active_tasks]
        others = [place for place in range(slow) if needed[place] != needed[slow]]
        assert (cut is None) == (not others), "brute force: somebody needs what is before it, and not it"
        if cut is None or cut.why_not:
            continue
        assert cut.position == others[-1] + 1
        plan = isolation(estate, chain.tasks[slow])
        check_plan(estate, plan)
        after = apply_plan(estate, plan)
        check_estate(after, reference)
        for fragment in set(after.fragments) & set(estate.fragments):
            check_homes(estate.fragments[fragment], after.fragments[fragment])
        back = apply_plan(after, undo(after, plan))
        check_estate(back, reference)
        assert replace(back, generation=0).tasks == estate.tasks and name not in after.fragments


@given(st.lists(st.sampled_from(CHOICES), max_size=5))
def test_another_choice_holds_only_where_all_have_it(choices: list[str]) -> None:
    held = agreed(choices)
    assert held == SPILL or set(choices) == {held}
    assert held == choices[0] if len(set(choices)) == 1 else held == SPILL
