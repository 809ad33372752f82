"""Resources: machines with slots, the catalogue of sizes that can be bought, and the slots that a schedule may use."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .checks import is_between, is_count
from .errors import InsufficientSlots, InvalidResources
from .fragment import Slot
from .prices import VmSize

HOURS_PER_MONTH = 730.0
TOLERANCE = 1e-9  # of a slot: less than this is rounding, not load


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The sizes of machine that can be bought, smallest first; a slot is one core with its share of the memory.

    ``slot_hour`` is what a slot costs for an hour on a node that is there already and has no size.
    """

    sizes: tuple[VmSize, ...]
    currency: str = "USD"
    slot_hour: float = 0.0

    def __post_init__(self) -> None:
        names = [size.name for size in self.sizes]
        if not names:
            raise InvalidResources("The catalogue has no size", remedy="Give one: name, slots, price per hour.")
        for size in self.sizes:
            if not is_count(size.slots):
                raise InvalidResources(
                    f"Size {size.name} has {size.slots} slots", remedy="Give it a whole number of slots from 1.",
                    size=size.name, slots=size.slots,
                )
            _require_price(size.hour, f"Size {size.name} costs {size.hour} for an hour", size=size.name)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidResources(f"Size {twice} is there twice", remedy="Name each size once.", size=twice)
        _require_price(self.slot_hour, f"A slot costs {self.slot_hour} for an hour")
        in_order = sorted(self.sizes, key=lambda size: (size.slots, size.hour, size.name))
        object.__setattr__(self, "sizes", tuple(in_order))

    @property
    def largest(self) -> VmSize:
        """The size with the most slots; the cheapest of them."""
        most = self.sizes[-1].slots
        return next(size for size in self.sizes if size.slots == most)

    def smallest_with(self, slots: int) -> VmSize:
        """The smallest size with so many slots, at most the largest's."""
        return next(size for size in self.sizes if size.slots >= slots)


@dataclass(frozen=True, slots=True)
class Node:
    """A machine and those of its slots that a schedule may use.

    ``size``: None for a machine that is in no catalogue. ``new``: it would have to be bought, and the plan names it.
    """

    name: str
    slots: tuple[Slot, ...]
    size: VmSize | None = None
    rack: str = ""
    new: bool = False


@dataclass(frozen=True, slots=True)
class TakenShare:
    """Shares of a slot's CPU and memory that others are expected to take, and how many queries they have there."""

    cpu: float = 0.0
    memory: float = 0.0
    queries: int = 0

    @property
    def rest(self) -> float:
        """The remainder of the slot: of the scarcer of both."""
        return max(0.0, 1.0 - max(self.cpu, self.memory))


NOTHING_TAKEN = TakenShare()


@dataclass(frozen=True, slots=True)
class Supply:
    """The source of slots: those that are free, in order, then machines bought from the catalogue.

    A schedule of n slots takes the first n; with one slot more it keeps those.

    Parameters
    ----------
    free : tuple of Node
        Machines with the slots that may be used, each slot once.
    catalogue : Catalogue, optional
        Sizes of machine that may be bought; without it there are no more slots than the free ones.
    new_names : str
        The names of machines to buy: this, and a number.
    machines : tuple of VmSize
        Sizes of the first machines to buy. Any others are of the largest size while they fill up, and the smallest that
        holds the rest.
    taken : mapping of Slot to TakenShare
        The part that others take of some free slots, which come last among them.
    threads : mapping of str to int
        By node, how many threads the driver of each of its slots has, for all its queries together. Nothing is known of
        a node that is absent: it has not reported, or is to be bought.
    """

    free: tuple[Node, ...] = ()
    catalogue: Catalogue | None = None
    new_names: str = "new"
    machines: tuple[VmSize, ...] = ()
    taken: Mapping[Slot, TakenShare] = field(default_factory=dict)
    threads: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.catalogue is None and not any(node.slots for node in self.free):
            raise InvalidResources(
                "There are 0 slots to schedule on", remedy="Give free slots, or machines to buy.", slots=0)
        listed = [slot.name for node in self.free for slot in node.slots]
        if len(set(listed)) < len(listed):
            twice = next(name for name, count in Counter(listed).items() if count > 1)
            raise InvalidResources(f"Slot {twice} is listed twice", remedy="List each slot once.", slot=twice)

    def taken_of(self, slot: Slot) -> TakenShare:
        """The part of a slot that others take."""
        return self.taken.get(slot, NOTHING_TAKEN)

    @property
    def most(self) -> float:
        """The largest possible number of slots."""
        return math.inf if self.catalogue else sum(len(node.slots) for node in self.free)

    def slots(self, count: int) -> tuple[Slot, ...]:
        """The first ``count`` slots; ``InsufficientSlots`` where there are fewer."""
        self.require(count)
        free = [slot for node in self.free for slot in node.slots]
        first = sorted(free, key=self.taken.__contains__)[:count] if self.taken else free[:count]
        return (*first, *itertools.islice(self.bought(), count - len(first))) if len(first) < count else tuple(first)

    def require(self, count: int) -> None:
        """Raise ``InsufficientSlots`` where there cannot be so many."""
        if count > self.most:
            raise InsufficientSlots(
                f"{count} slots are needed and {self.most:g} are there",
                remedy="Free some slots, give a catalogue of machines to buy, or plan for a lower rate.",
                needed=count, available=self.most,
            )

    def bought(self) -> Iterator[Slot]:
        """The slots of machines to buy, without end."""
        assert self.catalogue is not None
        sizes = itertools.chain(self.machines, itertools.repeat(self.catalogue.largest))
        for name, size in zip(self._new_names(), sizes, strict=False):
            yield from (Slot(name, index) for index in range(size.slots))

    def machines_by_name(self) -> dict[str, VmSize]:
        """The sizes of ``machines``, by their names."""
        return dict(zip(self._new_names(), self.machines, strict=False)) if self.machines else {}

    def _new_names(self) -> Iterator[str]:
        taken = {node.name for node in self.free}.union(self.threads)  # one that is there may be named like a new one
        names = (f"{self.new_names}-{number}" for number in itertools.count(1))
        return (name for name in names if name not in taken)


def _require_price(price: float, message: str, **facts: object) -> None:
    if not is_between(price, 0):
        raise InvalidResources(message, remedy="Give a price from 0.", price=price, **facts)
