"""Dataflows that run without a schedule and get their first one: plans for the played world of ``divided_world.py``.

A source feeds a task, both feed another one, a third one counts what that makes, and an output collects it. Of another
team, a task reads the first one's stream all along, whole or divided. They begin as chains, fused in any way.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, node_of
from scheduler.reuse.activity import FragmentChange, adjust
from scheduler.reuse.cutting import TaskDivision, scheduled_anew
from scheduler.reuse.division import WantedBundle, divided_anew, divided_back, working_bundles

from .divided_world import EVERYTHING, SLOTS, TYPES, World, delivered

TASKS = {
    "s": RunningTask("s", "src", {}, ()), "a": RunningTask("a", "mark", {}, ("s",)),
    "b": RunningTask("b", "mark", {}, ("a", "s")), "n": RunningTask("n", "count", {}, ("b",)),
    "o": RunningTask("o", "out", {"keep_events": EVERYTHING}, ("n",)),
    "w": RunningTask("w", "mark", {}, ("a",)), "x": RunningTask("x", "out", {"keep_events": EVERYTHING}, ("w",)),
}
MAY_BE_DIVIDED = frozenset({"a", "b", "w"})


class Plans:
    """The estate from plan to plan. In an ``ordered`` one every divided task has one bundle, and keeps its node."""

    def __init__(self, chance: random.Random, *, ordered: bool) -> None:
        self.chance, self.ordered, self.generation = chance, ordered, 1
        self.fragments: dict[str, Fragment] = {}
        self.changed: FragmentChange | None = None
        chains = [*self._some_cut("sa"), *self._some_cut("bno"), *self._some_cut("wx")]
        home = {task: f"f1-{number}" for number, chain in enumerate(chains) for task in chain}
        for number, chain in enumerate(chains):
            slot, name = chance.choice(SLOTS).name, f"f1-{number}"
            outlets: dict[str, tuple[str, ...]] = {}
            for reader, task in itertools.product(chains, chain):
                if task in TASKS[reader[0]].parents:
                    outlets[task] = (*outlets.get(task, ()), home[reader[0]])
            self.fragments[name] = Fragment(name, tuple(chain), slot, len(chain), outlets)
        if home["w"] != home["x"] and chance.random() < 0.5:
            watcher = self.fragments[home["w"]]
            bundles = (RunningBundle(home["w"], watcher.slot, 1, 0.5), RunningBundle("f1-99", SLOTS[0].name, 1, 0.5))
            self.fragments[home["w"]] = replace(watcher, bundles=bundles)
        self.out, self.watched = (f"{home[task]}.{self.fragments[home[task]].tasks.index(task)}" for task in "ox")

    def _some_cut(self, tasks: str) -> list[str]:
        cuts = [number for number in range(1, len(tasks)) if self.chance.random() < 0.3]
        return [tasks[begin:end] for begin, end in itertools.pairwise([0, *cuts, len(tasks)])]

    def estate(self) -> Estate:
        return Estate(generation=self.generation, tasks=TASKS, fragments=dict(self.fragments), slots=SLOTS)

    def first_schedule(self) -> Estate:
        """Some tasks, or all, get a fragment of their own with bundles of its own."""
        tasks = [task for task in "sabno" if self.chance.random() < 0.8] or ["b"]
        estate, ids = self.estate(), self._ids()
        home = {task: estate.fragments[estate.places[task][0]].slot for task in tasks}
        wanted = {
            task: TaskDivision(
                task,
                tuple(self._parts(task, home[task])),
                whole=task not in MAY_BE_DIVIDED or self.ordered,
                serial=task not in MAY_BE_DIVIDED,
            )
            for task in tasks
        }
        self.changed = scheduled_anew(estate, wanted, ids=ids, task_types=TYPES)
        return self._take(self.changed)

    def next(self, left: frozenset[str]) -> Estate:
        """Some of what is divided is divided otherwise, or all of it again as it was before."""
        if self.changed is not None and self.chance.random() < 0.2:
            now = {fragment_id: self.fragments[fragment_id] for fragment_id in self.changed.after
                if fragment_id in self.fragments}
            if not any(fragment.paused for fragment in now.values()):
                return self._take(divided_back(self.changed.before, now, generation=self.generation))
        self.generation += 1
        ids = (f"f{self.generation}-{number}" for number in itertools.count())
        works = [fragment_id for fragment_id, fragment in self.fragments.items() if fragment.divided
            and not fragment.paused]
        for name in self.chance.sample(works, self.chance.randint(0, len(works))):
            fragment = self.fragments[name]
            parts = self._parts(fragment.tasks[0], fragment.slot)
            self.fragments[name] = divided_anew(
                name, fragment, parts, ids=ids, left_bundles=left, whole=self.ordered).after[name]
        return self.estate()

    def pause(self, *, paused: bool) -> Estate:
        """What is behind the first fork rests, or goes on; the rest works for others, too."""
        return self._take(adjust(self.estate(), dict.fromkeys("bno", "rests" if paused else "works")))

    def last(self, left: frozenset[str]) -> Estate:
        """Only those remain that do something."""
        self.generation += 1
        for name, fragment in self.fragments.items():
            staying = tuple(bundle for bundle in fragment.bundles if bundle.id not in left)
            self.fragments[name] = replace(fragment, bundles=staying)
        return self.estate()

    def leaving(self) -> set[str]:
        return {bundle.id for fragment in self.fragments.values() for bundle in fragment.bundles if bundle.leaving}

    def _parts(self, task: str, home: str) -> list[WantedBundle]:
        if task not in MAY_BE_DIVIDED or self.ordered:
            near = [slot.name for slot in SLOTS if slot.node == node_of(home)]
            return [
                WantedBundle(
                    self.chance.choice(near), 1 if task not in MAY_BE_DIVIDED else self.chance.randint(1, 2), 1.0
                )
            ]
        slots = self.chance.choices([slot.name for slot in SLOTS], k=self.chance.randint(1, 3))
        weights = [self.chance.randint(1, 3) for _ in slots]
        return [
            WantedBundle(slot, self.chance.randint(1, 2), weight / sum(weights))
            for slot, weight in zip(slots, weights, strict=True)]

    def _ids(self) -> Iterator[str]:
        return (f"f{self.generation + 1}-{number}" for number in itertools.count())

    def _take(self, change: FragmentChange) -> Estate:
        self.generation += 1
        self.fragments = {
            fragment_id: fragment for fragment_id, fragment in self.fragments.items()
            if fragment_id not in change.before or fragment_id in change.after} | dict(change.after)
        return self.estate()


def is_calm(world: World, made: Plans) -> bool:
    """Whether all that is planned runs: only then is a dataflow scheduled."""
    if world.said:
        return False
    wanted = {
        bundle.id for fragment in made.fragments.values() for bundle in working_bundles(fragment) if not fragment.paused
    }
    running = {run.id for runs in world.runs.values() for run in runs.values() if run.query is not None}
    return wanted <= running


def is_handing_over(world: World) -> bool:
    """Whether some fragments still go on with the work of others."""
    return bool(world.said) or any(
        wanted.inherits and wanted.id not in world.stores[f"{node}/0"].having("begun")
        for node, desired in world.heard.items() for wanted in desired.wanted.values()
    ) or any(world.stores[f"{node}/0"].having("ended") for node in world.heard)


def whole(until: int, first: int = 0) -> tuple[Counter, Counter]:
    """What both outputs deliver of some numbers where nobody schedules anything; without counts."""
    return (
        Counter(event for number in range(first, until) for event in (("b", number), ("b", ("a", number)))),
        Counter(("w", ("a", number)) for number in range(first, until)))


def came(world: World, made: Plans) -> tuple[Counter, Counter]:
    """What both outputs hold, without counts."""
    out = Counter()
    for (_, event), times in delivered(world, made.out).items():
        out[event] += times
    return out, delivered(world, made.watched)


def check_order(world: World, made: Plans) -> None:
    """Events of each stream come in the order in which they were made."""
    for unpack in (_direct, _through):
        values = [value for _, event in _events(world, made.out) if (value := unpack(event)) is not None]
        assert values == sorted(values), "an event overtook another"
    counts = [count for count, _ in _events(world, made.out)]
    assert counts == list(range(len(counts)))


def _events(world: World, out: str) -> list:
    return list(delivered_in_order(world, out))


def delivered_in_order(world: World, out: str) -> Iterator:
    yield from world.broker.events(out)


def _direct(event: tuple) -> int | None:
    return event[1] if isinstance(event[1], int) else None


def _through(event: tuple) -> int | None:
    return None if isinstance(event[1], int) else event[1][1]


Unpack = Callable[[tuple], int | None]
