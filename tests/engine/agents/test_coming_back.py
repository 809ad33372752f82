"""After a driver's death queries come back in the order of what they hold up, a few at a time, and all of them do."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.desired import Input, WantedFragment
from scheduler.model.dataflow import Task
from workers.engine.agents.failing.coming_back import AT_ONCE, in_turn, urgency
from workers.engine.agents.reconciling.reconcile import Actual, FragmentState, Start, Stop, reconcile


def wanted(seed: int, count: int) -> dict[str, WantedFragment]:
    """Fragments upstream first, each read by some of those behind it, with intervals as limits have them."""
    rng, names = random.Random(seed), [f"f{number}-0" for number in range(count)]
    fragments = {}
    for number, name in enumerate(names):
        readers = frozenset(other for other in names[number + 1:] if rng.random() < 0.2)
        writers = [other for other in names[:number] if name in fragments[other].outlets.get(0, ())]
        fragments[name] = WantedFragment(
            name, (Task(name, "any", {}),), tuple(Input(f"{other}.0", other) for other in writers),
            {0: readers}, trigger_ms=rng.choice((100, 500, 5_000)))
    return fragments


def held_up(fragments: dict[str, WantedFragment], name: str) -> set[str]:
    behind, left = set(), [name]
    while left:
        for reader in fragments[left.pop()].outlets.get(0, ()):
            if reader not in behind:
                behind.add(reader)
                left.append(reader)
    return behind


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_who_holds_up_the_strictest_and_then_the_most_comes_first(seed: int, count: int) -> None:
    fragments = wanted(seed, count)
    order = urgency(fragments)
    assert sorted(order) == sorted(fragments)

    def key(name: str) -> tuple[int, int]:
        behind = held_up(fragments, name)
        return min(fragments[other].trigger_ms for other in {name, *behind}), -len(behind)

    assert [key(name) for name in order] == sorted(map(key, fragments))
    assert all(order.index(name) < order.index(reader) for name in fragments for reader in held_up(fragments, name))


@given(st.integers(0, 2**32), st.integers(1, 25))
def test_all_come_back_a_few_at_a_time_whatever_waits_or_fails_meanwhile(seed: int, count: int) -> None:
    fragments, rng = wanted(seed, count), random.Random(seed)
    states = dict.fromkeys(fragments, FragmentState.STOPPED)
    never = set(rng.sample(sorted(fragments), rng.randrange(count)))  # what these read is not there, or they fail
    for now_ms in range(0, 10_000 * count, 1_000):
        actual = {name: Actual(name, state, retry_at_ms=now_ms if rng.random() < 0.5 else now_ms + 1)
                  if state in (FragmentState.WAITING, FragmentState.BACKOFF) else Actual(name, state)
                  for name, state in states.items()}
        coming = [name for name, state in states.items() if state is FragmentState.STARTING]
        actions = in_turn(
            reconcile(fragments.values(), actual, now_ms), fragments.values(), actual,
            coming=lambda coming=coming: coming)
        starts = [action for action in actions if isinstance(action, Start)]
        assert len(coming) + len(starts) <= AT_ONCE or not starts
        for start in starts:
            states[start.fragment_id] = FragmentState.STARTING
        for name, state in states.items():
            if state is FragmentState.STARTING and rng.random() < 0.5:
                states[name] = rng.choice(
                    (FragmentState.WAITING, FragmentState.BACKOFF)) if name in never else FragmentState.RUNNING
    assert {name for name, state in states.items() if state is FragmentState.RUNNING} == fragments.keys() - never


def test_heirs_and_all_that_is_no_start_wait_for_no_turn() -> None:
    fragments = wanted(1, 9)
    heir = WantedFragment("f9-0", (Task("t", "any", {}),), inherits=("f0-0",))
    stop = Stop("gone-0", keep=False)
    actions = (*map(Start, fragments.values()), Start(heir), stop)
    assert in_turn(actions, (*fragments.values(), heir), {}, coming=lambda: "abcd") == (Start(heir), stop)
    assert len(in_turn(actions, (*fragments.values(), heir), {})) == 2 + AT_ONCE
