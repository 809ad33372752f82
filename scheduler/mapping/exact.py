"""Exact mapping: the fewest slots that hold all bundles, then the least traffic between nodes, by CP-SAT.

Near-exact where the problem is too large for the effort: then the placement's bounds say how far it may be off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ortools.sat.python import cp_model

from scheduler.model.allocation import Allocation, Bundle
from scheduler.model.errors import InsufficientSlots
from scheduler.model.estate import Slot
from scheduler.model.placement import Bound, Placement
from scheduler.model.resources import TOLERANCE, Supply

from .packing import UNIT, Bins, fewest_slots, new_solver, units_of
from .sam import map_sam
from .traffic import Streams, between_nodes_per_s

LARGEST = 6_000  # pairs of bundles that exchange events, times nodes; beyond it traffic is left as the packing has it
SCALE = 1_000_000  # all traffic, in the whole numbers of CP-SAT


def map_exact(allocation: Allocation, *, supply: Supply, streams: Streams, effort: float = 2.0) -> Placement:
    """Map all bundles to the fewest slots, then with the least traffic between nodes.

    Promises what SAM promises and begins where SAM ends: never more slots, and of as many never more traffic. Where it
    would need slots that others have part of, it is SAM's placement.

    Parameters
    ----------
    allocation : Allocation
        Bundles of each task, upstream tasks first. Full ones have a slot to themselves.
    supply : Supply
        Where slots come from.
    streams : mapping of (str, str) to float
        Events/s on each stream, by source and target.
    effort : float
        The solver's limit for each question (one slot less? less traffic?), in its deterministic seconds: the same
        question has the same answer on every machine, however long it takes there.

    Returns
    -------
    Placement
        With the bounds of both: slots, and events/s between nodes among all mappings to that many slots.

    Raises
    ------
    InsufficientSlots
        More slots are needed than there are.
    """
    units = [
        replace(bundle, count=1)
        for task in allocation.tasks.values() for bundle in task.bundles for _ in range(bundle.count)
    ]
    full = sum(unit.full for unit in units)
    # In the order in which SAM comes to them: best fit then takes as many slots as SAM.
    order = sorted(allocation.tasks.values(), key=lambda task: sum(one.count for one in task.bundles if one.full))
    packed, least = fewest_slots([one for task in order for one in task.bundles if not one.full], effort=effort)
    count = full + len(packed)
    slots = supply.slots(count)
    if any(slot in supply.taken for slot in slots):
        return _in_what_is_left(allocation, supply, streams, full + least)
    found = _placed(allocation, slots, units, _positions(allocation, units, packed))
    found = replace(found, slots_bound=Bound(count, full + least, proved=len(packed) == least))
    found = _nearer(found, _of_sam(allocation, supply), streams)
    start = between_nodes_per_s(found, streams)
    if start <= TOLERANCE:
        return replace(found, traffic_bound=Bound(0.0, 0.0, proved=True))
    by_task = Counter(unit.task for unit in units)
    pairs = sum(by_task[source] * by_task[target] for source, target in streams)
    if pairs * len({slot.node for slot in slots}) > LARGEST:
        return replace(found, traffic_bound=Bound(start, 0.0, proved=False))
    positions, bound, proved = _least_traffic(units, slots, streams, _of_units(found, units), effort)
    found = _nearer(found, _placed(allocation, slots, units, positions), streams)
    reached = between_nodes_per_s(found, streams)
    return replace(found, traffic_bound=Bound(reached, min(bound, reached), proved=proved))


def _in_what_is_left(allocation: Allocation, supply: Supply, streams: Streams, least: int) -> Placement:
    """SAM's placement, where slots are not alike because others have part of some: their bound holds all the same."""
    found = replace(map_sam(allocation, supply=supply), algorithm="exact")
    traffic = between_nodes_per_s(found, streams)
    count = len(found.slots)
    return replace(
        found, slots_bound=Bound(count, least, proved=count == least),
        traffic_bound=Bound(traffic, 0.0, proved=traffic <= TOLERANCE))


def _of_sam(allocation: Allocation, supply: Supply) -> Placement | None:
    try:
        return map_sam(allocation, supply=supply)
    except InsufficientSlots:
        return None  # where SAM finds no room another packing may


def _nearer(found: Placement, other: Placement | None, streams: Streams) -> Placement:
    """The one with less traffic; the other counts only with as few slots."""
    if other is None or len(other.slots) > len(found.slots):
        return found
    if between_nodes_per_s(other, streams) >= between_nodes_per_s(found, streams):
        return found
    return replace(found, threads=other.threads)


def _positions(allocation: Allocation, units: Sequence[Bundle], packed: Bins) -> list[int]:
    """A slot's position for each unit: slots in the order of the tasks on them, so that neighbours share nodes."""
    rank = {task: number for number, task in enumerate(allocation.tasks)}
    contents = [[unit] for unit in units if unit.full] + packed
    contents.sort(key=lambda those: sum(rank[one.task] for one in those) / len(those))
    free: dict[Bundle, list[int]] = {}
    for position, those in enumerate(contents):
        for one in those:
            free.setdefault(replace(one, count=1), []).append(position)
    return [free[unit].pop(0) for unit in units]


def _placed(
    allocation: Allocation, slots: tuple[Slot, ...], units: Sequence[Bundle], positions: Sequence[int]
) -> Placement:
    threads: dict[str, list[int]] = {task: [] for task in allocation.tasks}
    for unit, position in zip(units, positions, strict=True):
        threads[unit.task].extend([position] * unit.threads)
    return Placement("exact", allocation.slots, slots, {task: tuple(its) for task, its in threads.items()})


def _of_units(placement: Placement, units: Sequence[Bundle]) -> list[int]:
    """Where each unit is: its threads are numbered in the order of the units."""
    done: Counter[str] = Counter()
    positions = []
    for unit in units:
        positions.append(placement.threads[unit.task][done[unit.task]])
        done[unit.task] += unit.threads
    return positions


def _least_traffic(
    units: Sequence[Bundle], slots: Sequence[Slot], streams: Streams, start: Sequence[int], effort: float
) -> tuple[list[int], float, bool]:
    """Positions with the least traffic between nodes; a traffic that none goes below; whether these reach it."""
    model = cp_model.CpModel()
    nodes: dict[str, list[int]] = {}
    for position, slot in enumerate(slots):
        nodes.setdefault(slot.node, []).append(position)
    on_slot = {
        (u, position): model.new_bool_var(f"{u} on slot {position}")
        for u, unit in enumerate(units) if not unit.full for position in range(len(slots))
    }
    on_node = {(u, node): model.new_bool_var(f"{u} on {node}") for u in range(len(units)) for node in nodes}
    shared = [model.new_bool_var(f"slot {position} has partial bundles") for position in range(len(slots))]
    for u, unit in enumerate(units):
        model.add_exactly_one(on_node[u, node] for node in nodes)
        for node, its in () if unit.full else nodes.items():
            model.add(sum(on_slot[u, position] for position in its) == on_node[u, node])
    partial = [u for u, unit in enumerate(units) if not unit.full]
    for position, used in enumerate(shared):
        model.add(sum(units_of(units[u].cpu) * on_slot[u, position] for u in partial) <= UNIT * used)
        model.add(sum(units_of(units[u].memory) * on_slot[u, position] for u in partial) <= UNIT)
        for u in partial:
            model.add_implication(on_slot[u, position], used)
    for node, its in nodes.items():
        whole = sum(on_node[u, node] for u, unit in enumerate(units) if unit.full)
        model.add(whole + sum(shared[position] for position in its) <= len(its))
        for first, second in pairwise(its):
            model.add_implication(shared[second], shared[first])  # slots of a node are alike
    total, near = _local_traffic(model, units, list(nodes), streams, on_node)
    model.maximize(near)
    _hint(model, on_slot, on_node, start, slots)
    solver = new_solver(effort)
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return list(start), 0.0, False
    positions = [0] * len(units)
    for node, its in nodes.items():
        empty = [position for position in its if not any(solver.value(on_slot[u, position]) for u in partial)]
        for u, unit in enumerate(units):
            if solver.value(on_node[u, node]):
                positions[u] = empty.pop(0) if unit.full else next(
                    position for position in its if solver.value(on_slot[u, position]))
    bound = max(0.0, total * (1 - solver.best_objective_bound / SCALE))
    return positions, bound, status == cp_model.OPTIMAL


def _local_traffic(model, units, nodes, streams, on_node) -> tuple[float, cp_model.LinearExprT]:
    """All traffic in events/s, and how much of it stays on its node, in parts of `SCALE`."""
    by_task: dict[str, list[int]] = {}
    for u, unit in enumerate(units):
        by_task.setdefault(unit.task, []).append(u)
    threads = {task: sum(units[u].threads for u in its) for task, its in by_task.items()}
    total, near = sum(streams.values()), []
    for (source, target), rate in streams.items():
        for u in by_task[source]:
            for w in by_task[target]:
                part = rate / total * units[u].threads / threads[source] * units[w].threads / threads[target]
                for node in nodes:
                    both = model.new_bool_var(f"{u} and {w} on {node}")
                    model.add_implication(both, on_node[u, node])
                    model.add_implication(both, on_node[w, node])
                    near.append(round(part * SCALE) * both)
    return total, sum(near)


def _hint(model, on_slot, on_node, start: Sequence[int], slots: Sequence[Slot]) -> None:
    for (u, position), here in on_slot.items():
        model.add_hint(here, start[u] == position)
    for (u, node), here in on_node.items():
        model.add_hint(here, slots[start[u]].node == node)
