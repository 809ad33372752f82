"""Resource acquisition (paper [2], 7.1): which machines have the slots that a schedule needs, and what they cost.

The paper's rule buys the largest size while it fills up, then the smallest that holds the rest. The cheapest machines
are an integer program beside it: a covering knapsack, solved by dynamic programming.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler.model.fragment import Slot
from scheduler.model.prices import VmSize
from scheduler.model.resources import HOURS_PER_MONTH, Node, Supply

NANO = 1_000_000_000  # prices are compared in whole billionths, so that sums do not depend on their order


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
    """The machines of these slots of a supply, and their price.

    A slot that others have part of costs what they leave of it. New machines are the supply's ``machines``, which are
    bought whole; any other is the smallest that holds the slots that were asked for of it. So the first n slots of a
    supply without ``machines`` are bought by the paper's rule.

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, 7.1.
    """
    unused = Counter(slot.node for slot in empty)
    taken: dict[str, list[Slot]] = {}
    for slot in slots:
        taken.setdefault(slot.node, []).append(slot)
    machines = supply.machines_by_name()
    for name in unused.keys() & machines.keys():
        taken.setdefault(name, [])
    free = {node.name: node for node in supply.free}
    catalogue = supply.catalogue
    nodes, per_hour = [], 0.0
    for name, on_node in taken.items():
        if name in free:
            node = replace(free[name], slots=tuple(on_node))
            slot_hour = node.size.slot_hour if node.size else (catalogue.slot_hour if catalogue else 0.0)
            per_hour += slot_hour * sum(supply.taken_of(slot).rest for slot in on_node)
        else:
            assert catalogue is not None  # or there were not enough slots
            size = machines.get(name) or catalogue.smallest_with(len(on_node) + unused[name])
            node = Node(name, tuple(on_node), size=size, new=True)
            per_hour += size.hour
        nodes.append(node)
    return Acquisition(tuple(nodes), per_hour)


def cheapest_machines(slots: int, sizes: Sequence[VmSize]) -> tuple[VmSize, ...]:
    """The machines that cost least together for so many slots; of equally dear ones the fewest, largest first.

    The least price of k slots or more is the least, over all sizes, of its price and the least of what is left of k.
    """
    # Price and number of machines for each number of slots, and the size that is bought last.
    least: list[tuple[int, int]] = [(0, 0)]
    last: list[VmSize] = []
    prices = {size: round(size.hour * NANO) for size in sizes}
    for slot_count in range(1, slots + 1):
        options = []
        for size, price in prices.items():
            price_before, machines_before = least[max(0, slot_count - size.slots)]
            options.append((price_before + price, machines_before + 1, -size.slots, size))
        price, machines, _, size = min(options, key=lambda option: option[:3])
        least.append((price, machines))
        last.append(size)
    bought = []
    while slots > 0:
        bought.append(last[slots - 1])
        slots -= bought[-1].slots
    return tuple(sorted(bought, key=lambda size: (-size.slots, size.name)))
