"""The slots of one node in a search tree: what all have free together, and the first that has memory enough."""

from __future__ import annotations

from math import inf

from scheduler.model.resources import TOLERANCE


class NodeRoom:
    """A node's slots by number, each with free CPU and memory. Whatever changes takes O(log n).

    An inner node of the tree knows the sums of its slots and the most memory that one of them has. Sums are always of
    what is free now: nothing adds up over time, so nodes that are alike remain alike.
    """

    def __init__(self) -> None:
        self.count = 0
        self._size = 1
        self._cpu, self._memory, self._most = [0.0] * 2, [0.0] * 2, [-inf] * 2

    @property
    def cpu(self) -> float:
        """Free CPU of all slots."""
        return self._cpu[1]

    @property
    def memory(self) -> float:
        """Free memory of all slots."""
        return self._memory[1]

    @property
    def most(self) -> float:
        """Free memory of the slot that has most."""
        return self._most[1]

    def add(self, cpu: float, memory: float) -> None:
        """One slot more."""
        if self.count == self._size:
            self._grow()
        self.count += 1
        self._put(self.count - 1, cpu, memory)

    def take(self, number: int, cpu: float, memory: float) -> None:
        """Take so much of what a slot has free; of CPU it may have less than that."""
        at = self._size + number
        self._put(number, self._cpu[at] - cpu, self._memory[at] - memory)

    def holds(self, number: int, memory: float) -> bool:
        """Whether a slot has so much memory free."""
        return self._most[self._size + number] >= memory - TOLERANCE

    def first_with(self, memory: float) -> int:
        """The first slot that has so much memory free; there is one."""
        least, at, most = memory - TOLERANCE, 1, self._most
        while at < self._size:
            at = 2 * at if most[2 * at] >= least else 2 * at + 1
        return at - self._size

    def _put(self, number: int, cpu: float, memory: float) -> None:
        sum_cpu, sum_memory, most = self._cpu, self._memory, self._most
        at = self._size + number
        sum_cpu[at], sum_memory[at], most[at] = cpu, memory, memory
        at >>= 1
        while at:
            left, right = 2 * at, 2 * at + 1
            sum_cpu[at] = sum_cpu[left] + sum_cpu[right]
            sum_memory[at] = sum_memory[left] + sum_memory[right]
            most[at] = most[left] if most[left] > most[right] else most[right]
            at >>= 1

    def _grow(self) -> None:
        free = [(self._cpu[at], self._memory[at]) for at in range(self._size, self._size + self.count)]
        self._size *= 2
        self._cpu, self._memory = [0.0] * (2 * self._size), [0.0] * (2 * self._size)
        self._most = [-inf] * (2 * self._size)
        for number, its in enumerate(free):
            self._put(number, *its)
