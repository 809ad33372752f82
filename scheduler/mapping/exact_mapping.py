"""Exact mapping: the fewest slots that hold all bundles, then the least traffic between nodes, by CP-SAT.

Near-exact where the problem is too large for the effort: then the placement's bounds say how far it may be off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from ortools.sat.python import cp_model

from scheduler.model.allocated import Allocation, Bundle
from scheduler.model.errors import InsufficientSlots
from scheduler.model.fragment import Slot
from scheduler.model.placement import Bound, Placement
from scheduler.model.resources import TOLERANCE, Supply

from .effort import Effort
from .eligible import Eligible, eligible_slots, on_few_nodes, useful_nodes
from .packing import fewest_slots
from .sam import map_sam
from .shapes import CAPACITY, Bins, fit, units_of
from .traffic import Streams, between_nodes_per_s

PACKING = 0.5  # of the effort may go into slots; what they leave goes into traffic
LARGEST = 6_000  # pairs of bundles that exchange events, times nodes; beyond it traffic is left as the packing has it
MOST_PLACES = 50_000  # partial bundles times slots: building the question takes time, too
SCALE = 1_000_000  # all traffic, in the whole numbers of CP-SAT


def map_exact(allocation: Allocation, *, supply: Supply, streams: Streams, effort: float = 2.0) -> Placement:
    """Map all bundles to the fewest slots, then with the least traffic between nodes.

    Promises what SAM promises and begins where SAM ends: never more slots, and of as many never more traffic. Which of
    the free slots it takes is its choice; where they do not do it takes all of them, then machines to buy in their
    order. Where it would need slots that others have part of, it is SAM's placement, and says so by ``algorithm``.
    Traffic is counted as if every thread read and wrote its even part of a stream, for how events will be routed is not
    known before all is placed.

    Parameters
    ----------
    allocation : Allocation
        Bundles of each task, upstream tasks first. Full ones have a slot to themselves.
    effort : float
        The bound of all calls of the solver together, in its deterministic seconds: the same question has the same
        answer on every machine, however long it takes there.

    Returns
    -------
    Placement
        With the bounds of both: slots, and events/s between nodes (even parts) among all mappings to that many slots,
        whichever of the free ones these are.
    """
    units = [
        replace(bundle, count=1)
        for task in allocation.tasks.values() for bundle in task.bundles for _ in range(bundle.count)
    ]
    full = sum(unit.full for unit in units)
    # In the order in which SAM takes them: best fit then takes as many slots as SAM.
    order = sorted(
        allocation.tasks.values(), key=lambda task: sum(bundle.count for bundle in task.bundles if bundle.full))
    partial = [bundle for task in order for bundle in task.bundles if not bundle.full]
    packing = Effort(PACKING * effort)
    packed, least = fewest_slots(partial, effort=packing)
    count = full + len(packed)
    first = supply.slots(count)
    if any(slot in supply.taken for slot in first):
        return _in_what_is_left(allocation, supply, streams, full + least)
    eligible = eligible_slots(supply, count)
    starts = _starts(allocation, supply, units, packed, dict.fromkeys((first, on_few_nodes(eligible, count))))
    starts.sort(key=lambda start: between_nodes_per_s(start, streams))  # of equals that on the first slots stays first
    placement = _with_least_traffic(starts, units, eligible, streams, Effort(effort - packing.spent))
    used = len(placement.held)  # nearer to each other they may take fewer
    return replace(placement, slots_bound=Bound(used, full + least, proved=used == full + least))


def _with_least_traffic(
    starts: Sequence[Placement], units: Sequence[Bundle], eligible: Eligible, streams: Streams, effort: Effort
) -> Placement:
    """The placement with the least traffic that is found on as many slots, with its bound: a start, or better."""
    best, count = starts[0], len(starts[0].slots)
    traffic = between_nodes_per_s(best, streams)
    if traffic <= TOLERANCE:
        return replace(best, traffic_bound=Bound(0.0, 0.0, proved=True))
    useful = useful_nodes(eligible, count) | {slot.node for slot in on_few_nodes(eligible, count)}
    eligible = {node: slots for node, slots in eligible.items() if node in useful}
    offered = {slot for node_slots in eligible.values() for slot in node_slots}
    by_task = Counter(unit.task for unit in units)
    pairs = sum(by_task[source] * by_task[target] for source, target in streams)
    places = sum(not unit.full for unit in units) * len(offered)
    if pairs * len(eligible) > LARGEST or places > MOST_PLACES:
        return replace(best, traffic_bound=Bound(traffic, 0.0, proved=False))
    hint = next(start for start in starts if offered.issuperset(start.slots))
    where, bound, proved = _least_traffic(units, eligible, count, streams, _of_units(hint, units), effort)
    slots = _filled_up(eligible, set(where), count)
    number = {slot: position for position, slot in enumerate(slots)}
    solved = replace(best, slots=slots, threads=_threads(best.threads, units, [number[slot] for slot in where]))
    best = min(best, solved, key=lambda placement: between_nodes_per_s(placement, streams))
    reached = between_nodes_per_s(best, streams)
    return replace(best, traffic_bound=Bound(reached, min(bound, reached), proved=proved))


def _in_what_is_left(allocation: Allocation, supply: Supply, streams: Streams, least: int) -> Placement:
    """SAM's placement, where slots are not alike because others have part of some: their bound holds all the same."""
    placement = map_sam(allocation, supply=supply)
    traffic = between_nodes_per_s(placement, streams)
    count = len(placement.slots)
    return replace(
        placement, slots_bound=Bound(count, least, proved=count == least),
        traffic_bound=Bound(traffic, 0.0, proved=traffic <= TOLERANCE))


def _starts(
    allocation: Allocation, supply: Supply, units: Sequence[Bundle], packed: Bins, choices: Iterable[tuple[Slot, ...]]
) -> list[Placement]:
    """Placements to begin with: the packing's and, with as few slots, SAM's, on each choice of slots."""
    by_packing = _threads(allocation.tasks, units, _positions(allocation, units, packed))
    starts = []
    try:
        by_sam = map_sam(allocation, supply=supply)
    except InsufficientSlots:
        by_sam = None  # where SAM finds no room another packing may
    for slots in choices:
        starts.append(Placement("exact", allocation.slots, slots, by_packing))
        if by_sam is not None and len(by_sam.slots) == len(slots):
            starts.append(replace(starts[-1], threads=by_sam.threads))
    return starts


def _positions(allocation: Allocation, units: Sequence[Bundle], packed: Bins) -> list[int]:
    """A slot's position for each unit: slots in the order of the tasks on them, so that neighbours share nodes."""
    rank = {task: number for number, task in enumerate(allocation.tasks)}
    contents = [[unit] for unit in units if unit.full] + packed  # all of count 1
    contents.sort(key=lambda bundles: sum(rank[bundle.task] for bundle in bundles) / len(bundles))
    positions: dict[Bundle, list[int]] = {}
    for position, bundles in enumerate(contents):
        for bundle in bundles:
            positions.setdefault(bundle, []).append(position)
    return [positions[unit].pop(0) for unit in units]


def _threads(tasks: Iterable[str], units: Sequence[Bundle], positions: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """A position for each thread of each task, where its units are."""
    threads: dict[str, list[int]] = {task: [] for task in tasks}
    for unit, position in zip(units, positions, strict=True):
        threads[unit.task].extend([position] * unit.threads)
    return {task: tuple(on) for task, on in threads.items()}


def _of_units(placement: Placement, units: Sequence[Bundle]) -> list[Slot]:
    """The slot of each unit: its threads are numbered in the order of the units."""
    done: Counter[str] = Counter()
    slots = []
    for unit in units:
        slots.append(placement.slot_of(unit.task, done[unit.task]))
        done[unit.task] += unit.threads
    return slots


def _filled_up(eligible: Eligible, used: Collection[Slot], count: int) -> tuple[Slot, ...]:
    """The first slots in order, the used ones among them: where fewer do than were asked for, the first others."""
    offered = [slot for node_slots in eligible.values() for slot in node_slots]
    others = [slot for slot in offered if slot not in used][: count - len(used)]
    return tuple(slot for slot in offered if slot in used or slot in others)


def _least_traffic(
    units: Sequence[Bundle], eligible: Eligible, count: int, streams: Streams, start: Sequence[Slot], effort: Effort
) -> tuple[list[Slot], float, bool]:
    """A slot for each unit, with the least traffic between nodes on so many of these slots.

    With a traffic that none goes below, and whether it is reached.
    """
    model = cp_model.CpModel()
    slots = [slot for node_slots in eligible.values() for slot in node_slots]
    partial = [u for u, unit in enumerate(units) if not unit.full]
    on_slot = {(u, slot): model.new_bool_var(f"{u} on slot {slot.name}") for u in partial for slot in slots}
    on_node = {(u, node): model.new_bool_var(f"{u} on {node}") for u in range(len(units)) for node in eligible}
    shared = {slot: model.new_bool_var(f"slot {slot.name} has partial bundles") for slot in slots}
    for u, unit in enumerate(units):
        model.add_exactly_one(on_node[u, node] for node in eligible)
        for node, node_slots in () if unit.full else eligible.items():
            model.add(sum(on_slot[u, slot] for slot in node_slots) == on_node[u, node])
    for slot, used in shared.items():
        model.add(sum(units_of(units[u].cpu) * on_slot[u, slot] for u in partial) <= CAPACITY * used)
        model.add(sum(units_of(units[u].memory) * on_slot[u, slot] for u in partial) <= CAPACITY)
        for u in partial:
            model.add_implication(on_slot[u, slot], used)
    for node, node_slots in eligible.items():
        filled = sum(on_node[u, node] for u, unit in enumerate(units) if unit.full)
        model.add(filled + sum(shared[slot] for slot in node_slots) <= len(node_slots))
        for slot, next_slot in pairwise(node_slots):
            model.add_implication(shared[next_slot], shared[slot])  # slots of a node are alike
    model.add(len(units) - len(partial) + sum(shared.values()) <= count)
    total, near = _local_traffic(model, units, list(eligible), streams, on_node)
    model.maximize(near)
    for (u, slot), is_there in on_slot.items():
        model.add_hint(is_there, start[u] == slot)
    for (u, node), is_there in on_node.items():
        model.add_hint(is_there, start[u].node == node)
    solver, status = effort.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return list(start), 0.0, False
    places = list(start)
    for node, node_slots in eligible.items():
        empty = [slot for slot in node_slots if not any(solver.value(on_slot[u, slot]) for u in partial)]
        for u, unit in enumerate(units):
            if solver.value(on_node[u, node]):
                places[u] = empty.pop(0) if unit.full else next(
                    slot for slot in node_slots if solver.value(on_slot[u, slot]))
    bound = max(0.0, total * (1 - solver.best_objective_bound / SCALE))
    beside: dict[Slot, list[Bundle]] = {}
    for u in partial:
        beside.setdefault(places[u], []).append(units[u])
    if not all(map(fit, beside.values())):  # only by shares rounded down
        return list(start), bound, False
    return places, bound, status == cp_model.OPTIMAL


def _local_traffic(model, units, nodes, streams, on_node) -> tuple[float, cp_model.LinearExprT]:
    """All traffic in events/s, and how much of it stays on its node, in parts of `SCALE`."""
    by_task: dict[str, list[int]] = {}
    for u, unit in enumerate(units):
        by_task.setdefault(unit.task, []).append(u)
    threads = {task: sum(units[u].threads for u in of_task) for task, of_task in by_task.items()}
    total, near = sum(streams.values()), []
    for (source, target), rate in streams.items():
        for u in by_task[source]:
            for w in by_task[target]:
                part = rate / total * units[u].threads / threads[source] * units[w].threads / threads[target]
                for node in nodes:
                    both_on_node = model.new_bool_var(f"{u} and {w} on {node}")
                    model.add_implication(both_on_node, on_node[u, node])
                    model.add_implication(both_on_node, on_node[w, node])
                    near.append(round(part * SCALE) * both_on_node)
    return total, sum(near)
