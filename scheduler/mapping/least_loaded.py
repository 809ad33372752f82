"""Least-loaded placement: each new fragment, heaviest first, on the slot that has least to do."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from scheduler.model.errors import NoSlots
from scheduler.model.fragment import Slot
from scheduler.model.ports import EstateView

FULL = 1.0  # cores: a team's next slot is begun before one of its own has more to do


def place_least_loaded(
    cores: Sequence[float], *, slots: Sequence[Slot], load: Mapping[str, float]
) -> tuple[str, ...]:
    """Give each fragment a slot: the longest-processing-time rule, which ends within 4/3 of the best balance.

    Returns
    -------
    tuple of str
        A slot name for each fragment, in their order. Equals are settled by order, so the same question has the same
        answer.

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


def place_new(
    estate: EstateView, cores: Sequence[float], *, team: str, query_cores: float, node: str = ""
) -> tuple[str, ...]:
    """Give each new fragment of a team the slot with least to do, that no schedule counts on where there is another.

    Where teams are apart: one of the team's own while that has room, else an empty one, which is the team's from then
    on, else the one of its own that has least to do.

    Parameters
    ----------
    query_cores : float
        The cores that a query takes for batches alone.
    node : str, optional
        The node whose slots alone are taken; empty for any.
    """
    if cores and node and not estate.least_loaded(1, query_cores=query_cores, node=node):
        raise NoSlots(
            f"Node {node}, where this has to run, offers no slot",
            remedy="Start its agent, or wait until it is no longer drained.", fragments=len(cores), node=node)
    if not estate.teams_apart:
        # More slots than fragments are never needed.
        least = estate.least_loaded(len(cores), query_cores=query_cores, apart=True, node=node)
        return place_least_loaded(
            cores, slots=[slot for slot, _ in least], load={slot.name: spent for slot, spent in least})
    team_slots, empty = (
        estate.least_loaded(len(cores), query_cores=query_cores, apart=True, held_by=holder, node=node)
        for holder in (team, ""))
    loads = {slot.name: spent for slot, spent in team_slots}
    is_scheduled = {name: load.bundles > 0 for name, load in estate.slot_loads(list(loads)).items()}
    unused = [slot.name for slot, _ in reversed(empty)]
    placed = [""] * len(cores)
    for index in sorted(range(len(cores)), key=lambda index: (-cores[index], index)):
        with_room = [
            name for name, spent in loads.items() if spent + cores[index] <= FULL and not is_scheduled.get(name)]
        if not with_room and unused:
            with_room = [unused.pop()]
        if not with_room and not loads:
            raise NoSlots(
                "Teams have slots of their own here, and none is empty or this team's own",
                remedy="Remove dataflows of the team that has too many slots, or ask an administrator to start a node "
                       "agent with more slots, or to let teams share slots.", fragments=len(cores))
        chosen = min(with_room or loads, key=lambda name: loads.get(name, 0.0))
        placed[index] = chosen
        loads[chosen] = loads.get(chosen, 0.0) + cores[index]
    return tuple(placed)
