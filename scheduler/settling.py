"""Settling: which of the slots that there are takes which place in a schedule, so that most of what runs stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .mapping.traffic import Streams, on_other_slots
from .model.errors import NotEnactable
from .model.estate import RunningBundle, Slot, node_of
from .model.placement import Placement
from .model.resources import Supply

SAME, OTHER_THREADS, SAME_NODE = 1000, 600, 10  # what a bundle that stays counts, or one that is near
AS_IT_WAS = 1  # what a place that keeps the mapping's own choice counts: only where nothing else does


@dataclass(frozen=True)
class Settler:
    """Puts the places of a mapping on other slots, such that most bundles stay where they are.

    Slots are alike, so a mapping's choice among them is arbitrary but for the nodes that they are on; a slot that
    others have part of keeps its place. The assignment with the most bundles that stay is found exactly. One settler
    does for all pairs of a comparison.

    Parameters
    ----------
    running : mapping of str to sequence of RunningBundle
        What works now, by task of the schedule.
    pinned : mapping of str to str
        Tasks that cannot leave their node, for their state or their order: the node's name.
    supply : Supply
        The slots that it may use, on the first of which was mapped.
    """

    running: Mapping[str, Sequence[RunningBundle]]
    pinned: Mapping[str, str]
    supply: Supply

    def __call__(self, placement: Placement, streams: Streams) -> Placement:
        """The same placement on the slots that it is settled on; one that needs machines to buy is left as it is.

        Raises
        ------
        NotEnactable
            Tasks that are bound to different nodes have one slot in it, or a node has too few slots for those bound to
            it.
        """
        if not self.running or self._buys(placement):
            return placement
        free = self._candidates(placement)
        slots = [free[number] for number in self._assigned(placement, free)]
        return on_other_slots(placement, slots, streams)

    def _buys(self, placement: Placement) -> bool:
        """Whether it has more places than there are slots: what others have part of takes only the places it has."""
        return sum(slot not in self.supply.taken for slot in placement.slots) > self._untaken

    @cached_property
    def _untaken(self) -> int:
        return sum(slot not in self.supply.taken for node in self.supply.free for slot in node.slots)

    @cached_property
    def _live(self) -> dict[str, dict[str, int]]:
        """The threads of each task's bundles that do not leave, by their slots."""
        return {
            task: {bundle.slot: bundle.threads for bundle in bundles if not bundle.leaving}
            for task, bundles in self.running.items()}

    @cached_property
    def _nodes(self) -> dict[str, frozenset[str]]:
        """The nodes of these slots."""
        return {task: frozenset(map(node_of, live)) for task, live in self._live.items()}

    @cached_property
    def _own(self) -> frozenset[Slot]:
        """The slots that something runs on."""
        names = {bundle.slot for bundles in self.running.values() for bundle in bundles}
        return frozenset(slot for node in self.supply.free for slot in node.slots if slot.name in names)

    def _candidates(self, placement: Placement) -> list[Slot]:
        """The slots something runs on, and as many of the first others as there are places: no more can be better."""
        wanted = self._own.union(placement.slots)
        found = []
        for node in self.supply.free:
            spare = len(placement.slots)  # of every node, since what is bound to one needs slots there
            for slot in node.slots:
                if slot in wanted:
                    found.append(slot)
                elif spare and slot not in self.supply.taken:
                    found.append(slot)
                    spare -= 1
        return found

    def _assigned(self, placement: Placement, free: Sequence[Slot]) -> list[int]:
        """The number of the free slot for each place; places that nothing is on make the numbers even."""
        # Here, not above: it takes a moment to import, and only what runs already is settled.
        from ortools.graph.python import linear_sum_assignment

        solver = linear_sum_assignment.SimpleLinearSumAssignment()
        tasks_on = _tasks_on(placement)
        offer = _Offer(free, taken=np.array([slot in self.supply.taken for slot in free]))
        worths: dict[tuple[str, int], np.ndarray] = {}
        possible = 0  # of a place without any slot the solver knows nothing, and must not be asked
        for place, tasks in enumerate(tasks_on):
            kept = offer.is_slot(placement.slots[place])
            numbers = np.flatnonzero(self._allowed(tasks, offer, kept))
            worth = AS_IT_WAS * kept.astype(np.int64)
            for each in tasks.items():
                if each not in worths:
                    worths[each] = self._worth(*each, offer)
                worth += worths[each]
            solver.add_arcs_with_cost(np.full(len(numbers), place), numbers, -worth[numbers])
            possible += bool(len(numbers))
        others, numbers = np.divmod(np.arange((len(free) - len(tasks_on)) * len(free)), len(free))
        solver.add_arcs_with_cost(others + len(tasks_on), numbers, np.zeros(len(numbers), dtype=np.int64))
        if possible < len(tasks_on) or solver.solve() != solver.OPTIMAL:
            what = sorted({f"{task} to {node}" for task, node in self.pinned.items()})
            raise NotEnactable(
                f"The schedule moves what cannot leave its node while it runs ({', '.join(what[:5])})",
                remedy="Choose another pair, or remove the dataflow and submit it again with this schedule.",
                tasks=sorted(self.pinned),
            )
        return [solver.right_mate(place) for place in range(len(tasks_on))]

    def _allowed(self, tasks: Mapping[str, int], offer: _Offer, kept: np.ndarray) -> np.ndarray:
        """Which of the free slots a place may have; ``kept`` is the one that it has."""
        if not tasks:
            allowed = np.ones_like(kept)
        elif (kept & offer.taken).any():
            allowed = kept.copy()
        else:
            allowed = ~offer.taken
        for node in {self.pinned[task] for task in tasks if task in self.pinned}:
            allowed &= offer.on_node(node)
        return allowed

    def _worth(self, task: str, threads: int, offer: _Offer) -> np.ndarray:
        """What it is worth that so many threads of a task come to each of the free slots."""
        worth = np.zeros(len(offer.taken), dtype=np.int64)
        for node in self._nodes.get(task, ()):
            worth[offer.on_node(node)] += SAME_NODE
        for slot, its in self._live.get(task, {}).items():
            if slot in offer.numbers:
                worth[offer.numbers[slot]] += SAME if its == threads else OTHER_THREADS
        return worth


class _Offer:
    """The slots to be assigned, by number, and which of them are what; ``taken`` are those that others have part of."""

    def __init__(self, slots: Sequence[Slot], *, taken: np.ndarray) -> None:
        self.taken = taken
        self._numbers = np.arange(len(slots))
        self.numbers = {slot.name: number for number, slot in enumerate(slots)}
        nodes = np.array([slot.node for slot in slots])
        self._on_node = {node: nodes == node for node in dict.fromkeys(slot.node for slot in slots)}

    def is_slot(self, slot: Slot) -> np.ndarray:
        """Which of them is this one, if any."""
        return self._numbers == self.numbers.get(slot.name, -1)

    def on_node(self, node: str) -> np.ndarray:
        """Which of them are on a node."""
        return self._on_node.get(node, np.zeros(len(self.taken), dtype=bool))


def _tasks_on(placement: Placement) -> list[dict[str, int]]:
    """The tasks on each place, with their threads."""
    found: list[dict[str, int]] = [{} for _ in placement.slots]
    for task, counts in placement.counts.items():
        for position, threads in counts.items():
            found[position][task] = threads
    return found
