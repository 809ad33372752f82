"""Allocations: how many threads each task gets, in which bundles, and what these take of slots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .checks import is_between, is_count
from .errors import InvalidResources
from .resources import TOLERANCE


@dataclass(frozen=True, slots=True)
class Bundle:
    """Threads of one task that are planned to share a slot, ``count`` times over.

    CPU and memory are shares of a slot, of one such bundle at its planned rate. A ``full`` one has a slot to itself:
    the task can make no use of what is left of it, so the whole slot counts.
    """

    task: str
    threads: int
    rate_per_s: float
    cpu: float
    memory: float
    full: bool = False
    count: int = 1

    def __post_init__(self) -> None:
        needs = self.rate_per_s, self.cpu, self.memory
        if not (is_count(self.threads) and is_count(self.count) and all(is_between(need, 0) for need in needs)):
            raise InvalidResources(
                f"A bundle of {self.task} has {self.threads} threads, {self.rate_per_s} events/s, {self.cpu} of a "
                f"slot's CPU and {self.memory} of its memory, {self.count} times over",
                remedy="Give whole numbers of threads and bundles from 1, and a rate and shares from 0.",
                task=self.task)


@dataclass(frozen=True, slots=True)
class TaskAllocation:
    """One task's bundles, full ones first, and the rate that they are planned for together."""

    task: str
    rate_per_s: float
    bundles: tuple[Bundle, ...]

    @property
    def threads(self) -> int:
        """All threads of the task (τ): the partitions of its input."""
        return sum(bundle.threads * bundle.count for bundle in self.bundles)

    @property
    def cpu(self) -> float:
        """Slots' worth of CPU."""
        return sum(bundle.cpu * bundle.count for bundle in self.bundles)

    @property
    def memory(self) -> float:
        """Slots' worth of memory."""
        return sum(bundle.memory * bundle.count for bundle in self.bundles)


@dataclass(frozen=True)
class Allocation:
    """The allocation of every task, upstream tasks first.

    ``algorithm`` says who made it.
    """

    algorithm: str
    tasks: Mapping[str, TaskAllocation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", MappingProxyType(dict(self.tasks)))

    @property
    def threads(self) -> int:
        """All threads."""
        return sum(task.threads for task in self.tasks.values())

    @property
    def cpu(self) -> float:
        """Slots' worth of CPU, of all tasks."""
        return math.fsum(task.cpu for task in self.tasks.values())

    @property
    def memory(self) -> float:
        """Slots' worth of memory, of all tasks."""
        return math.fsum(task.memory for task in self.tasks.values())

    @property
    def slots(self) -> int:
        """ρ: as many slots as all CPU or all memory fills, whichever is more."""
        return max(math.ceil(self.cpu - TOLERANCE), math.ceil(self.memory - TOLERANCE), 1)
