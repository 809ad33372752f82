"""Placements: which slot runs which thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from .fragment import Slot
from .resources import TakenShare


@dataclass(frozen=True)
class Bound:
    """The distance of a placement from the best possible one: a value reached, and one that none can go below."""

    reached: float
    least: float
    proved: bool  # whether none is better

    @property
    def gap(self) -> float:
        """The difference, relative to what was reached."""
        return 0.0 if self.proved or not self.reached else (self.reached - self.least) / self.reached


@dataclass(frozen=True, slots=True)
class ThreadShortage:
    """More threads on a slot than its driver has, so that they take turns."""

    driver_threads: int
    placed: int

    def explanation(self, slot: str) -> str:
        """The explanation in words, with a remedy."""
        return (f"the driver of {slot} has {self.driver_threads} threads for the {self.placed} placed on it; "
                f"WEIR_SLOT_THREADS on {slot.rpartition('/')[0]} gives it more")


@dataclass(frozen=True)
class Placement:
    """Every thread's slot.

    ``slots`` are all that the mapping asked for, ``extra`` of them one by one beyond the ``allocated_slots``, which the
    allocation asked for, because the packing did not fit. ``threads`` has for each task a position in ``slots`` for
    each of its threads, which are its input's partitions in order. ``taken`` is what others take of some slots, by
    position. A schedule takes those that hold something; the others are ``empty`` then.
    """

    algorithm: str
    allocated_slots: int
    slots: tuple[Slot, ...]
    threads: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    taken: Mapping[int, TakenShare] = field(default_factory=dict)
    slots_bound: Bound | None = None
    traffic_bound: Bound | None = None  # events/s between nodes, every thread having its even part of a stream
    empty: tuple[Slot, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "threads", MappingProxyType(dict(self.threads)))

    @property
    def needed(self) -> int:
        """All slots that the mapping asked for, with those that hold nothing."""
        return len(self.slots) + len(self.empty)

    @property
    def extra(self) -> int:
        """Slots beyond what the allocation asked for."""
        return max(0, self.needed - self.allocated_slots)

    @cached_property
    def held(self) -> tuple[int, ...]:
        """The positions of the slots that hold something, in order."""
        return tuple(sorted({position for counts in self.counts.values() for position in counts}))

    @cached_property
    def counts(self) -> Mapping[str, Mapping[int, int]]:
        """The number of threads of a task on each slot, by task and the slot's position."""
        return {task: dict(Counter(positions)) for task, positions in self.threads.items()}

    def in_use(self) -> Placement:
        """The same on the slots alone that hold something."""
        number = {position: index for index, position in enumerate(self.held)}
        if len(number) == len(self.slots):
            return self
        return replace(
            self, slots=tuple(self.slots[position] for position in number),
            threads={task: tuple(number[position] for position in numbers) for task, numbers in self.threads.items()},
            taken={number[position]: taken for position, taken in self.taken.items() if position in number},
            empty=tuple(slot for position, slot in enumerate(self.slots) if position not in number))

    def slot_of(self, task: str, thread: int) -> Slot:
        """The slot of a thread."""
        return self.slots[self.threads[task][thread]]
