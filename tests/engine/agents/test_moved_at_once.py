"""A source, bundles and their reader move by one plan, right behind the one by which keys changed hands: in between the
slot of the reader has worked, and looked at no plan. None waits for another for good, whoever dies when."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.key_division import ranges_of, whole_groups
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.moving import why_not_moved
from scheduler.reuse.division import WantedBundle
from scheduler.reuse.handover import moved_in
from workers.engine.agents.reconciling import ending
from workers.engine.agents.reconciling.reconcile import FragmentState

from .divided_world import TICK_MS, TYPES, World
from .keyed_bundles import FAR, OUT, Apart, Plans
from .test_bundles import check_that_nothing_is_left, some_turns
from .test_first_schedules import turn
from .test_keyed_bundles import check, come_to_rest

SOURCE, DIVIDED, READER = "f1-0", "f1-1", "f1-2"


class MovesAtOnce(Plans):
    """The reader has a slot of its own on some node, and mostly the bundles are beside it there."""

    keyed: ClassVar[tuple[str, ...]] = (DIVIDED,)

    def at_first(self) -> dict[str, Fragment]:
        self.home = self.chance.choice(FAR[:4])
        self.others = [slot for slot in FAR if slot != self.home]
        self.works_on = self.chance.random() < 0.6
        return {
            name: replace(fragment, slot=self.home if name == READER else self.chance.choice(self.others))
            for name, fragment in super().at_first().items()}

    def parts(self) -> list[WantedBundle]:
        beside = next(slot for slot in self.others if node_of(slot) == node_of(self.home))
        slots = [beside if self.chance.random() < 0.7 else self.chance.choice(self.others)
                 for _ in range(self.chance.randint(1, 3))]
        groups = whole_groups({place: 1 / len(slots) for place in range(len(slots))})
        named = ranges_of(list(groups.values())) if self.chance.random() < 0.5 else ()
        return [WantedBundle(slot, 1, groups[place], named[place:place + 1]) for place, slot in enumerate(slots)]

    def move(self) -> None:
        """Some go to one slot, or each to any."""
        queries = self._movable()
        chance, same = self.chance, self.chance.choice(("", *FAR))
        likely = {READER: 0.95, SOURCE: 0.5}
        names = [name for name in queries if chance.random() < likely.get(name, 0.8)] or [READER]
        chance.shuffle(names)
        slots = {name: same if same not in ("", queries[name][1].slot) else chance.choice(
            [slot for slot in FAR if slot != queries[name][1].slot]) for name in names}
        change = moved_in(
            self.estate(), slots, outputs={"o"}, homes={name: queries[name][0] for name in names})
        self.fragments = {
            name: fragment for name, fragment in self.fragments.items() if name not in change.before
        } | dict(change.after)
        self.generation += 1

    def _movable(self) -> dict[str, tuple[Fragment, RunningBundle]]:
        estate = self.estate()
        return {
            bundle.id: (fragment, bundle) for fragment in self.fragments.values() for bundle in fragment.queries
            if not bundle.leaving and not why_not_moved(estate, fragment, task_types=TYPES)}


def turn_without(world: World, asleep: str, slots: Sequence[str] = FAR) -> None:
    """All slots have a turn, but that the queries of one work on and it looks at no plan."""
    for slot in slots:
        if slot != asleep:
            world.turn(slot)
            continue
        world.now_ms += TICK_MS
        for run in [run for run in world.runs[slot].values() if run.state is FragmentState.RUNNING]:
            world._run(run)


def hear_all(world: World) -> None:
    for node in world.nodes:
        world.hear(node)


def play(seed: int, patch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    world, plans = Apart(chance, patch), MovesAtOnce(chance, FAR)
    world.deadly = False
    world.want(plans.estate())
    for _ in range(100):
        turn(world)
        if plans.is_calm(world):
            break
    plans.divide(world.left())
    world.want(plans.estate())
    hear_all(world)
    for _ in range(300):
        turn_without(world, plans.home)
        if plans.is_calm(world):
            break
    assert plans.is_calm(world)
    for _ in range(chance.randint(0, 15)):
        turn_without(world, plans.home)
    plans.drop(world.left())
    plans.move()
    world.want(plans.estate())
    if chance.random() < 0.8:
        hear_all(world)
    world.deadly = chance.random() < 0.6
    some_turns(world, chance.randint(0, 200))
    world.deadly = False
    come_to_rest(world, plans)
    check(world, 0)
    check_that_nothing_is_left(world, outputs=(OUT,))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_who_moves_at_once_right_after_keys_changed_hands_comes_to_rest_whoever_dies(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        play(seed, patch)


def test_some_wait_for_good_where_who_ends_is_not_started_with_what_it_is_to_read() -> None:
    def waits(seed: int) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ending, "_lacks_inputs", lambda *_: False)
            try:
                play(seed, patch)
            except AssertionError:
                return True
        return False

    assert any(waits(seed) for seed in range(20))


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=3_000, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_thousands_move_at_once_and_come_to_rest(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        play(seed, patch)
