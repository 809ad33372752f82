"""Slots in part use, on shelves by free CPU and in order of free memory: the fullest that still holds a bundle."""

from __future__ import annotations

from bisect import bisect_left, insort
from math import inf

from scheduler.model.resources import TOLERANCE

SHELVES = 64


class Shelves:
    """Finds the slot with the least free CPU and memory together, of those that have enough of both.

    A search looks up one place on each shelf and goes on from there no further than something better may stand: a few
    slots, however many there are.
    """

    def __init__(self) -> None:
        self._shelves: list[list[tuple[float, float, int]]] = [[] for _ in range(SHELVES + 1)]
        self._free: dict[int, tuple[float, float]] = {}

    def put(self, number: int, cpu: float, memory: float) -> None:
        """What a slot has free; it is new, or was put here before."""
        self.take_out(number)
        self._free[number] = (cpu, memory)
        insort(self._shelves[_level(cpu)], (memory, cpu, number))

    def take_out(self, number: int) -> None:
        """Forget a slot, if it is known."""
        if number in self._free:
            cpu, memory = self._free.pop(number)
            shelf = self._shelves[_level(cpu)]
            del shelf[bisect_left(shelf, (memory, cpu, number))]

    def add_to(self, number: int, cpu: float, memory: float) -> None:
        """Take so much of what a slot has free; one that is not known is empty."""
        free_cpu, free_memory = self._free.get(number, (1.0, 1.0))
        self.put(number, free_cpu - cpu, free_memory - memory)

    def holds(self, number: int, cpu: float, memory: float) -> bool:
        """Whether a known slot has so much free."""
        free = self._free.get(number)
        return free is not None and free[0] >= cpu - TOLERANCE and free[1] >= memory - TOLERANCE

    def fullest(self, cpu: float, memory: float) -> int:
        """The slot with the least free that has so much; of equals the first by number; -1 where none has."""
        best, found = inf, -1
        for level in range(_level(cpu - TOLERANCE), SHELVES + 1):
            shelf = self._shelves[level]
            if not shelf:
                continue
            least = max(level / SHELVES, cpu)  # free CPU of whatever here has enough
            if memory + least > best + 2 * TOLERANCE:
                break
            for at in range(bisect_left(shelf, (memory - TOLERANCE,)), len(shelf)):
                free_memory, free_cpu, number = shelf[at]
                if free_memory + least > best + TOLERANCE:
                    break
                total = free_memory + free_cpu
                if free_cpu >= cpu - TOLERANCE and (total < best or (total == best and number < found)):
                    best, found = total, number
        return found


def _level(cpu: float) -> int:
    return max(0, min(SHELVES, int(cpu * SHELVES)))
