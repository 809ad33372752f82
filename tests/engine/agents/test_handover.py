"""Handovers: nothing is lost and nothing doubled, whenever slots die and plans follow upon plans."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from workers.engine.agents.node_files.checkpoint import CheckpointProgress, read_progress
from workers.engine.agents.reconciling.handover_stages import predecessors, successors

from .divided_world import NUMBERS, SLOTS, World
from .recut_chains import LENGTH, Plans

NEAR = [slot.name for slot in SLOTS if slot.node == "n1"]

plans = st.lists(
    st.tuples(
        st.lists(st.integers(1, LENGTH - 1), unique=True, max_size=3).map(sorted),  # cuts
        st.lists(st.integers(0, 1), min_size=1, max_size=4),  # slots
        st.integers(0, 60),  # turns until the next plan
    ),
    min_size=2, max_size=4,
)


def play(all_plans: list, seed: int, patch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    world, made = DeadlyWorld(chance, patch), Plans(chance)
    for cuts, slots, turns in all_plans:
        world.want(made.cut(cuts, slots))
        world.hear("n1")
        for _ in range(turns):
            world.turn(chance.choice(NEAR))
    world.deadly = False
    for _ in range(300):
        turn(world)
        if is_settled(world) and len(delivered_in_order(world, made)) == NUMBERS:
            break
    for _ in range(20):  # who watches comes to the end, too
        turn(world)
    check(world, made)


def turn(world: World) -> None:
    for slot in NEAR:
        world.turn(slot)


class DeadlyWorld(World):
    """Its slots die ten times as often: there is but one node, and it has heard of every plan."""

    DEADLINESS = 0.04


def is_settled(world: World) -> bool:
    """Whether all that is planned runs, and what was before it is gone."""
    return set(world.running) == set(world.heard["n1"].wanted) and not world.stores[NEAR[0]].having("ended")


def check(world: World, made: Plans) -> None:
    assert set(world.running) == set(world.heard["n1"].wanted), "it did not come to what is planned"
    assert not world.stores[NEAR[0]].having("ended"), "something is left to be cleared away"
    assert not world.gaps
    # Each count stands before the event that it was made of: all of them, once, and in the order of the source.
    assert delivered_in_order(world, made) == [counted(number, LENGTH - 2) for number in range(NUMBERS)]
    watched = list(world.broker.events(made.watched))
    assert [count for count, _ in watched] == list(range(len(watched)))
    seen = [counted(number, 1) for number in range(NUMBERS)]
    assert [event for _, event in watched] == seen[NUMBERS - len(watched):], "it missed some since it began to read"
    current = set(world.heard["n1"].wanted)
    for channel in world.broker.opened():
        readers = world.broker.channels.info(channel).readers
        assert set(readers) <= current, "a reader that is gone still holds blocks back"


def delivered_in_order(world: World, made: Plans) -> list:
    return list(world.broker.events(made.out))


def counted(number: int, times: int) -> object:
    """A number of the source after so many tasks that count."""
    event: object = number
    for _ in range(times):
        event = (number, event)
    return event


# In this one a fragment still reads for its heir's heir, which must not get a place beside it.
LINE_OF_HEIRS = {"all_plans": [([2, 3], [0, 1], 14), ([2], [0], 0), ([1, 2], [0], 2), ([], [0], 0)], "seed": 1}


@settings(max_examples=60, deadline=None)
@given(all_plans=plans, seed=st.integers(0, 2**32))
@example(**LINE_OF_HEIRS)
def test_recut_chains_lose_nothing_whenever_slots_die(all_plans, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(all_plans, seed, patch)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=10_000, deadline=None)
@given(all_plans=plans, seed=st.integers(0, 2**32))
def test_thousands_of_recut_chains_lose_nothing(all_plans, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(all_plans, seed, patch)


def fragment(name: str, **changes) -> WantedFragment:
    return WantedFragment(name, (), **changes)


def test_a_plan_that_was_taken_back_before_it_began_is_passed_over_by_nobody():
    outgoing = {"0": (fragment("a"), fragment("b"), fragment("c", inherits=("a", "b")))}
    back = fragment("d", inherits=("a", "b", "c"))
    desired = DesiredState(slots={"0": WantedSlot((back,))}, handing_over=outgoing)
    assert predecessors(desired, back) == ("c",)
    assert [successor.id for successor in successors(desired, "a")] == ["c"]
    unknown = DesiredState(slots={"0": WantedSlot((back,))}, handing_over={"0": outgoing["0"][:2]})
    assert predecessors(unknown, back) == ("a", "b")


def test_offsets_are_read_from_a_checkpoint(tmp_path):
    assert read_progress(tmp_path) == CheckpointProgress()
    for log, name, text in (
        ("offsets", "9", "v1\n{}\n{\"f1-0.1\":\"4-0\"}\n-\n"), ("offsets", "10", "v1\n{}\n{\"f1-0.1\":\"5-0\"}\n-\n"),
        ("commits", "9", ""), ("offsets", ".10.crc", ""),
    ):
        (tmp_path / log).mkdir(exist_ok=True)
        (tmp_path / log / name).write_text(text)
    assert read_progress(tmp_path) == CheckpointProgress(10, False, None, {"f1-0.1": "5-0"}, {"f1-0.1": "4-0"})
    os.utime(tmp_path / "offsets" / "10", ns=(0, 7_000_000))
    assert read_progress(tmp_path).planned_ms == 7
    (tmp_path / "commits" / "10").write_text("")
    (tmp_path / "offsets" / "10").write_text('v1\n{}\n{"t0":5,"next":7}')
    assert read_progress(tmp_path) == CheckpointProgress(10, True, {"t0": 5, "next": 7}, {}, {"f1-0.1": "4-0"})
