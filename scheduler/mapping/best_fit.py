"""A search tree over bins in order, with free CPU and memory: the nearest or the next fit without looking at all."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from scheduler.model.resources import TOLERANCE

Cost = Callable[[float, float], float]


class BestFit:
    """Bins by number, each with free CPU, free memory and room: the most memory that one thing put there may take.

    A slot's room is its free memory; a node's is that of its emptiest slot. An inner node of the tree knows the most
    and the least of its bins, so that a search leaves out whole ranges in which nothing fits or nothing is nearer.
    Changing a bin takes O(log n); a search O(log n) where bins in a row are alike, and never more than all bins.
    """

    def __init__(self) -> None:
        self.count = 0
        self._size = 2
        self._most_cpu, self._room = [-inf] * 4, [-inf] * 4
        self._least_cpu, self._least_memory = [inf] * 4, [inf] * 4

    def add(self, cpu: float, memory: float, room: float) -> int:
        """One bin more; its number."""
        if self.count == self._size:
            self._grow()
        self.count += 1
        self.put(self.count - 1, cpu, memory, room)
        return self.count - 1

    def put(self, number: int, cpu: float, memory: float, room: float) -> None:
        """What a bin has free now."""
        most, room_of, least, least_memory = self._most_cpu, self._room, self._least_cpu, self._least_memory
        at = self._size + number
        most[at] = least[at] = cpu
        least_memory[at], room_of[at] = memory, room
        at >>= 1
        while at:
            left = 2 * at
            right = left + 1
            most[at] = most[left] if most[left] > most[right] else most[right]
            room_of[at] = room_of[left] if room_of[left] > room_of[right] else room_of[right]
            least[at] = least[left] if least[left] < least[right] else least[right]
            least_memory[at] = (
                least_memory[left] if least_memory[left] < least_memory[right] else least_memory[right])
            at >>= 1

    def free(self, number: int) -> tuple[float, float, float]:
        """Free CPU, free memory and room of a bin."""
        at = self._size + number
        return self._most_cpu[at], self._least_memory[at], self._room[at]

    def holds(self, number: int, cpu: float, memory: float) -> bool:
        """Whether a bin takes so much CPU and memory."""
        at = self._size + number
        return self._most_cpu[at] >= cpu - TOLERANCE and self._room[at] >= memory - TOLERANCE

    def cheapest(self, cpu: float, memory: float, cost: Cost, *, below: float = inf) -> tuple[float, int]:
        """The bin that takes so much CPU and memory and whose ``cost(free CPU, free memory)`` is least.

        The cost must not fall as either grows. Of equals the first; (``below``, -1) where none costs less than that.
        """
        cpu, memory = cpu - TOLERANCE, memory - TOLERANCE
        most, room_of, least, least_memory = self._most_cpu, self._room, self._least_cpu, self._least_memory
        best, found, size = below, -1, self._size
        waiting = [(-inf, 1, 0, size)]  # bound, inner node, its first bin, how many it has
        while waiting:
            bound, at, first, span = waiting.pop()
            if bound > best or (bound == best and first >= found):
                continue
            if span == 1:
                best, found = bound, first
                continue
            span //= 2
            children = []
            for child, first_of in ((2 * at + 1, first + span), (2 * at, first)):
                if most[child] >= cpu and room_of[child] >= memory:
                    free_cpu, free_memory = least[child], least_memory[child]
                    bound = cost(free_cpu if free_cpu > cpu else cpu, free_memory if free_memory > memory else memory)
                    children.append((bound, child, first_of, span))
            if len(children) == 2 and children[0][0] < children[1][0]:
                children.reverse()  # the more promising one is looked at first; of equals the left one
            waiting.extend(children)
        return best, found

    def first_with_room(self, memory: float, *, start: int) -> int:
        """The first bin from a number on, and round again from the beginning, with so much room; -1 where none has."""
        found = self._first(memory - TOLERANCE, start)
        return found if found >= 0 or start == 0 else self._first(memory - TOLERANCE, 0)

    def _first(self, memory: float, start: int) -> int:
        room_of, at = self._room, self._size + start
        # Up while nothing to the right has it, then down to the first that does.
        while room_of[at] < memory:
            while at & 1:
                at >>= 1
            if at == 0:
                return -1
            at += 1
        while at < self._size:
            at = 2 * at if room_of[2 * at] >= memory else 2 * at + 1
        return at - self._size

    def _grow(self) -> None:
        bins = [self.free(number) for number in range(self.count)]
        self._size *= 2
        for name, empty in (("_most_cpu", -inf), ("_room", -inf), ("_least_cpu", inf), ("_least_memory", inf)):
            setattr(self, name, [empty] * (2 * self._size))
        for number, free in enumerate(bins):
            self.put(number, *free)
