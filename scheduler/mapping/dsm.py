"""Default Storm Mapping (DSM): threads round robin over the slots (paper [2], Algorithm 4)."""

from __future__ import annotations

from scheduler.model.allocated import Allocation
from scheduler.model.placement import Placement
from scheduler.model.resources import Supply

from .candidates import Candidates
from .requested_slots import OpenSlots


def map_dsm(allocation: Allocation, *, supply: Supply, within_memory: bool = True) -> Placement:
    """Default Storm Mapping (DSM): each thread on the slot that is next in turn.

    Storm fills a slot's memory past its end. A Spark driver that runs out of memory takes all its queries with it, so
    here a slot that has no memory left for a thread's share of its task's is passed over in its turn, and where all
    are full one more is requested. Where Storm's own mapping keeps within memory, this is that mapping. CPU is not
    looked at.

    Parameters
    ----------
    within_memory : bool
        Pass over full slots; without it the mapping is Storm's own, and never asks for more slots.

    Returns
    -------
    Placement
        Every thread placed once, no slot over its memory if ``within_memory``.

    References
    ----------
    .. [1] Shukla and Simmhan, "Model-driven Scheduling for Distributed Stream Processing Systems", 2017, Algorithm 4.
    """
    state = OpenSlots(allocation, supply)
    candidates = Candidates()
    for position in range(len(state.slots)):
        candidates.add(1.0, state.free(position)[1], state.free(position)[1])
    turn = 0
    for name, task in allocation.tasks.items():
        need = task.memory / task.threads if within_memory else 0.0
        for _ in range(task.threads):
            while (position := candidates.first_with_room(need, start=turn)) < 0:
                room = state.free(state.another())[1]
                candidates.add(1.0, room, room)
            room = candidates.free(position)[2] - need
            candidates.put(position, 1.0, room, room)
            state.place(name, position)
            turn = (position + 1) % candidates.count
    return state.placement("DSM")
