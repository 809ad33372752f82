"""The slots that a mapping has requested: as many as were allocated, then one more each time that nothing fits."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.allocated import Allocation
from scheduler.model.errors import InvalidResources
from scheduler.model.fragment import Slot
from scheduler.model.placement import Placement
from scheduler.model.resources import TOLERANCE, Supply


class OpenSlots:
    """The first slots of a supply; `another` requests one more. What was placed stays where it is.

    Raises ``InvalidResources`` where a bundle needs more than a slot has: no number of slots would do.
    """

    def __init__(self, allocation: Allocation, supply: Supply) -> None:
        _require_that_slots_hold(allocation)
        self._allocation, self._supply = allocation, supply
        self.slots: list[Slot] = list(supply.slots(allocation.slots))
        self._ahead: list[Slot] = []
        self.threads: dict[str, list[int]] = {task: [] for task in allocation.tasks}

    def another(self) -> int:
        """One slot more: its position; ``InsufficientSlots`` where there is none."""
        position = len(self.slots)
        if position >= len(self._ahead):
            self._supply.require(position + 1)
            # Twice as many are looked up each time, so that one at a time stays cheap.
            self._ahead = list(self._supply.slots(int(min(2 * position + 1, self._supply.most))))
        self.slots.append(self._ahead[position])
        return position

    def free(self, position: int) -> tuple[float, float]:
        """CPU and memory of a slot that others do not take."""
        taken = self._supply.taken_of(self.slots[position])
        return 1.0 - taken.cpu, 1.0 - taken.memory

    def place(self, task: str, position: int, *, threads: int = 1) -> None:
        """Put the next threads of a task on a slot."""
        self.threads[task].extend([position] * threads)

    def placement(self, algorithm: str, *, lends_cpu: bool = False) -> Placement:
        """The placement of all threads so far.

        Slots that others have part of and in which nothing fitted are left out, unless they lend CPU to their node.
        """
        shared = {position for position, slot in enumerate(self.slots) if slot in self._supply.taken}
        left_out = set() if lends_cpu else shared.difference(*self.threads.values())
        remaining = [position for position in range(len(self.slots)) if position not in left_out]
        number = {position: index for index, position in enumerate(remaining)}
        threads: Mapping[str, tuple[int, ...]] = {
            task: tuple(number[position] for position in positions) for task, positions in self.threads.items()}
        return Placement(
            algorithm, self._allocation.slots, tuple(self.slots[position] for position in remaining), threads,
            {number[position]: self._supply.taken_of(self.slots[position]) for position in sorted(shared - left_out)})


def _require_that_slots_hold(allocation: Allocation) -> None:
    for name, task in allocation.tasks.items():
        for bundle in task.bundles:
            if max(bundle.cpu, bundle.memory) > 1.0 + TOLERANCE:
                raise InvalidResources(
                    f"{bundle.threads} thread{'s' * (bundle.threads > 1)} of {name} would take {bundle.cpu:.0%} of a "
                    f"slot's CPU and {bundle.memory:.0%} of its memory",
                    remedy="Measure its type again, or correct its profile.", task=name)
