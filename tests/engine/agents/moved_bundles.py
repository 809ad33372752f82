"""A dataflow with divided tasks whose queries move: plans for the played world of ``divided_world.py``.

A source feeds a divided task, and both feed another one; a third, which has state and is one bundle, counts what comes
of that, and an output collects it. Bundles, and the whole queries beside them, move to any slot of either node, one by
one or several at once, as ``scheduler.moving`` plans it; and between moves all is divided otherwise.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from scheduler.contracts.desired import DesiredState, made_in
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, node_of
from scheduler.reuse.activity import FragmentChange, adjust
from scheduler.reuse.division import WantedBundle, divided_anew, divided_back
from scheduler.reuse.handover import moved_in
from workers.engine.agents.transport.state_transport import still_leaving
from workers.engine.channels import keys

from .divided_world import EVERYTHING, SLOTS, World, alone

TASKS = {
    "s": RunningTask("s", "src", {}, ()), "a": RunningTask("a", "mark", {}, ("s",)),
    "b": RunningTask("b", "mark", {}, ("a", "s")), "n": RunningTask("n", "count", {}, ("b",)),
    "o": RunningTask("o", "out", {"keep_events": EVERYTHING}, ("n",)),
}
OUT = "f1-4.0"
DIVIDED = ("f1-1", "f1-2", "f1-3")
NAMES = [slot.name for slot in SLOTS]


class Plans:
    """The estate from plan to plan."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.generation = chance, 1
        self.fragments = {
            "f1-0": Fragment("f1-0", ("s",), "n1/0", 1, {"s": ("f1-1", "f1-2")}),
            "f1-1": Fragment("f1-1", ("a",), "", 1, {"a": ("f1-2",)}),
            "f1-2": Fragment("f1-2", ("b",), "", 1, {"b": ("f1-3",)}),
            "f1-3": Fragment("f1-3", ("n",), "", 1, {"n": ("f1-4",)}),
            "f1-4": Fragment("f1-4", ("o",), chance.choice(NAMES), 1),
        }
        further = itertools.count(5)
        for name in DIVIDED:
            bundles = tuple(
                RunningBundle(f"f1-{next(further)}" if number else name, part.slot, part.threads, part.weight)
                for number, part in enumerate(self._parts(name)))
            self.fragments[name] = replace(self.fragments[name], slot=bundles[0].slot, bundles=bundles)
        if chance.random() < 0.5:
            self.fragments["f1-0"] = replace(self.fragments["f1-0"], bundles=(RunningBundle("f1-0", "n1/0"),))
        self.moving: dict[str, tuple[Fragment, RunningBundle]] = {}  # by heir who was before it
        self.before: dict[str, Fragment] = {}  # what was divided last, as it was

    def estate(self) -> Estate:
        return Estate(generation=self.generation, tasks=TASKS, fragments=dict(self.fragments), slots=SLOTS)

    def wanted(self) -> dict[str, tuple[Fragment, RunningBundle]]:
        """The queries that are to work, by id."""
        return {
            bundle.id: (fragment, bundle) for fragment in self.fragments.values() for bundle in fragment.queries
            if not bundle.leaving}

    def leaving(self) -> set[str]:
        return {bundle.id for fragment in self.fragments.values() for bundle in fragment.bundles if bundle.leaving}

    def move(self) -> None:
        """Some queries go to another slot."""
        slot = self.chance.choice(NAMES)
        others = sorted(name for name, (_, bundle) in self.wanted().items() if bundle.slot != slot)
        if others:
            self.go(dict.fromkeys(self.chance.sample(others, self.chance.randint(1, min(3, len(others)))), slot))

    def take_back(self) -> None:
        """The queries that moved last go to where they were, before they have come to where they go."""
        former = self.moving
        self.go({heir: bundle.slot for heir, (_, bundle) in former.items()})
        for name, (home, heir) in self.moving.items():
            before, now = former[heir.id][1].id, self.wanted()[name][0]
            if home.divided:
                self.fragments[now.id] = replace(now, bundles=tuple(
                    replace(bundle, inherits=(before, *bundle.inherits)) if bundle.id == name else bundle
                    for bundle in now.bundles))
            else:
                self.fragments[now.id] = replace(now, inherits=(before, *now.inherits))
        self.moving = {}

    def go(self, slots: Mapping[str, str]) -> None:
        """These queries go to other slots."""
        queries = self.wanted()
        homes = {name: queries[name][0] for name in slots}
        change = moved_in(self.estate(), slots, outputs={"o"}, homes=homes)
        self._take(change)
        heirs = [step.bundle or step.fragment for step in change.steps]
        self.moving, self.before = {heir: queries[name] for heir, name in zip(heirs, slots, strict=True)}, {}

    def divide(self, left: frozenset[str]) -> None:
        """Some of it is divided otherwise, and what has left is dropped where it is; what is whole may go elsewhere."""
        self.before, home = dict(self.fragments), self._whole_ones()
        ids = (f"f{self.generation + 1}-{number}" for number in itertools.count(len(home)))
        for name in self.chance.sample(DIVIDED, self.chance.randint(1, len(DIVIDED))):
            fragment = self.fragments[name]
            change = divided_anew(
                fragment.tasks[0], fragment, self._parts(name), ids=ids, left_bundles=left, whole=name == "f1-3",
                hands_over=self.chance.random() < 0.8)
            self.fragments[name] = change.after[name]
        near = {name: self.chance.choice(NAMES) for name in home if self.chance.random() < 0.3}
        moves = {
            name: slot for name, slot in near.items()
            if slot != home[name] and node_of(slot) == node_of(home[name])}
        self._take(moved_in(self.estate(), moves, outputs={"o"}))
        self.moving = {}

    def divide_back(self) -> None:
        """All is divided as it was before, as far as it runs."""
        change = divided_back(self.before, self.fragments, generation=self.generation)
        self.fragments |= change.after
        self.generation += 1
        self.before = {}

    def _whole_ones(self) -> dict[str, str]:
        return {name: fragment.slot for name, fragment in self.fragments.items() if not fragment.divided}

    def pause(self, *, paused: bool) -> None:
        """What is behind the fork rests, or goes on; the rest works for others, too."""
        self._take(adjust(self.estate(), dict.fromkeys("bno", "rests" if paused else "works")))
        self.moving, self.before = {}, {}

    def last(self, left: frozenset[str]) -> None:
        """Only those remain that do something."""
        for name, fragment in self.fragments.items():
            staying = tuple(bundle for bundle in fragment.bundles if bundle.id not in left)
            self.fragments[name] = replace(fragment, bundles=staying)
        self.generation += 1

    def _take(self, change: FragmentChange) -> None:
        for name in change.before:
            del self.fragments[name]
        self.fragments |= change.after
        self.generation += 1

    def _parts(self, name: str) -> list[WantedBundle]:
        if name == "f1-3":
            home = self.fragments[name].slot
            near = [slot for slot in NAMES if not home or node_of(slot) == node_of(home)]
            return [WantedBundle(self.chance.choice(near), self.chance.randint(1, 2), 1.0)]
        slots = self.chance.choices(NAMES, k=self.chance.randint(1, 3))
        weights = [self.chance.randint(1, 3) for _ in slots]
        return [
            WantedBundle(slot, self.chance.randint(1, 2), weight / sum(weights))
            for slot, weight in zip(slots, weights, strict=True)]

    def is_calm(self, world: World) -> bool:
        """Whether what was planned last is in force, as the site knows it: only then does it plan again."""
        return (
            not world.said and set(self.wanted()) <= set(world.running) and world.left() == self.leaving()
            and all(_is_routed(world, fragment) for fragment in self.fragments.values() if fragment.divided)
            and all(self._is_over(world, *query) for query in self.wanted().values()))

    @staticmethod
    def _is_over(world: World, fragment: Fragment, bundle: RunningBundle) -> bool:
        inherits, origin = fragment.inherited_by(bundle)
        nodes = {node_of(bundle.slot), origin or node_of(bundle.slot)}
        if any(world.heard.get(node, DesiredState()).version < made_in(bundle.id) for node in nodes):
            return False
        left = origin and still_leaving(world.heard[origin], world.stores[f"{origin}/0"])
        return not set(inherits) & {*world.running, *(left or ())}


def _is_routed(world: World, fragment: Fragment) -> bool:
    """Whether all who write for a divided fragment do so by its weights."""
    weights = {bundle.part: bundle.weight for bundle in fragment.bundles}
    runs = [run for runs in world.runs.values() for run in runs.values() if run.query is not None]
    return all(
        readers[fragment.id] == weights for run in runs for readers in run.routes.values() if fragment.id in readers)


def check(world: World, plans: Plans) -> None:
    """Each event came once, whoever moved where; who counts has counted each of them once, and nothing is left."""
    events = list(world.broker.events(OUT))
    assert [count for count, _ in events] == list(range(len(events))), "state got lost, or came twice"
    assert Counter(event for _, event in events) == alone() and not world.gaps
    assert set(world.running) == set(plans.wanted()), "it did not come to what is planned"
    for name, (_, bundle) in plans.wanted().items():
        assert world.running[name].store.slot == bundle.slot
    assert plans.is_calm(world), "a plan is never over"
    for store in world.stores.values():
        assert not store.having("ended"), "something is left to be cleared away"
    for channel in world.broker.opened():
        readers = set(world.broker.channels.info(channel).readers)
        expires = keys.meta(channel).encode() in world.broker.expiring
        assert expires or readers <= set(plans.wanted()), "a reader that is gone still holds blocks back"
