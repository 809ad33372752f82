"""Tasks with state that are divided by key: plans for the played world of ``divided_world.py``.

A source feeds a task that counts by key, that feeds another one, and an output collects. Their keys change hands again
and again: each is one query at first, or several bundles; then others have them, on any slot of one node, or of two or
three; and plans are taken back before they are in force. A bundle moves beside that.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from scheduler.key_division import ranges_of, whole_groups
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from scheduler.moving import why_not_moved
from scheduler.reuse.activity import Activity, adjust
from scheduler.reuse.division import WantedBundle, divided_back, keyed_bundles, keys_divided_anew
from scheduler.reuse.handover import moved_in
from workers.engine.agents.transport.state_transport import still_leaving

from .divided_world import EVERYTHING, NUMBERS, SLOTS, TYPES, World
from .test_moves_between_nodes import Nodes

TASKS = {
    "s": RunningTask("s", "src", {}, ()), "t": RunningTask("t", "tally", {}, ("s",)),
    "u": RunningTask("u", "tally", {}, ("t",)), "o": RunningTask("o", "out", {"keep_events": EVERYTHING}, ("u",)),
}
OUT = "f1-3.0"
KEYED = ("f1-1", "f1-2")
NEAR = ("n1/0", "n1/1")


class Apart(Nodes):
    """Three nodes, and a broker that dies, too."""

    slots = (*SLOTS, Slot("n3", 0))


FAR = tuple(slot.name for slot in Apart.slots)


class Plans:
    """The estate from plan to plan: what is ``keyed`` is divided, and an output collects so many ``events``."""

    tasks: ClassVar[Mapping[str, RunningTask]] = TASKS
    keyed: ClassVar[tuple[str, ...]] = KEYED
    out: ClassVar[str] = OUT
    events: ClassVar[int] = NUMBERS
    works_on: ClassVar[bool] = True  # whether who gives keys away does

    def __init__(self, chance: random.Random, near: Sequence[str] = NEAR) -> None:
        self.chance, self.generation, self.near = chance, 1, near
        self.fragments = self.at_first()
        ids = (f"f1-{number}" for number in itertools.count(len(self.tasks)))
        for name in self.keyed:
            if chance.random() < 0.4:
                bundles = keyed_bundles(self.parts(), ids, inherits=())
                self.fragments[name] = replace(self.fragments[name], slot=bundles[0].slot, bundles=tuple(bundles))
        self.before: dict[str, Fragment] = {}
        self.pauses = 0

    def at_first(self) -> dict[str, Fragment]:
        """Each task as a query."""
        chance = self.chance
        return {
            "f1-0": Fragment("f1-0", ("s",), chance.choice(self.near), 1, {"s": ("f1-1",)}),
            "f1-1": Fragment("f1-1", ("t",), chance.choice(self.near), 1, {"t": ("f1-2",)}),
            "f1-2": Fragment("f1-2", ("u",), chance.choice(self.near), 1, {"u": ("f1-3",)}),
            "f1-3": Fragment("f1-3", ("o",), chance.choice([slot.name for slot in SLOTS]), 1),
        }

    def estate(self) -> Estate:
        return Estate(generation=self.generation, tasks=self.tasks, fragments=dict(self.fragments), slots=Apart.slots)

    def parts(self) -> list[WantedBundle]:
        slots = self.chance.choices(self.near, k=self.chance.randint(1, 3))
        weights = [self.chance.randint(1, 3) for _ in slots]
        groups = whole_groups({place: weight / sum(weights) for place, weight in enumerate(weights)})
        named = ranges_of(list(groups.values())) if self.chance.random() < 0.5 else ()  # as where loads are known
        return [WantedBundle(slot, 1, groups[place], named[place:place + 1]) for place, slot in enumerate(slots)]

    def divide(self, left: frozenset[str]) -> None:
        """The keys of one task, or of both, change hands."""
        self.before = dict(self.fragments)
        ids = (f"f{self.generation + 1}-{number}" for number in itertools.count())
        names = [name for name in self.keyed if not self.fragments[name].paused]
        for name in self.chance.sample(names, self.chance.randint(1, len(names))):
            fragment = self.fragments[name]
            change = keys_divided_anew(fragment, self.parts(), ids=ids, left_bundles=left,
                                       works_on=self.works_on)
            self.fragments[name] = change.after[name]
        self.generation += 1

    def divide_back(self) -> None:
        """Keys have the bundles that they had before, or one."""
        changed = {name: self.fragments[name] for name in self.keyed if self.fragments[name] != self.before[name]}
        change = divided_back(self.before, changed, generation=self.generation)
        self.fragments |= change.after
        self.generation += 1
        self.before = {}

    def move(self) -> None:
        """A bundle goes to another slot."""
        self.before = {}
        bundles = [
            (fragment, bundle) for name in self.keyed if (fragment := self.fragments[name]).divided_by_key
            and not why_not_moved(self.estate(), fragment, task_types=TYPES) for bundle in fragment.bundles
            if not bundle.leaving]
        if not bundles:
            return
        fragment, bundle = self.chance.choice(bundles)
        slot = self.chance.choice([slot for slot in self.near if slot != bundle.slot])
        self.fragments |= moved_in(
            self.estate(), {bundle.id: slot}, outputs={"o"}, homes={bundle.id: fragment}).after
        self.generation += 1

    def rests(self) -> bool:
        return self.fragments[self.keyed[-1]].paused

    def turn(self, left: frozenset[str]) -> None:
        """What is behind the first task rests, or goes on; as on the site, once all that was to leave has been dropped.
        """
        self.drop(left)
        activity: Activity = "works" if self.rests() else "rests"
        self.pauses += not self.rests()
        self.fragments |= adjust(self.estate(), dict.fromkeys("uo", activity)).after
        self.generation += 1
        self.before = {}

    def drop(self, left: frozenset[str]) -> None:
        """Those that have left are dropped, as the site does as soon as it hears of it."""
        for name in self.keyed:
            staying = tuple(bundle for bundle in self.fragments[name].bundles if bundle.id not in left)
            self.fragments[name] = replace(self.fragments[name], bundles=staying)
        self.generation += 1

    def wanted(self) -> set[str]:
        return {
            bundle.id for fragment in self.fragments.values() for bundle in fragment.queries
            if not bundle.leaving and not fragment.paused}

    def leaving(self) -> set[str]:
        return {bundle.id for fragment in self.fragments.values() for bundle in fragment.bundles if bundle.leaving}

    def is_calm(self, world: World) -> bool:
        """Whether what was planned last is in force, as the site knows it: only then does it plan again."""
        return (
            not world.said and self.wanted() == set(world.running) and world.left() == self.leaving()
            and not any(still_leaving(desired, world.stores[f"{node}/0"]) for node, desired in world.heard.items()))


class PlansOfJoin(Plans):
    """Two queries read the source, and one task both, as a join does: each writes for its bundles."""

    tasks: ClassVar[Mapping[str, RunningTask]] = {
        "s": TASKS["s"], "a": RunningTask("a", "mark", {}, ("s",)), "b": RunningTask("b", "mark", {}, ("s",)),
        "t": RunningTask("t", "tally", {}, ("a", "b")),
        "o": RunningTask("o", "out", {"keep_events": EVERYTHING}, ("t",))}
    keyed: ClassVar[tuple[str, ...]] = ("f1-3",)
    out: ClassVar[str] = "f1-4.0"
    events: ClassVar[int] = 2 * NUMBERS
    works_on: ClassVar[bool] = False

    def at_first(self) -> dict[str, Fragment]:
        anywhere = [slot.name for slot in SLOTS]
        near = self.chance.choice(self.near)
        readers = {"s": ("f1-1", "f1-2"), "a": ("f1-3",), "b": ("f1-3",), "t": ("f1-4",)}
        return {
            f"f1-{number}": Fragment(
                f"f1-{number}", (task,), near if task == "t" else self.chance.choice(anywhere), 1,
                {task: readers[task]} if task in readers else {})
            for number, task in enumerate(self.tasks)}
