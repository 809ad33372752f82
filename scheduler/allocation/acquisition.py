"""Resource acquisition (paper [2], 7.1): which machines have the slots that a schedule needs, and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler.model.estate import Slot
from scheduler.model.resources import HOURS_PER_MONTH, Node, Supply


@dataclass(frozen=True, slots=True)
class Acquisition:
    """The nodes of a schedule with the slots that it takes there: free ones first, then new machines, largest first."""

    nodes: tuple[Node, ...]
    per_hour: float  # new machines whole, slots of others by the slot

    @property
    def per_month(self) -> float:
        """The price of 730 hours."""
        return self.per_hour * HOURS_PER_MONTH

    @property
    def bought(self) -> tuple[Node, ...]:
        """Machines that are not there yet."""
        return tuple(node for node in self.nodes if node.new)


def acquisition_of(slots: Sequence[Slot], *, supply: Supply, empty: Sequence[Slot] = ()) -> Acquisition:
    """The machines of these slots of a supply; of a slot that others have part of, what is left of it costs.

    Of the first n slots of `Supply.slots` these are the free ones, the largest size while it fills up, and the smallest
    that holds the rest. A machine to buy has what was asked for of it, with slots that are left ``empty``.

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, 7.1.
    """
    unused = Counter(slot.node for slot in empty)
    taken: dict[str, list] = {}
    for slot in slots:
        taken.setdefault(slot.node, []).append(slot)
    there = {node.name: node for node in supply.free}
    catalogue = supply.catalogue
    nodes, per_hour = [], 0.0
    for name, its in taken.items():
        if name in there:
            node = replace(there[name], slots=tuple(its))
            slot_hour = node.size.slot_hour if node.size else (catalogue.slot_hour if catalogue else 0.0)
            per_hour += slot_hour * sum(supply.taken_of(slot).rest for slot in its)
        else:
            assert catalogue is not None  # or there were not enough slots
            size = catalogue.smallest_with(len(its) + unused[name])
            node = Node(name, tuple(its), size=size, new=True)
            per_hour += size.hour
        nodes.append(node)
    return Acquisition(tuple(nodes), per_hour)
