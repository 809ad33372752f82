"""Least-loaded placement: each new fragment, heaviest first, on the slot that has least to do."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from scheduler.model.errors import NoSlots
from scheduler.model.fragment import Slot


def place_least_loaded(
    cores: Sequence[float], *, slots: Sequence[Slot], load: Mapping[str, float]
) -> tuple[str, ...]:
    """Give each fragment a slot: the longest-processing-time rule, which ends within 4/3 of the best balance.

    Parameters
    ----------
    cores : sequence of float
        CPU cores that each fragment is expected to take.
    slots : sequence of Slot
        Where fragments may run.
    load : mapping of str to float
        CPU cores that each slot is expected to spend already, by slot name; none for a slot that is not there.

    Returns
    -------
    tuple of str
        A slot name for each fragment, in their order. Equals are settled by order, so the same question has the same
        answer.

    Raises
    ------
    NoSlots
        There are fragments and no slot.

    References
    ----------
    .. [1] Graham, "Bounds on Multiprocessing Timing Anomalies", 1969.
    """
    if cores and not slots:
        raise NoSlots(
            "There is no slot to run this on", remedy="Start a node agent with at least one slot.", fragments=len(cores)
        )
    heap = [(load.get(slot.name, 0.0), order, slot.name) for order, slot in enumerate(slots)]
    heapq.heapify(heap)
    placed = [""] * len(cores)
    for index in sorted(range(len(cores)), key=lambda index: (-cores[index], index)):
        spent, order, name = heapq.heappop(heap)
        placed[index] = name
        heapq.heappush(heap, (spent + cores[index], order, name))
    return tuple(placed)
