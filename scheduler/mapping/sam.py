"""Slot-Aware Mapping (SAM): full bundles on slots of their own, others where they fit (paper [2], Algorithm 6)."""

from __future__ import annotations

from scheduler.model.allocation import Allocation
from scheduler.model.placement import Placement
from scheduler.model.resources import Supply

from .shelves import Shelves
from .slots import OpenSlots


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
    state, partly = OpenSlots(allocation, supply), Shelves()
    full = {name: sum(one.count for one in task.bundles if one.full) for name, task in allocation.tasks.items()}
    empty = 0  # slots before it are in use, from it on none is
    waiting = list(allocation.tasks)
    while waiting:
        for name in waiting:
            bundles = allocation.tasks[name].bundles
            if full[name]:
                empty = _in_empty(state, empty, partly)
                state.place(name, empty - 1, threads=next(one for one in bundles if one.full).threads)
                full[name] -= 1
                continue
            for bundle in bundles:
                position = -1
                for _ in range(0 if bundle.full else bundle.count):
                    # The slot that took its like before is the fullest again, as long as it has enough.
                    if not partly.holds(position, bundle.cpu, bundle.memory):
                        position = partly.fullest(bundle.cpu, bundle.memory)
                    while position < 0:
                        empty = _opened(state, empty, partly)
                        position = empty - 1 if partly.holds(empty - 1, bundle.cpu, bundle.memory) else -1
                    partly.add_to(position, bundle.cpu, bundle.memory)
                    state.place(name, position, threads=bundle.threads)
            full[name] = -1
        waiting = [name for name in waiting if full[name] >= 0]
    return state.placement("SAM")


def _in_empty(state: OpenSlots, empty: int, partly: Shelves) -> int:
    """Begin an empty slot; which is then the next. Those that others have begun are put on the shelves."""
    while True:
        empty = _opened(state, empty, partly)
        if state.free(empty - 1) == (1.0, 1.0):
            partly.take_out(empty - 1)
            return empty


def _opened(state: OpenSlots, empty: int, partly: Shelves) -> int:
    """Put the next slot on the shelves, one more where there is none; which is then the next."""
    if empty == len(state.slots):
        state.another()
    partly.put(empty, *state.free(empty))
    return empty + 1
