"""Slot-Aware Mapping (SAM): full bundles on slots of their own, others where they fit (paper [2], Algorithm 6)."""

from __future__ import annotations

from scheduler.model.allocated import Allocation
from scheduler.model.placement import Placement
from scheduler.model.resources import Supply

from .candidates import Candidates
from .requested_slots import OpenSlots


def map_sam(allocation: Allocation, *, supply: Supply) -> Placement:
    """Slot-Aware Mapping (SAM): a slot's threads are of one task wherever a bundle fills it.

    Which bundles are full is the allocation's to say. The published algorithm goes by the number of threads instead,
    and so gives a slot to every single thread of a task that does best with one, however little it has to do; the
    published slot counts are not those of that reading. Bundles of LSA are single threads, none of them full.

    Parameters
    ----------
    allocation : Allocation
        Bundles of each task, upstream tasks first.

    Returns
    -------
    Placement
        Every thread placed once, every bundle whole, no slot over its CPU or memory, none shared with a full bundle.
        One more slot is requested where a bundle fits none.

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, Algorithm 6.
    """
    state, begun = OpenSlots(allocation, supply), Candidates()
    full = {name: sum(bundle.count for bundle in task.bundles if bundle.full)
            for name, task in allocation.tasks.items()}
    waiting = list(allocation.tasks)
    while waiting:
        for name in waiting:
            bundles = allocation.tasks[name].bundles
            if full[name]:
                threads = next(bundle.threads for bundle in bundles if bundle.full)
                state.place(name, _begin_empty(state, begun), threads=threads)
                full[name] -= 1
                continue
            for bundle in bundles:
                position = -1
                for _ in range(0 if bundle.full else bundle.count):
                    # The slot that took its like before is the fullest again, as long as it has enough.
                    if position < 0 or not begun.holds(position, bundle.cpu, bundle.memory):
                        _, position = begun.cheapest(bundle.cpu, bundle.memory)
                    while position < 0:
                        opened = _begin(state, begun)
                        position = opened if begun.holds(opened, bundle.cpu, bundle.memory) else -1
                    begun.take(position, bundle.cpu, bundle.memory)
                    state.place(name, position, threads=bundle.threads)
            full[name] = -1
        waiting = [name for name in waiting if full[name] >= 0]
    return state.placement("SAM")


def _begin_empty(state: OpenSlots, begun: Candidates) -> int:
    """Begin slots until one is empty, which is for a full bundle alone; its position."""
    while True:
        position = _begin(state, begun)
        if state.free(position) == (1.0, 1.0):
            begun.withdraw(position)
            return position


def _begin(state: OpenSlots, begun: Candidates) -> int:
    """Begin the next slot, requested if there is none: its position."""
    position = begun.count
    if position == len(state.slots):
        state.another()
    cpu, memory = state.free(position)
    return begun.add(cpu, memory, memory)
