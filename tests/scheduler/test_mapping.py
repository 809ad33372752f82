"""All mappings against one suite of promises; small cases against every possibility."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.mapping.best_fit import BestFit
from scheduler.mapping.dsm import map_dsm
from scheduler.mapping.exact import map_exact
from scheduler.mapping.rsm import Weights, map_rsm
from scheduler.mapping.sam import map_sam
from scheduler.mapping.shelves import Shelves
from scheduler.mapping.traffic import between_nodes_per_s
from scheduler.model.allocation import Allocation, Bundle, TaskAllocation
from scheduler.model.errors import InsufficientSlots
from scheduler.model.estate import Slot
from scheduler.model.placement import Placement
from scheduler.model.resources import Node, Supply

from .schedules import BUY, SIZES, allocations, check_bundles, check_placed, check_thread_shares, supplies

EFFORT = 0.05


def exact(allocation: Allocation, *, supply: Supply) -> Placement:
    """With a stream from each task to the next."""
    return map_exact(allocation, supply=supply, streams=chain(allocation), effort=EFFORT)


def chain(allocation: Allocation) -> dict[tuple[str, str], float]:
    names = list(allocation.tasks)
    return {pair: 10.0 * (number + 1) for number, pair in enumerate(pairwise(names))}


MAPPINGS = {"DSM": map_dsm, "RSM": map_rsm, "SAM": map_sam, "exact": exact}
quickly = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", MAPPINGS)
@quickly
@given(data=st.data())
def test_every_mapping_keeps_its_promises(name: str, data: st.DataObject):
    allocation, supply = data.draw(allocations()), data.draw(supplies(shared=data.draw(st.booleans())))
    placement = MAPPINGS[name](allocation, supply=supply)
    check_placed(placement, allocation, supply)
    if name in ("DSM", "RSM"):
        check_thread_shares(placement, allocation, cpu=name == "RSM")
    else:
        check_bundles(placement, allocation)
    assert MAPPINGS[name](allocation, supply=supply) == placement, "the same question has another answer"


@pytest.mark.parametrize("name", MAPPINGS)
@quickly
@given(allocation=allocations())
def test_where_slots_run_out_nothing_comes_of_it_but_an_error_with_the_numbers(name: str, allocation: Allocation):
    needed = len(MAPPINGS[name](allocation, supply=BUY).slots)
    slots = BUY.slots(needed)
    nodes = [Node(name, tuple(slot for slot in slots if slot.node == name)) for name in dict.fromkeys(
        slot.node for slot in slots)]
    MAPPINGS[name](allocation, supply=Supply(tuple(nodes)))  # as many as needed are enough
    if needed > 1:
        last = nodes[-1]
        fewer = (*nodes[:-1], Node(last.name, last.slots[:-1]))
        with pytest.raises(InsufficientSlots) as caught:
            MAPPINGS[name](allocation, supply=Supply(fewer))
        assert caught.value.facts == {"needed": needed, "available": needed - 1}


@quickly
@given(allocation=allocations())
def test_dsm_is_plain_round_robin_where_that_keeps_within_memory(allocation: Allocation):
    count, number, plain = allocation.slots, 0, {}
    memory: Counter[int] = Counter()
    for name, task in allocation.tasks.items():
        plain[name] = tuple((number + n) % count for n in range(task.threads))
        number += task.threads
        for position in plain[name]:
            memory[position] += task.memory / task.threads
    as_storm = map_dsm(allocation, supply=BUY, within_memory=False)
    assert as_storm.threads == plain and as_storm.extra == 0
    if all(taken <= 1 for taken in memory.values()):
        assert map_dsm(allocation, supply=BUY) == as_storm


@quickly
@given(allocation=allocations(), supply=supplies(), weights=st.sampled_from([Weights(), Weights(2, 0.5, 3)]))
def test_rsm_takes_the_nearest_node_each_time(allocation: Allocation, supply: Supply, weights: Weights):
    """Against a copy of Algorithm 5 that measures the distance to every node for every thread."""
    assert map_rsm(allocation, supply=supply, weights=weights).threads == _nearest_of_all(allocation, supply, weights)


def _nearest_of_all(allocation: Allocation, supply: Supply, weights: Weights) -> dict[str, tuple[int, ...]]:
    slots = list(supply.slots(allocation.slots))
    free = [[1.0, 1.0] for _ in slots]
    racks = {node.name: node.rack for node in supply.free}
    left = {name: task.threads for name, task in allocation.tasks.items()}
    found: dict[str, list[int]] = {name: [] for name in left}
    reference = slots[0].node
    while any(left.values()):
        for name, task in allocation.tasks.items():
            if not left[name]:
                continue
            cpu, memory = task.cpu / task.threads, task.memory / task.threads
            best = (float("inf"), "")
            # Of equals the reference node comes first, then its rack's, then the order of the nodes.
            near = racks.get(reference, "")
            first_seen = list(dict.fromkeys(racks.get(slot.node, "") for slot in slots))
            nodes = sorted(
                dict.fromkeys(slot.node for slot in slots),
                key=lambda node: (node != reference, first_seen.index(racks.get(node, ""))))
            for node in nodes:
                its = [free[n] for n, slot in enumerate(slots) if slot.node == node]
                if sum(one[0] for one in its) < cpu - 1e-9 or max(one[1] for one in its) < memory - 1e-9:
                    continue
                network = 0 if node == reference else 0.5 if racks.get(node, "") == near else 1.0
                far = (weights.memory * (sum(one[1] for one in its) - memory) ** 2
                       + weights.cpu * (sum(one[0] for one in its) - cpu) ** 2 + weights.network * network)
                if far < best[0] - 1e-12:
                    best = (far, node)
            if not best[1]:
                slots = list(supply.slots(len(slots) + 1))
                free.append([1.0, 1.0])
                position = len(slots) - 1
            else:
                position = next(
                    n for n, slot in enumerate(slots) if slot.node == best[1] and free[n][1] >= memory - 1e-9)
            free[position][0] -= cpu
            free[position][1] -= memory
            found[name].append(position)
            left[name] -= 1
            reference = slots[position].node
    return {name: tuple(its) for name, its in found.items()}


@quickly
@given(data=st.data())
def test_shelves_find_what_looking_at_all_slots_finds(data: st.DataObject):
    shelves, free = Shelves(), {}
    share = st.integers(0, 128).map(lambda parts: parts / 128)
    for number in range(data.draw(st.integers(1, 30))):
        if free and data.draw(st.integers(0, 3)) == 0:
            gone = data.draw(st.sampled_from(sorted(free)))
            shelves.take_out(gone)
            del free[gone]
        free[number] = (data.draw(share), data.draw(share))
        shelves.put(number, *free[number])
        cpu, memory = data.draw(share), data.draw(share)
        fitting = [(sum(its), n) for n, its in free.items() if its[0] >= cpu and its[1] >= memory]
        assert shelves.fullest(cpu, memory) == min(fitting, default=(0, -1))[1]
        assert [n for n in free if shelves.holds(n, cpu, memory)] == sorted(n for _, n in fitting)


@quickly
@given(data=st.data())
def test_best_fit_finds_what_looking_at_all_bins_finds(data: st.DataObject):
    tree, bins = BestFit(), []
    share = st.integers(0, 8).map(lambda eighths: eighths / 8)
    for _ in range(data.draw(st.integers(1, 30))):
        if not bins or data.draw(st.booleans()):
            bins.append((data.draw(share), data.draw(share)))
            assert tree.add(*bins[-1], bins[-1][1]) == len(bins) - 1
        else:
            number = data.draw(st.integers(0, len(bins) - 1))
            bins[number] = (data.draw(share), data.draw(share))
            tree.put(number, *bins[number], bins[number][1])
        cpu, memory, start = data.draw(share), data.draw(share), data.draw(st.integers(0, len(bins) - 1))
        fitting = [(sum(free), n) for n, free in enumerate(bins) if free[0] >= cpu and free[1] >= memory]
        assert tree.cheapest(cpu, memory, lambda a, b: a + b)[1] == min(fitting, default=(0, -1))[1]
        roomy = [n for n in (*range(start, len(bins)), *range(start)) if bins[n][1] >= memory]
        assert tree.first_with_room(memory, start=start) == (roomy or [-1])[0]


@settings(max_examples=40, deadline=None)
@given(allocation=allocations(tasks=5, most=2))
def test_exact_needs_no_more_slots_than_sam_and_no_more_traffic_with_as_many(allocation: Allocation):
    by_sam, ours = map_sam(allocation, supply=BUY), exact(allocation, supply=BUY)
    assert len(ours.slots) <= len(by_sam.slots)
    assert ours.slots_bound.least <= len(ours.slots) == ours.slots_bound.reached
    if len(ours.slots) == len(by_sam.slots):
        streams = chain(allocation)
        assert between_nodes_per_s(ours, streams) <= between_nodes_per_s(by_sam, streams) + 1e-9


@st.composite
def few_bundles(draw: st.DrawFn) -> Allocation:
    """Up to five bundles of up to four tasks."""
    tasks = {}
    for number in range(draw(st.integers(1, 4))):
        full = draw(st.booleans()) and draw(st.booleans())
        share = st.sampled_from([0.1, 0.3, 0.34, 0.5, 0.51, 0.7])
        name, threads = f"t{number}", draw(st.integers(1, 3))
        bundle = Bundle(name, threads, 10.0, *((1.0, 1.0) if full else (draw(share), draw(share))), full=full,
                        count=draw(st.integers(1, 2 if number == 0 else 1)))
        tasks[name] = TaskAllocation(name, 10.0 * bundle.count, (bundle,))
    return Allocation("any", tasks)


@settings(max_examples=40, deadline=None)
@given(allocation=few_bundles())
def test_exact_is_best_among_all_possibilities(allocation: Allocation):
    """Each bundle on each slot: the fewest slots, and with those the least traffic."""
    ours = map_exact(allocation, supply=BUY, streams=chain(allocation), effort=5.0)
    units = [one for task in allocation.tasks.values() for one in task.bundles for _ in range(one.count)]
    fewest = next(
        count for count in range(1, len(units) + 1)
        if any(_fits(units, where) for where in product(range(count), repeat=len(units)))
    )
    assert len(ours.slots) == fewest and ours.slots_bound.proved
    slots, streams = BUY.slots(fewest), chain(allocation)
    least = min(
        between_nodes_per_s(_as_placement(allocation, units, where, slots), streams)
        for where in product(range(fewest), repeat=len(units)) if _fits(units, where)
    )
    assert between_nodes_per_s(ours, streams) == pytest.approx(least, abs=1e-4)
    assert ours.traffic_bound.proved and ours.traffic_bound.gap == 0


def _fits(units: list[Bundle], where: tuple[int, ...]) -> bool:
    for slot in set(where):
        its = [unit for unit, position in zip(units, where, strict=True) if position == slot]
        if any(unit.full for unit in its) and len(its) > 1:
            return False
        if sum(unit.cpu for unit in its) > 1 + 1e-9 or sum(unit.memory for unit in its) > 1 + 1e-9:
            return False
    return True


def _as_placement(
    allocation: Allocation, units: list[Bundle], where: tuple[int, ...], slots: tuple[Slot, ...]
) -> Placement:
    threads: dict[str, tuple[int, ...]] = dict.fromkeys(allocation.tasks, ())
    for unit, position in zip(units, where, strict=True):
        threads[unit.task] += (position,) * unit.threads
    return Placement("by hand", allocation.slots, slots, threads)


def test_sam_asks_for_a_slot_more_where_the_packing_leaves_holes():
    """Three bundles of 0.6 CPU sum up to 1.8 slots and need 3: one more than asked for, and it says so."""
    tasks = {name: TaskAllocation(name, 1.0, (Bundle(name, 1, 1.0, 0.6, 0.1),)) for name in "abc"}
    placement = map_sam(Allocation("MBA", tasks), supply=BUY)
    assert (placement.asked, len(placement.slots), placement.extra, placement.used) == (2, 3, 1, 3)
    assert {slot.node for slot in placement.slots} == {"new-1"}, "the machine grows, what is placed stays"


def test_traffic_counts_what_leaves_its_node():
    """Half of a's threads are on each node, b is on one: half of 10 events/s cross."""
    slots = (Slot("n1", 0), Slot("n2", 0))
    placement = Placement("by hand", 2, slots, {"a": (0, 1), "b": (0, 0, 0)})
    assert between_nodes_per_s(placement, {("a", "b"): 10.0}) == pytest.approx(5.0)


def test_machines_come_from_what_is_free_first():
    free = (Node("n1", (Slot("n1", 1),)),)
    assert [slot.name for slot in Supply(free, SIZES).slots(4)] == ["n1/1", "new-1/0", "new-1/1", "new-1/2"]
