"""Handovers: nothing is lost and nothing doubled, whenever slots die and plans follow upon plans."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.model.fragment import Fragment
from workers.engine.agents import savepoints
from workers.engine.agents.checkpoint import Progress, read_progress
from workers.engine.agents.handover import predecessors, successors

from .world import LENGTH, OUT, World

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
    world = World(chance)
    patch.setattr(savepoints, "read_states", world.read_states)
    patch.setattr(world.savepoints, "_log", SimpleNamespace(info=lambda *_, **__: None, warning=lambda *_, **__: None))
    before: list[Fragment] = []
    for generation, (cuts, slots, turns) in enumerate(all_plans, start=1):
        estate = world.estate(generation, cuts, slots, before)
        before = [one for one in estate.fragments.values() if one.id != "watch"]
        world.want(estate)
        for _ in range(turns):
            world.turn(chance.choice("01"))
    world.deadly = False
    for _ in range(80):
        world.turn("0")
        world.turn("1")
    assert set(world.running) == set(world.desired.wanted), "it did not come to what is planned"
    assert not world.disk.having("ended"), "something is left to be cleared away"
    check(world)


def check(world: World) -> None:
    written = [event for _, events in world.broker[OUT].entries for event in events]
    assert [number for number, _ in written] == list(range(len(written))) and len(written) > 20
    sums = [0] * LENGTH
    for number, value in written:
        passed = number
        for task in range(LENGTH):
            sums[task] += passed
            passed = sums[task]
        assert value == passed
    current = set(world.desired.wanted)
    for channel in world.broker.values():
        assert set(channel.readers) <= current, "a reader that is gone still holds blocks back"


# In this one a fragment still reads for its heir's heir, which must not get a place beside it.
LINE_OF_HEIRS = {"all_plans": [([2, 3], [0, 1], 14), ([2], [0], 0), ([1, 2], [0], 2), ([], [0], 0)], "seed": 1}


@settings(max_examples=150, deadline=None)
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
    assert [one.id for one in successors(desired, "a")] == ["c"]
    unknown = DesiredState(slots={"0": WantedSlot((back,))}, handing_over={"0": outgoing["0"][:2]})
    assert predecessors(unknown, back) == ("a", "b")


def test_offsets_are_read_from_a_checkpoint(tmp_path):
    assert read_progress(tmp_path) == Progress()
    for log, name, text in (
        ("offsets", "9", "v1\n{}\n{\"f1-0.1\":\"4-0\"}\n-\n"), ("offsets", "10", "v1\n{}\n{\"f1-0.1\":\"5-0\"}\n-\n"),
        ("commits", "9", ""), ("offsets", ".10.crc", ""),
    ):
        (tmp_path / log).mkdir(exist_ok=True)
        (tmp_path / log / name).write_text(text)
    assert read_progress(tmp_path) == Progress(10, False, None, {"f1-0.1": "5-0"}, {"f1-0.1": "4-0"})
    (tmp_path / "commits" / "10").write_text("")
    (tmp_path / "offsets" / "10").write_text('v1\n{}\n{"t0":5,"next":7}')
    assert read_progress(tmp_path) == Progress(10, True, {"t0": 5, "next": 7}, {}, {"f1-0.1": "4-0"})
