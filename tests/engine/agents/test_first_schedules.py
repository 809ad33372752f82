"""What was submitted without a schedule gets one while it runs: every event arrives once, whenever slots die."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from .divided_world import SLOTS, World
from .first_schedules import Plans, came, check_order, delivered, is_calm, is_handing_over, whole
from .test_bundles import check_that_nothing_is_left, some_turns

AT_FIRST, THEN, AT_LAST = 60, 180, 260  # numbers that the source has given by then
histories = st.lists(st.integers(0, 40), min_size=1, max_size=4)  # turns until the next plan


def play(turns_between: list[int], seed: int, patch: pytest.MonkeyPatch, *, ordered: bool = False) -> None:
    world, made = begin(seed, patch, ordered=ordered)
    for turns in turns_between[1:]:
        some_turns(world, turns)
        world.want(made.next(world.left()))
    some_turns(world, turns_between[0])
    come_to_rest(world, made)
    assert came(world, made) == whole(THEN) and not world.gaps
    counts = sorted(count for count, _ in delivered(world, made.out))
    assert counts == list(range(len(counts))), "state got lost, or came twice"
    if ordered:
        check_order(world, made)
    check_that_nothing_is_left(world, outputs=(made.out, made.watched))


def play_with_pauses(turns_between: list[int], seed: int, patch: pytest.MonkeyPatch) -> None:
    """What rests misses events and no more, and what works on misses none."""
    world, made = begin(seed, patch)
    world.may_rest, paused = frozenset("bno"), False
    for turns in turns_between:
        some_turns(world, turns)
        if world.chance.random() < 0.6:
            paused = not paused
            while is_handing_over(world):  # meanwhile nothing is paused
                some_turns(world, 1)
            world.want(made.pause(paused=paused))
        else:
            world.want(made.next(world.left()))
    if paused:
        world.want(made.pause(paused=False))
    come_to_rest(world, made, all_came=False)
    world.limit = AT_LAST
    for _ in range(300):
        turn(world)
        if not any(wanted - arrived for wanted, arrived in zip(whole(AT_LAST, THEN), came(world, made), strict=True)):
            break
    out, watched = came(world, made)
    assert not out - whole(AT_LAST)[0], "an event came twice"
    assert not whole(AT_LAST, THEN)[0] - out, "an event is missing after the pause"
    assert watched == whole(AT_LAST)[1]


def begin(seed: int, patch: pytest.MonkeyPatch, *, ordered: bool = False) -> tuple[World, Plans]:
    """All runs without a schedule, and is then asked to run with one."""
    chance = random.Random(seed)
    made = Plans(chance, ordered=ordered)
    world = World(chance, patch)
    world.limit = AT_FIRST
    world.want(made.estate())
    for _ in range(2_000):
        some_turns(world, 1)
        if is_calm(world, made):
            break
    assert is_calm(world, made)
    some_turns(world, chance.randint(0, 20))
    while not is_calm(world, made):
        some_turns(world, 1)
    world.limit = THEN
    world.want(made.first_schedule())
    return world, made


def turn(world: World) -> None:
    for node in world.nodes:
        world.hear(node)
    for slot in world.slots:
        world.turn(slot.name)


def come_to_rest(world: World, made: Plans, *, all_came: bool = True) -> None:
    world.deadly = False
    for _ in range(400):
        turn(world)
        if world.left() == made.leaving() and (came(world, made) == whole(THEN) or not all_came):
            break
    assert world.left() == made.leaving(), "not all that should have left"
    world.want(made.last(world.left()))
    for _ in range(400):
        turn(world)
        wanted = {entry.id for slot in SLOTS for entry in world.desired(slot.name).of_slot(str(slot.index))}
        if set(world.running) == wanted:
            break
    for _ in range(60):  # what is left behind is cleared away
        turn(world)


@settings(max_examples=20, deadline=None)
@given(turns_between=histories, seed=st.integers(0, 2**32))
@example(turns_between=[0], seed=20980920)  # a first schedule that takes 63 turns after the last event
def test_first_schedules_lose_nothing_whenever_slots_die(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch)


@settings(max_examples=10, deadline=None)
@given(turns_between=histories, seed=st.integers(0, 2**32))
def test_what_is_one_bundle_keeps_its_order_through_its_first_schedule(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch, ordered=True)


@settings(max_examples=10, deadline=None)
@given(turns_between=histories, seed=st.integers(0, 2**32))
@example(turns_between=[34, 0], seed=51967)  # a bundle that goes on through a pause that its node heard of too late
@example(turns_between=[22, 14, 14, 20], seed=182)  # a pause after a writer has left, whose part is gone when it ends
def test_what_rests_while_it_is_first_scheduled_goes_on_with_all_that_comes_then(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play_with_pauses(turns_between, seed, patch)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=2_000, deadline=None)
@given(turns_between=histories, seed=st.integers(0, 2**32), ordered=st.booleans())
def test_thousands_of_first_schedules_lose_nothing(turns_between, seed, ordered):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch, ordered=ordered)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=1_000, deadline=None)
@given(turns_between=histories, seed=st.integers(0, 2**32))
def test_a_thousand_first_schedules_with_pauses_lose_nothing(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play_with_pauses(turns_between, seed, patch)
