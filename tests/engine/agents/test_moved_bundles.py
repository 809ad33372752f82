"""What a schedule divides moves, and what is beside it: no event is lost, none comes twice, whoever dies when."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.fragment import RunningBundle
from scheduler.reuse.division import WantedBundle, divided_anew

from .divided_world import NUMBERS, World, alone
from .moved_bundles import OUT, Plans, check
from .test_bundles import check_that_nothing_is_left, some_turns
from .test_first_schedules import turn
from .test_moves_between_nodes import Nodes

histories = st.lists(st.integers(0, 60), min_size=1, max_size=6)  # turns until the next plan


def play(turns_between: list[int], seed: int, patch: pytest.MonkeyPatch) -> int:
    """Play a history; how many queries moved."""
    chance, moves = random.Random(seed), 0
    world, plans = Nodes(chance, patch), Plans(chance)
    world.want(plans.estate())
    for turns in turns_between:
        some_turns(world, turns)
        if plans.moving and not plans.is_calm(world) and chance.random() < 0.5:
            plans.take_back()
        elif plans.before and not plans.is_calm(world) and chance.random() < 0.5:
            plans.divide_back()
        else:
            for _ in range(100):
                if plans.is_calm(world):
                    break
                some_turns(world, 10)
            if not plans.is_calm(world):
                continue
            if chance.random() < 0.7:
                plans.move()
                moves += len(plans.moving)
            else:
                plans.divide(world.left())
        world.want(plans.estate())
    world.deadly = False
    come_to_rest(world, plans)
    check(world, plans)
    check_that_nothing_is_left(world, outputs=(OUT,))
    return moves


def come_to_rest(world: World, plans: Plans) -> None:
    for _ in range(400):
        turn(world)
        if plans.is_calm(world):
            break
    plans.last(world.left())
    world.want(plans.estate())
    for _ in range(300):
        turn(world)
        if len(list(world.broker.events(OUT))) == 2 * NUMBERS and plans.is_calm(world):
            break
    for _ in range(60):
        turn(world)


@settings(max_examples=40, deadline=None)
@given(turns_between=histories, seed=st.integers(0, 2**32))
def test_bundles_and_their_neighbours_move_and_lose_nothing_whoever_dies(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch)


def test_most_histories_have_moves():
    moves = 0
    for seed in range(4):
        with pytest.MonkeyPatch.context() as patch:
            moves += play([60, 200, 200, 200], seed, patch)
    assert moves > 3


def test_who_moves_before_it_reads_the_bundles_that_it_is_to_read_reads_all_that_they_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its slot does nothing between two plans: one divides what it reads, and one moves it with the new bundle."""
    chance = random.Random(5)
    world, plans = Nodes(chance, monkeypatch), Plans(chance)
    world.deadly = False
    slots = {"f1-0": "n1/0", "f1-1": "n1/0", "f1-2": "n1/0", "f1-3": "n1/1", "f1-4": "n2/1"}
    plans.fragments = {
        name: replace(fragment, slot=slots[name], bundles=(RunningBundle(name, slots[name]),) if name == "f1-2" else ())
        for name, fragment in plans.fragments.items()}
    world.want(plans.estate())
    for _ in range(30):
        turn(world)
    assert plans.is_calm(world)
    fragment = plans.fragments["f1-2"]
    change = divided_anew(
        fragment.tasks[0], fragment, [WantedBundle("n1/0", 1, 0.5)] * 2, ids=iter(["f2-0"]), left_bundles=frozenset(),
        hands_over=True)
    plans.fragments |= change.after
    plans.generation += 1
    world.want(plans.estate())
    for node in world.nodes:
        world.hear(node)
    for _ in range(100):
        world.turn("n1/0")
    assert list(world.broker.events("f2-0.0")) and "f2-0.0" not in channels_read(world, "f1-3")
    plans.go({"f2-0": "n2/0", "f1-3": "n2/0"})
    world.want(plans.estate())
    for _ in range(400):
        turn(world)
    check(world, plans)
    check_that_nothing_is_left(world, outputs=(OUT,))


def channels_read(world: Nodes, name: str) -> set[str]:
    return {item.channel for item in world.running[name].fragment.inputs}


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=1_000, deadline=None)  # more than a second each
@given(turns_between=st.lists(st.integers(0, 200), min_size=1, max_size=6), seed=st.integers(0, 2**32))
def test_a_thousand_moved_bundles_lose_nothing(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch)


def test_what_moved_and_rests_then_goes_on_with_all_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    world, plans = World(chance, monkeypatch), Plans(chance)
    world.deadly = False
    world.want(plans.estate())
    for _ in range(3):
        come_to_rest(world, plans)
        plans.move()
        world.want(plans.estate())
    come_to_rest(world, plans)
    world.may_rest = frozenset("bno")
    for paused in (True, False):
        plans.pause(paused=paused)
        world.want(plans.estate())
        for _ in range(60):
            turn(world)
    world.limit = 2 * NUMBERS
    for _ in range(60):
        turn(world)
    events = list(world.broker.events(OUT))
    assert [count for count, _ in events] == list(range(len(events))), "its state rested with it"
    assert Counter(event for _, event in events) == alone(until=2 * NUMBERS)
