"""Keys change hands between bundles, and no event, count or order of a key is lost, whoever dies when."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.engine.agents.reconciling import given_keys, inputs, savepoint_decisions
from workers.engine.agents.reconciling.handover_stages import predecessors
from workers.engine.agents.reconciling.input_selection import select_inputs
from workers.engine.agents.transport.gifts import Gifts

from .divided_world import NUMBERS, World
from .keyed_bundles import FAR, NEAR, Apart, Plans, PlansOfJoin
from .played_keys import KEYS, key_of
from .test_bundles import check_that_nothing_is_left, some_turns
from .test_first_schedules import turn

histories = st.lists(st.integers(0, 60), min_size=1, max_size=4)  # turns until the next plan


def play(
    turns_between: list[int], seed: int, patch: pytest.MonkeyPatch, kind: type[Plans] = Plans, *,
    near: Sequence[str] = NEAR,
) -> int:
    """Play a history of bundles on these slots; how many plans it had."""
    chance, made = random.Random(seed), 0
    world, plans = (World if near is NEAR else Apart)(chance, patch), kind(chance, near)
    world.lasts = chance.choice(({}, {"t": 2, "u": 3}))  # of slow batches much is left to read when keys change hands
    world.want(plans.estate())
    for turns in turns_between:
        some_turns(world, turns)
        if chance.random() < 0.5:
            plans.drop(world.left())
            world.want(plans.estate())
            some_turns(world, 5)
        if plans.before and not plans.is_calm(world) and chance.random() < 0.5:
            plans.divide_back()
        else:
            for _ in range(60):
                if plans.is_calm(world):
                    break
                some_turns(world, 10)
            if not plans.is_calm(world):
                continue
            if chance.random() < 0.2 and kind is Plans:
                world.may_rest = frozenset("uo")
                plans.turn(world.left())
            else:
                plans.divide(world.left()) if chance.random() < 0.8 else plans.move()
        made += 1
        world.want(plans.estate())
    world.deadly = False
    come_to_rest(world, plans)
    if plans.rests():
        plans.turn(world.left())
        world.want(plans.estate())
        come_to_rest(world, plans)
    if kind is Plans:
        check(world, plans.pauses)
    else:
        check_join(world)
    check_that_nothing_is_left(world, outputs=(plans.out,))
    return made


def come_to_rest(world: World, plans: Plans) -> None:
    for _ in range(500):
        turn(world)
        if plans.is_calm(world):
            break
    assert plans.is_calm(world), "a plan is never over"
    plans.drop(world.left())
    world.want(plans.estate())
    for _ in range(200):
        turn(world)
        if len(list(world.broker.events(plans.out))) == plans.events and plans.is_calm(world):
            break
    for _ in range(60):
        turn(world)


def check(world: World, pauses: int) -> None:
    """Each key has all its numbers once, in order, each with how many both tasks had of it before; but that in a pause
    nothing comes, and what the second task gave before it may be read by nobody."""
    events = list(world.broker.events(Plans.out))
    for key in range(KEYS):
        of_key = [event for event in events if key_of(event) == str(key)]
        if not pauses:
            assert len(of_key) == len(range(key, NUMBERS, KEYS))
        gaps, place, before = 0, 0, 0
        for count, (all_before, number) in of_key:
            assert number == key + KEYS * all_before and all_before >= place and count >= before
            if all_before > place:
                gaps += 1
                assert count <= before + all_before - place
            else:
                assert count == before
            place, before = all_before + 1, count + 1
        assert gaps <= 2 * pauses
    assert pauses or not world.gaps  # who writes may hear of a pause first, and free what a batch had still to read


def check_join(world: World) -> None:
    """Each key has all its numbers of both streams once, each stream's in order, and all counted together: its events
    always met in one bundle."""
    events = list(world.broker.events(PlansOfJoin.out))
    for key in range(KEYS):
        of_key = [event for event in events if key_of(event) == str(key)]
        assert [count for count, _ in of_key] == list(range(len(of_key)))
        for stream in "ab":
            assert [number for _, (of, number) in of_key if of == stream] == list(range(key, NUMBERS, KEYS))
    assert not world.gaps


@settings(max_examples=25, deadline=None)
@given(turns_between=histories, seed=st.integers(0, 2**32))
def test_keys_of_two_streams_change_hands_together_whoever_dies(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch, PlansOfJoin)


@settings(max_examples=40, deadline=None)
@given(turns_between=histories, seed=st.integers(0, 2**32))
def test_keys_change_hands_and_keep_their_events_states_and_order_whoever_dies(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch)


@settings(max_examples=30, deadline=None)
@given(turns_between=histories, seed=st.integers(0, 2**32), kind=st.sampled_from([Plans, PlansOfJoin]),
       near=st.sampled_from([FAR, FAR[:4]]))
def test_keys_change_hands_between_nodes_whoever_dies(turns_between, seed, kind, near):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch, kind, near=near)


def test_most_histories_have_plans():
    with pytest.MonkeyPatch.context() as patch:
        assert play([60, 200, 200, 200], 3, patch, near=FAR) > 2
    with pytest.MonkeyPatch.context() as patch:
        assert play([60, 200, 200, 200], 3, patch, PlansOfJoin) > 2


def never_says_that_it_has_begun(gifts, giver, heir, receive=Gifts.receive):
    return None if gifts._store.has(heir.id, "begun") else receive(gifts, giver, heir)


@pytest.mark.parametrize(("module", "name", "instead", "near", "shown_by"), [
    (given_keys, "is_unread", lambda *_: False, NEAR, 8),
    (inputs, "select_inputs", lambda *chosen, later=(), **more: select_inputs(*chosen, **more), NEAR, 2),
    (savepoint_decisions, "predecessors",
     lambda desired, heir: predecessors(desired, replace(heir, remote_givers=())), FAR, 0),
    (Gifts, "receive", never_says_that_it_has_begun, FAR, 0),
], ids=["a giver reads its keys' last events first", "a reader reads the giver's channel first",
        "an heir waits for what comes from elsewhere", "a giver hears that that is in use"])
def test_worlds_go_wrong_where_a_part_of_that_is_left_out(module, name, instead, near, shown_by):
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(module, name, instead)
        for seed in (shown_by, *range(40)):  # it is the first of these that shows it, while the worlds stay as they are
            with pytest.MonkeyPatch.context() as inner:
                play([25, 20, 20], seed, inner, near=near)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=2_000, deadline=None)
@given(turns_between=histories, seed=st.integers(0, 2**32), kind=st.sampled_from([Plans, PlansOfJoin]),
       near=st.sampled_from([NEAR, FAR]))
def test_thousands_of_histories_keep_every_key_whole(turns_between, seed, kind, near):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch, kind, near=near)
