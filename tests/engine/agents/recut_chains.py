"""A chain that is cut anew again and again: plans for the played world of ``divided_world.py``, on one node of it.

Every task but the source and the output counts what it gets, so that a lost, repeated or reordered event shows in all
that follow. Another dataflow reads the second task's stream all along. Its output, and the chain's own, stay in their
channels.
"""

from __future__ import annotations

import random

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, channel_id

from .divided_world import EVERYTHING, SLOTS

KEEPS = {"keep_events": EVERYTHING}
CHAIN = {
    "t0": RunningTask("t0", "src", {}, ()),
    **{f"t{n}": RunningTask(f"t{n}", "count", {}, (f"t{n - 1}",)) for n in range(1, 5)},
    "t5": RunningTask("t5", "out", KEEPS, ("t4",)),
}
LENGTH = len(CHAIN)
WATCHER = {"w": RunningTask("w", "count", {}, ("t1",)), "x": RunningTask("x", "out", KEEPS, ("w",))}


class Plans:
    """The estate from plan to plan."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.generation = chance, 0
        self.chain: list[Fragment] = []
        self.out, self.watched = "", ""

    def cut(self, cuts: list[int], slots: list[int]) -> Estate:
        """The chain, cut before these tasks; its fragments in turn on these slots of the first node."""
        self.generation += 1
        bounds = [0, *cuts, LENGTH]
        ids = [f"f{self.generation}-{n}" for n in range(len(bounds) - 1)]
        # A plan may name only those that its tasks come from, or also those before them that may still be ending.
        own_only = self.chance.random() < 0.5
        fragments = []
        for n, name in enumerate(ids):
            tasks = tuple(f"t{task}" for task in range(bounds[n], bounds[n + 1]))
            outlets = {tasks[-1]: (ids[n + 1],)} if n + 1 < len(ids) else {}
            if "t1" in tasks:
                outlets["t1"] = ("f1-90", *outlets.get("t1", ()))
            fragments.append(Fragment(
                name, tasks, SLOTS[slots[n % len(slots)]].name, len(tasks), outlets,
                channels=self._channels(name, tasks), inherits=self._inherits(tasks, own_only=own_only)))
        self.chain = fragments
        watcher = Fragment("f1-90", ("w", "x"), SLOTS[1].name, 2)
        self.watched = channel_id("f1-90", 1)
        return Estate(
            generation=self.generation, tasks={**CHAIN, **WATCHER},
            fragments={fragment.id: fragment for fragment in (*fragments, watcher)}, slots=SLOTS)

    def _channels(self, name: str, tasks: tuple[str, ...]) -> dict[str, str]:
        """What others read stays in its channel."""
        channels = {}
        for task in ("t1", f"t{LENGTH - 1}"):
            if task in tasks:
                first = channel_id(name, tasks.index(task))
                channels[task] = next((
                    fragment.channel_of(task) for fragment in self.chain if task in fragment.tasks), first)
        self.out = channels.get(f"t{LENGTH - 1}", self.out)
        return channels

    def _inherits(self, tasks: tuple[str, ...], *, own_only: bool) -> tuple[str, ...]:
        sources = [fragment for fragment in self.chain if not own_only or set(fragment.tasks) & set(tasks)]
        lines = ((source.id,) if own_only else (*source.inherits, source.id) for source in sources)
        return tuple(dict.fromkeys(name for line in lines for name in line))
