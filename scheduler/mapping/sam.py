"""Slot-Aware Mapping (SAM): full bundles on slots of their own, others where they fit (paper [2], Algorithm 6)."""

from __future__ import annotations

from scheduler.model.allocation import Allocation, Bundle
from scheduler.model.placement import Placement
from scheduler.model.resources import Supply

from .best_fit import BestFit
from .slots import OpenSlots

CLOSED = (-1.0, -1.0, -1.0)  # free in a slot that takes nothing more, not even what needs nothing


def map_sam(allocation: Allocation, *, supply: Supply) -> Placement:
    """Slot-Aware Mapping (SAM): a slot's threads are of one task wherever a bundle fills it.

    Which bundles are full is the allocation's to say. The published algorithm goes by the number of threads instead,
    and so gives a slot to every single thread of a task that does best with one, however little it has to do; the
    published slot counts are not those of that reading. Bundles of LSA are single threads, none of them full.

    Parameters
    ----------
    allocation : Allocation
        Bundles of each task, upstream tasks first.
    supply : Supply
        Where slots come from.

    Returns
    -------
    Placement
        Every thread placed once, every bundle whole, no slot over its CPU or memory, none shared with a full bundle.
        One more slot is requested where a bundle fits none.

    Raises
    ------
    InsufficientSlots
        More slots are needed than there are.

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, Algorithm 6.
    """
    state = OpenSlots(allocation, supply)
    bins = BestFit()
    for _ in state.slots:
        bins.add(1.0, 1.0, 1.0)
    full = {name: sum(one.count for one in task.bundles if one.full) for name, task in allocation.tasks.items()}
    untouched = 0  # slots before it have something; those from it on are empty
    waiting = list(allocation.tasks)
    while waiting:
        for name in waiting:
            if full[name]:
                bundle = next(one for one in allocation.tasks[name].bundles if one.full)
                position = untouched if untouched < bins.count else _another(state, bins)
                bins.put(position, *CLOSED)
                state.place(name, position, threads=bundle.threads)
                untouched = max(untouched, position + 1)
                full[name] -= 1
                continue
            for bundle in allocation.tasks[name].bundles:
                position = -1
                for _ in range(0 if bundle.full else bundle.count):
                    position = _best_fit(bundle, state, bins, last=position)
                    state.place(name, position, threads=bundle.threads)
                    untouched = max(untouched, position + 1)
            full[name] = -1
        waiting = [name for name in waiting if full[name] >= 0]
    return state.placement("SAM")


def _best_fit(bundle: Bundle, state: OpenSlots, bins: BestFit, *, last: int) -> int:
    """Take up a bundle in the slot with the least free CPU and memory, together, of those that have enough of both.

    The slot that took its like the ``last`` time is that slot again while it has enough: it has still less free.
    """
    position = last if last >= 0 and bins.holds(last, bundle.cpu, bundle.memory) else -1
    if position < 0:
        _, position = bins.cheapest(bundle.cpu, bundle.memory, lambda cpu, memory: cpu + memory)
    if position < 0:
        position = _another(state, bins)
    cpu, memory, _ = bins.free(position)
    bins.put(position, cpu - bundle.cpu, memory - bundle.memory, memory - bundle.memory)
    return position


def _another(state: OpenSlots, bins: BestFit) -> int:
    state.another()
    return bins.add(1.0, 1.0, 1.0)
