"""Which slots a mapping of so many may choose among: any free ones, node by node; what is bought comes in its order."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.estate import Slot
from scheduler.model.resources import Supply

Rooms = Mapping[str, tuple[Slot, ...]]  # the slots that each node offers, in the order of the supply


def rooms_of(supply: Supply, count: int) -> Rooms:
    """The slots to choose so many from: all free ones that others have no part of, no more than so many of a node.

    Where these are too few there is no choice: it is all of them, and the first that are to be bought.

    Raises
    ------
    InsufficientSlots
        There are not so many.
    """
    free = [slot for node in supply.free for slot in node.slots if slot not in supply.taken]
    found: dict[str, list[Slot]] = {}
    for slot in free if len(free) >= count else supply.slots(count):
        its = found.setdefault(slot.node, [])
        if len(its) < count:
            its.append(slot)
    return {name: tuple(its) for name, its in found.items()}


def gathered(rooms: Rooms, count: int) -> tuple[Slot, ...]:
    """So many slots on few nodes: the largest, until what is left fits on one, and then the first that has so many."""
    taken: dict[str, int] = {}
    left = count
    for largest in _largest_first(rooms):
        if len(rooms[largest]) >= left:
            taken[next(name for name, its in rooms.items() if name not in taken and len(its) >= left)] = left
            break
        taken[largest] = len(rooms[largest])
        left -= taken[largest]
    return tuple(slot for name, its in rooms.items() for slot in its[: taken.get(name, 0)])


def worth_a_look(rooms: Rooms, count: int) -> frozenset[str]:
    """Nodes among which a mapping to so many slots is as good as any: the largest, as many as can be of use.

    What is on one node may as well be on a larger one, and what is on two that one of them could take is no further
    apart there. So some best mapping is on the largest m nodes, and of any two of these takes more slots than the
    larger has: for sizes c1 ≥ c2 ≥ … that is c1 + 1 on the first two, c3 + 1 on the next two, and so on.
    """
    found: list[str] = []
    least = 0
    for name in _largest_first(rooms):
        least += len(rooms[found[-1]]) if len(found) % 2 else 1
        if least > count:
            break
        found.append(name)
    return frozenset(found)


def _largest_first(rooms: Rooms) -> list[str]:
    return sorted(rooms, key=lambda name: -len(rooms[name]))
