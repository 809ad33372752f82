"""Slots or nodes that a mapping chooses among, and what each has free: NumPy arrays that a search looks at at once."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np

from scheduler.model.resources import TOLERANCE

Cost = Callable[[np.ndarray, np.ndarray], np.ndarray]  # by free CPU and free memory of each candidate


def total_free(cpu: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """The cost of best fit: the fullest is the cheapest."""
    return cpu + memory


class Candidates:
    """Candidates by number, each with free CPU, free memory, and room: the most memory that one thread may take there.

    A slot's room is its free memory; a node's is that of its emptiest slot.
    """

    def __init__(self) -> None:
        self.count = 0
        self._free = np.empty((3, 16))  # rows: CPU, memory, room

    def add(self, cpu: float, memory: float, room: float) -> int:
        """One candidate more; its number."""
        if self.count == self._free.shape[1]:
            self._free = np.concatenate([self._free, np.empty_like(self._free)], axis=1)
        self.count += 1
        self.put(self.count - 1, cpu, memory, room)
        return self.count - 1

    def put(self, number: int, cpu: float, memory: float, room: float) -> None:
        """Set what a candidate has free now.

        Parameters
        ----------
        cpu : float
            CPU that it has free, as a part of a slot.
        memory : float
            Memory that it has free, as a part of a slot.
        room : float
            Memory that it has free in one piece, as a part of a slot.
        """
        free = self._free
        free[0, number], free[1, number], free[2, number] = cpu, memory, room

    def take(self, number: int, cpu: float, memory: float) -> None:
        """Take so much of what a slot has free."""
        free_cpu, free_memory, _ = self.free(number)
        self.put(number, free_cpu - cpu, free_memory - memory, free_memory - memory)

    def withdraw(self, number: int) -> None:
        """Choose this one no more."""
        self.put(number, -inf, -inf, -inf)

    def free(self, number: int) -> tuple[float, float, float]:
        """Free CPU, free memory and room of a candidate."""
        return tuple(self._free[:, number].tolist())

    def node_sums(self) -> tuple[float, float, float]:
        """Free CPU and memory of all slots of a node, and the room of the emptiest."""
        free = self._free[:, : self.count]
        cpu, memory, _ = free.sum(axis=1).tolist()
        return cpu, memory, float(free[2].max())

    def holds(self, number: int, cpu: float, memory: float) -> bool:
        """True if a candidate takes so much CPU and memory."""
        free = self._free
        return bool(free[0, number] >= cpu - TOLERANCE and free[2, number] >= memory - TOLERANCE)

    def cheapest(self, cpu: float, memory: float, cost: Cost = total_free, *, below: float = inf) -> tuple[float, int]:
        """The first of those with the least cost that take so much CPU and memory, with that cost.

        ``(below, -1)`` where none costs less than that.

        Parameters
        ----------
        cpu : float
            Part of a slot's CPU, 0 to 1.
        memory : float
            Part of a slot's memory, 0 to 1.
        below : float, optional
            Candidates from this cost on are left out; in the unit of ``cost``.
        """
        free = self._free[:, : self.count]
        fits = free[2] >= memory - TOLERANCE
        fits &= free[0] >= cpu - TOLERANCE
        numbers = fits.nonzero()[0]
        if not numbers.size:
            return below, -1
        costs = cost(free[0].take(numbers), free[1].take(numbers))
        best = int(costs.argmin())
        least = float(costs[best])
        return (least, int(numbers[best])) if least < below else (below, -1)

    def first_with_room(self, memory: float, *, start: int) -> int:
        """The first candidate from a number on, and round again from the beginning, with so much room; -1: none has."""
        least, room = memory - TOLERANCE, self._free[2]
        if room[start] >= least:
            return start
        for begin, end in ((start, self.count), (0, start)):
            fits = room[begin:end] >= least
            first_fit = int(fits.argmax()) if end > begin else 0
            if end > begin and fits[first_fit]:
                return begin + first_fit
        return -1
