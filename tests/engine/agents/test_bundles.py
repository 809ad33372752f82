"""Changed schedules: every event arrives once, whenever slots die, queries fail, and plans follow upon plans."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels

from .divided_world import NUMBERS, SLOTS, Plans, World, alone, delivered

plans = st.lists(st.integers(0, 40), min_size=1, max_size=4)  # turns until the next plan


def play(turns_between: list[int], seed: int, patch: pytest.MonkeyPatch, **lasts: int) -> None:
    """Plans follow upon plans; a batch of some tasks ``lasts`` for some turns."""
    chance = random.Random(seed)
    world, made = World(chance, patch), Plans(chance)
    world.lasts = lasts
    world.want(made.first())
    for turns in turns_between:
        some_turns(world, turns)
        world.want(made.next(world.left()))
    world.deadly = False
    come_to_rest(world, made)
    assert delivered(world) == alone() and not world.gaps
    check_that_nothing_is_left(world)


def play_with_pauses(turns_between: list[int], seed: int, patch: pytest.MonkeyPatch) -> None:
    """What rests misses events and no more; when it goes on it gets all again."""
    chance = random.Random(seed)
    world, made = World(chance, patch), Plans(chance)
    world.want(made.first())
    world.may_rest, paused = frozenset("bo"), False
    for turns in turns_between:
        some_turns(world, turns)
        if chance.random() < 0.6:
            paused = not paused
            world.want(made.pause(paused=paused))
        else:
            world.want(made.next(world.left()))
    world.want(made.pause(paused=False))
    world.deadly = False
    come_to_rest(world, made, all_came=False)
    assert not delivered(world) - alone(), "an event came twice"
    world.limit = 2 * NUMBERS
    for _ in range(300):  # what was paused while its node did not hear of it may have failed, and waits a minute
        for slot in SLOTS:
            world.turn(slot.name)
        if not alone(NUMBERS, 2 * NUMBERS) - delivered(world):
            break
    assert not delivered(world) - alone(until=2 * NUMBERS) and not alone(NUMBERS, 2 * NUMBERS) - delivered(world)


def some_turns(world: World, turns: int) -> None:
    for _ in range(turns):
        if world.chance.random() < 0.3:
            world.hear(world.chance.choice(world.nodes))
        world.turn(world.chance.choice(world.slots).name)


def come_to_rest(world: World, made: Plans, *, all_came: bool = True) -> None:
    leaving = {query.id for fragment in made.fragments.values() for query in fragment.queries if query.leaving}
    for _ in range(400):
        for node in ("n1", "n2"):
            world.hear(node)
        for slot in SLOTS:
            world.turn(slot.name)
        if world.left() == leaving and (delivered(world) == alone() or not all_came):
            break
    assert world.left() == leaving, "not all that should have left"
    world.want(made.last(world.left()))
    for _ in range(60):
        for node in ("n1", "n2"):
            world.hear(node)
        for slot in SLOTS:
            world.turn(slot.name)


def check_that_nothing_is_left(world: World, outputs: Collection[str] = ()) -> None:
    entries = {entry.id: entry for slot in world.slots for entry in world.desired(slot.name).of_slot(str(slot.index))}
    assert set(world.running) == set(entries), "it did not come to what is planned"
    for name, entry in entries.items():
        assert set(world.running[name].fragment.inputs) == set(entry.inputs)
        assert world.running[name].fragment.threads == entry.threads
    written = {channel for entry in entries.values() for channel in entry.written}
    read = {item.channel: entry.id for entry in entries.values() for item in entry.inputs}
    for channel in world.broker.opened() - set(outputs):
        expires = keys.meta(channel).encode() in world.broker.expiring
        if channel in read:
            assert read[channel] in world.broker.channels.info(channel).readers and not expires
        elif channel not in written:
            assert expires, "what nobody uses any more stays for ever"


@settings(max_examples=20, deadline=None)
@given(turns_between=plans, seed=st.integers(0, 2**32))
def test_changed_schedules_lose_nothing_whenever_slots_die(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch)


@settings(max_examples=10, deadline=None)
@given(turns_between=plans, seed=st.integers(0, 2**32), turns=st.integers(1, 4))
def test_a_slow_batch_is_done_before_its_query_is_divided_otherwise(turns_between, seed, turns):
    """Cut short it would be repeated, and cut short again: nothing would come of it, and the plan never in force."""
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch, a=turns, b=turns)


@settings(max_examples=10, deadline=None)
@given(turns_between=plans, seed=st.integers(0, 2**32))
def test_what_rests_meanwhile_goes_on_with_all_that_comes_then(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play_with_pauses(turns_between, seed, patch)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=2_000, deadline=None)
@given(turns_between=plans, seed=st.integers(0, 2**32))
def test_thousands_of_changed_schedules_lose_nothing(turns_between, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(turns_between, seed, patch)


@pytest.mark.parametrize("seed", [0, 3])
def test_who_was_held_as_the_broker_went_away_goes_on_when_it_is_back(seed: int, monkeypatch: pytest.MonkeyPatch):
    world, made = World(random.Random(seed), monkeypatch), Plans(random.Random(seed))
    world.deadly = False
    refused: list[str] = []

    def resume(channels: Channels, fragment: str, go_on=Channels.resume) -> None:
        if fragment not in refused[-6:]:
            refused.append(fragment)
            raise redis.ConnectionError("It went away.")
        go_on(channels, fragment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channels, "resume", resume)
        world.want(made.first())
        for _ in range(3):
            some_turns(world, 40)
            world.want(made.next(world.left()))
        come_to_rest(world, made)
    for _ in range(12):
        for slot in SLOTS:
            world.turn(slot.name)
    assert refused and not [name for name in world.running if world.broker.hexists(keys.valve(name), "paused")]
