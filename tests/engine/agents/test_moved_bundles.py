"""What a schedule divides moves, and what is beside it: no event is lost, none comes twice, whoever dies when."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=3_000, deadline=None)
@given(turns_between=st.lists(st.integers(0, 200), min_size=1, max_size=6), seed=st.integers(0, 2**32))
def test_thousands_of_moved_bundles_lose_nothing(turns_between, seed):
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
