"""Eligible slots: those that a mapping to so many slots may choose among, by node."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.fragment import Slot
from scheduler.model.resources import Supply

Eligible = Mapping[str, tuple[Slot, ...]]  # the slots that each node offers, in the order of the supply


def eligible_slots(supply: Supply, count: int) -> Eligible:
    """The slots to choose ``count`` slots from: free ones without queries of others, at most ``count`` of a node.

    If there are too few, it is all free slots, then the first slots of machines to buy.
    """
    free = [slot for node in supply.free for slot in node.slots if slot not in supply.taken]
    by_node: dict[str, list[Slot]] = {}
    for slot in free if len(free) >= count else supply.slots(count):
        slots = by_node.setdefault(slot.node, [])
        if len(slots) < count:
            slots.append(slot)
    return {node: tuple(slots) for node, slots in by_node.items()}


def on_few_nodes(eligible: Eligible, count: int) -> tuple[Slot, ...]:
    """The slots for a number of threads on few nodes: the largest nodes, until the first node that has as many as are
    left."""
    taken: dict[str, int] = {}
    remaining_slots = count
    for largest in _largest_first(eligible):
        if len(eligible[largest]) >= remaining_slots:
            fitting = next(
                node for node, slots in eligible.items() if node not in taken and len(slots) >= remaining_slots)
            taken[fitting] = remaining_slots
            break
        taken[largest] = len(eligible[largest])
        remaining_slots -= taken[largest]
    return tuple(slot for node, slots in eligible.items() for slot in slots[: taken.get(node, 0)])


def useful_nodes(eligible: Eligible, count: int) -> frozenset[str]:
    """The nodes that are enough for a best mapping to so many slots: the largest, as many as can be of use.

    Bundles on one node may as well be on a larger one, and bundles on two nodes that fit on one of them are no further
    apart there. So some best mapping is on the largest m nodes, and of any two of these takes more slots than the
    larger has: for sizes c1 ≥ c2 ≥ … that is c1 + 1 on the first two, c3 + 1 on the next two, and so on.
    """
    useful: list[str] = []
    least = 0
    for node in _largest_first(eligible):
        least += len(eligible[useful[-1]]) if len(useful) % 2 else 1
        if least > count:
            break
        useful.append(node)
    return frozenset(useful)


def _largest_first(eligible: Eligible) -> list[str]:
    return sorted(eligible, key=lambda node: -len(eligible[node]))
