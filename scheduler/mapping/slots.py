"""The slots of a mapping under way: those asked for, then one more each time that nothing fits."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.allocation import Allocation
from scheduler.model.estate import Slot
from scheduler.model.placement import Placement
from scheduler.model.resources import Supply


class OpenSlots:
    """The first slots of a supply; `another` requests one more. What was placed stays where it is."""

    def __init__(self, allocation: Allocation, supply: Supply) -> None:
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

    def place(self, task: str, position: int, *, threads: int = 1) -> None:
        """Put the next threads of a task on a slot."""
        self.threads[task].extend([position] * threads)

    def placement(self, algorithm: str) -> Placement:
        """What came of it."""
        threads: Mapping[str, tuple[int, ...]] = {task: tuple(its) for task, its in self.threads.items()}
        return Placement(algorithm, self._allocation.slots, tuple(self.slots), threads)
