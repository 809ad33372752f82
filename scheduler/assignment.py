"""Assign a schedule's slots to physical slots, keeping as many running bundles in place as possible.

A linear sum assignment problem: the value of a slot is what its bundles gain by staying there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .mapping.traffic import Streams, on_other_slots
from .model.errors import NotEnactable
from .model.fragment import RunningBundle, Slot, node_of
from .model.placement import Placement
from .model.resources import Supply

# The value of a bundle that stays on its slot, with its threads or with others, or that stays on its node.
SAME_THREADS, OTHER_THREADS, SAME_NODE = 1000, 600, 10
AS_MAPPED = 1  # the value of a slot that is the mapping's own choice: it decides only where nothing else does


@dataclass(frozen=True)
class SlotAssigner:
    """Puts what a mapping placed on other slots, such that most bundles stay where they are.

    Slots are alike, so a mapping's choice among them is arbitrary but for their nodes; a slot that others have part of
    is not exchanged. The assignment of the highest value is found exactly. One assigner does for all pairs of a
    comparison.

    Parameters
    ----------
    pinned : mapping of str to str
        The node of each task that cannot leave it, for its state or for the order of its events.
    supply : Supply
        The slots that it may use; the mapping chose the first of them.
    """

    running: Mapping[str, Sequence[RunningBundle]]
    pinned: Mapping[str, str]
    supply: Supply

    def __call__(self, placement: Placement, streams: Streams) -> Placement:
        """The placement on the assigned slots; a placement that needs machines to buy is returned as it is.

        Raises
        ------
        NotEnactable
            Tasks that are pinned to different nodes share a slot, or a node has too few slots for those pinned to it.
        """
        if not self.running or self._buys(placement):
            return placement
        offered = self._offered(placement)
        slots = [offered[number] for number in self._assigned(placement, offered)]
        return on_other_slots(placement, slots, streams)

    def _buys(self, placement: Placement) -> bool:
        """True if it takes more slots than there are. A slot that it shares with others counts as there."""
        return sum(slot not in self.supply.taken for slot in placement.slots) > self._free_slots

    @cached_property
    def _free_slots(self) -> int:
        return sum(slot not in self.supply.taken for node in self.supply.free for slot in node.slots)

    @cached_property
    def _threads_on(self) -> dict[str, dict[str, int]]:
        """Threads by task and slot name, of the bundles that do not leave."""
        return {
            task: {bundle.slot: bundle.threads for bundle in bundles if not bundle.leaving}
            for task, bundles in self.running.items()}

    @cached_property
    def _nodes_of(self) -> dict[str, frozenset[str]]:
        """The nodes of these slots, by task."""
        return {task: frozenset(map(node_of, slots)) for task, slots in self._threads_on.items()}

    @cached_property
    def _in_use(self) -> frozenset[Slot]:
        """The slots that something of the dataflow runs on."""
        names = {bundle.slot for bundles in self.running.values() for bundle in bundles}
        return frozenset(slot for node in self.supply.free for slot in node.slots if slot.name in names)

    def _offered(self, placement: Placement) -> list[Slot]:
        """The slots in use and as many others of each node as the placement has slots: no more can be of use."""
        needed_slots = self._in_use.union(placement.slots)
        offered = []
        for node in self.supply.free:
            spare = len(placement.slots)  # of every node: tasks that are pinned to one need slots there
            for slot in node.slots:
                if slot in needed_slots:
                    offered.append(slot)
                elif spare and slot not in self.supply.taken:
                    offered.append(slot)
                    spare -= 1
        return offered

    def _assigned(self, placement: Placement, offered: Sequence[Slot]) -> list[int]:
        """The number of an offered slot for each slot of the placement; empty positions make the problem square."""
        # Here, not above: the import takes a moment, and only a schedule of what runs already needs it.
        from ortools.graph.python import linear_sum_assignment

        solver = linear_sum_assignment.SimpleLinearSumAssignment()
        tasks_on = _tasks_on(placement)
        offer = _Offer(offered, taken=np.array([slot in self.supply.taken for slot in offered]))
        values: dict[tuple[str, int], np.ndarray] = {}
        possible = 0  # the solver fails on a position without any possible slot: it must not be asked then
        for position, tasks in enumerate(tasks_on):
            unchanged = offer.is_slot(placement.slots[position])
            numbers = np.flatnonzero(self._allowed(tasks, offer, unchanged))
            value = AS_MAPPED * unchanged.astype(np.int64)
            for task, threads in tasks.items():
                if (task, threads) not in values:
                    values[task, threads] = self._value(task, threads, offer)
                value += values[task, threads]
            solver.add_arcs_with_cost(np.full(len(numbers), position), numbers, -value[numbers])
            possible += bool(len(numbers))
        empty, numbers = np.divmod(np.arange((len(offered) - len(tasks_on)) * len(offered)), len(offered))
        solver.add_arcs_with_cost(empty + len(tasks_on), numbers, np.zeros(len(numbers), dtype=np.int64))
        if possible < len(tasks_on) or solver.solve() != solver.OPTIMAL:
            pinned = sorted({f"{task} to {node}" for task, node in self.pinned.items()})
            raise NotEnactable(
                f"The schedule moves what cannot leave its node while it runs ({', '.join(pinned[:5])})",
                remedy="Choose another pair, or remove the dataflow and submit it again with this schedule.",
                tasks=sorted(self.pinned),
            )
        return [solver.right_mate(position) for position in range(len(tasks_on))]

    def _allowed(self, tasks: Mapping[str, int], offer: _Offer, unchanged: np.ndarray) -> np.ndarray:
        """The offered slots that these tasks may be on; ``unchanged`` is the one that the mapping chose."""
        if not tasks:
            allowed = np.ones_like(unchanged)
        elif (unchanged & offer.taken).any():
            allowed = unchanged.copy()
        else:
            allowed = ~offer.taken
        for node in {self.pinned[task] for task in tasks if task in self.pinned}:
            allowed &= offer.on_node(node)
        return allowed

    def _value(self, task: str, threads: int, offer: _Offer) -> np.ndarray:
        """The value of each of the offered slots for so many threads of a task."""
        value = np.zeros(len(offer.taken), dtype=np.int64)
        for node in self._nodes_of.get(task, ()):
            value[offer.on_node(node)] += SAME_NODE
        for slot, running in self._threads_on.get(task, {}).items():
            if slot in offer.numbers:
                value[offer.numbers[slot]] += SAME_THREADS if running == threads else OTHER_THREADS
        return value


class _Offer:
    """The slots that may be assigned, by number; ``taken`` marks those that others have part of."""

    def __init__(self, slots: Sequence[Slot], *, taken: np.ndarray) -> None:
        self.taken = taken
        self._numbers = np.arange(len(slots))
        self.numbers = {slot.name: number for number, slot in enumerate(slots)}
        nodes = np.array([slot.node for slot in slots])
        self._on_node = {node: nodes == node for node in dict.fromkeys(slot.node for slot in slots)}

    def is_slot(self, slot: Slot) -> np.ndarray:
        """Marks this slot, if it is offered."""
        return self._numbers == self.numbers.get(slot.name, -1)

    def on_node(self, node: str) -> np.ndarray:
        """Marks the slots of a node."""
        return self._on_node.get(node, np.zeros(len(self.taken), dtype=bool))


def _tasks_on(placement: Placement) -> list[dict[str, int]]:
    """Threads by task, for each slot of the placement."""
    tasks_on: list[dict[str, int]] = [{} for _ in placement.slots]
    for task, counts in placement.counts.items():
        for position, threads in counts.items():
            tasks_on[position][task] = threads
    return tasks_on
