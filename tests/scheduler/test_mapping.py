"""All mappings against one suite of promises; what they search with, against looking at everything."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.allocation.acquisition import acquisition_of
from scheduler.allocation.lsa import allocate_lsa
from scheduler.allocation.mba import allocate_mba
from scheduler.mapping.candidates import Candidates
from scheduler.mapping.dsm import map_dsm
from scheduler.mapping.exact_mapping import map_exact
from scheduler.mapping.rsm import Weights, map_rsm
from scheduler.mapping.sam import map_sam
from scheduler.mapping.traffic import between_nodes_per_s, on_other_slots
from scheduler.model.allocated import Allocation, Bundle, TaskAllocation
from scheduler.model.errors import InsufficientSlots, InvalidResources
from scheduler.model.fragment import Slot
from scheduler.model.placement import Bound, Placement
from scheduler.model.profile import Point, Profile
from scheduler.model.resources import Node, Supply, TakenShare

from .schedules import BUY, SIZES, allocations, chain, check_bundles, check_placed, check_thread_shares, supplies

EFFORT = 0.05


def exact(allocation: Allocation, *, supply: Supply) -> Placement:
    """With a stream from each task to the next."""
    return map_exact(allocation, supply=supply, streams=chain(allocation), effort=EFFORT)


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
    nearest: dict[str, list[int]] = {name: [] for name in left}
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
                rooms = [free[n] for n, slot in enumerate(slots) if slot.node == node]
                if sum(room[0] for room in rooms) < cpu - 1e-9 or max(room[1] for room in rooms) < memory - 1e-9:
                    continue
                network = 0 if node == reference else 0.5 if racks.get(node, "") == near else 1.0
                far = (weights.memory * (sum(room[1] for room in rooms) - memory) ** 2
                       + weights.cpu * (sum(room[0] for room in rooms) - cpu) ** 2 + weights.network * network)
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
            nearest[name].append(position)
            left[name] -= 1
            reference = slots[position].node
    return {name: tuple(bundles) for name, bundles in nearest.items()}


@quickly
@given(data=st.data())
def test_the_fullest_slot_is_that_which_looking_at_all_slots_finds(data: st.DataObject):
    slots, free = Candidates(), {}
    share = st.integers(0, 128).map(lambda parts: parts / 128)
    for _ in range(data.draw(st.integers(1, 30))):
        if free and data.draw(st.integers(0, 3)) == 0:
            gone = data.draw(st.sampled_from(sorted(free)))
            slots.withdraw(gone)
            del free[gone]
        cpu, memory = data.draw(share), data.draw(share)
        free[slots.add(cpu, memory, memory)] = (cpu, memory)
        cpu, memory = data.draw(share), data.draw(share)
        fitting = [(sum(left), n) for n, left in free.items() if left[0] >= cpu and left[1] >= memory]
        assert slots.cheapest(cpu, memory)[1] == min(fitting, default=(0, -1))[1]
        assert [n for n in free if slots.holds(n, cpu, memory)] == sorted(n for _, n in fitting)
        if fitting:
            _, number = min(fitting)
            slots.take(number, cpu, memory)
            free[number] = (free[number][0] - cpu, free[number][1] - memory)
            assert slots.free(number) == (*free[number], free[number][1])


@quickly
@given(data=st.data())
def test_candidates_find_what_looking_at_all_of_them_finds(data: st.DataObject):
    candidates, bins = Candidates(), []
    share = st.integers(0, 8).map(lambda eighths: eighths / 8)
    for _ in range(data.draw(st.integers(1, 30))):
        if not bins or data.draw(st.booleans()):
            bins.append((data.draw(share), data.draw(share)))
            assert candidates.add(*bins[-1], bins[-1][1]) == len(bins) - 1
        else:
            number = data.draw(st.integers(0, len(bins) - 1))
            bins[number] = (data.draw(share), data.draw(share))
            candidates.put(number, *bins[number], bins[number][1])
        cpu, memory, start = data.draw(share), data.draw(share), data.draw(st.integers(0, len(bins) - 1))
        fitting = [(2 * free[0] + free[1], n) for n, free in enumerate(bins) if free[0] >= cpu and free[1] >= memory]
        least = min(fitting, default=(inf, -1))
        assert candidates.cheapest(cpu, memory, lambda a, b: 2 * a + b) == least
        below = data.draw(share)
        assert candidates.cheapest(cpu, memory, lambda a, b: 2 * a + b, below=below) == (
            least if least[0] < below else (below, -1))
        roomy = [n for n in (*range(start, len(bins)), *range(start)) if bins[n][1] >= memory]
        assert candidates.first_with_room(memory, start=start) == (roomy or [-1])[0]


@quickly
@given(data=st.data())
def test_a_node_knows_what_looking_at_all_its_slots_finds(data: st.DataObject):
    slots, free = Candidates(), []
    share = st.integers(0, 128).map(lambda parts: parts / 128)
    for _ in range(data.draw(st.integers(1, 40))):
        memory = data.draw(share)
        if free and data.draw(st.booleans()):
            with_room = [number for number, left in enumerate(free) if left[1] >= memory]
            assert [number for number in range(len(free)) if slots.holds(number, -inf, memory)] == with_room
            assert slots.first_with_room(memory, start=0) == (with_room or [-1])[0]
            if with_room:
                cpu = data.draw(share)
                slots.take(with_room[0], cpu, memory)
                free[with_room[0]] = (free[with_room[0]][0] - cpu, free[with_room[0]][1] - memory)
        else:
            free.append((data.draw(share), memory))
            slots.add(*free[-1], memory)
        cpus, memories = zip(*free, strict=True)
        assert slots.count == len(free) and slots.node_sums() == (sum(cpus), sum(memories), max(memories))


@pytest.mark.parametrize("name", MAPPINGS)
@pytest.mark.parametrize("allocate", [allocate_lsa, allocate_mba])
def test_batches_that_take_most_of_a_slot_at_any_rate_find_one(name: str, allocate):
    """Half of the events and all of the batches would come to more than a slot: they take all of it, and no more."""
    profile = Profile("t", (Point(1, 100, 0.9, 0.1, idle_cpu=0.6, event_cpu=0.85),))
    placement = MAPPINGS[name](allocate({"t": 50.0}, {"t": profile}), supply=Supply(catalogue=SIZES))
    assert len(placement.slots) == 1


@pytest.mark.parametrize("name", MAPPINGS)
@pytest.mark.parametrize("needs", [(1.5, 0.1), (0.1, 1.5)])
def test_a_bundle_that_no_slot_holds_is_an_error_and_no_search_without_end(name: str, needs: tuple[float, float]):
    allocation = Allocation("LSA", {"t": TaskAllocation("t", 10.0, (Bundle("t", 1, 10.0, *needs),))})
    with pytest.raises(InvalidResources, match="150%") as caught:
        MAPPINGS[name](allocation, supply=Supply(catalogue=SIZES))
    assert "Measure" in caught.value.remedy


def test_rsm_fills_a_large_node_slot_by_slot():
    """Three threads of 0.3 of its memory on each of forty slots, and what goes on to another node beyond them."""
    nodes = tuple(Node(name, tuple(Slot(name, index) for index in range(40))) for name in ("n1", "n2"))
    task = TaskAllocation("t", 1.0, (Bundle("t", 1, 1.0, 0.1, 0.3, count=130),))
    allocation = Allocation("LSA", {"t": task})
    placement = map_rsm(allocation, supply=Supply(nodes))
    assert placement.threads["t"] == tuple(thread // 3 for thread in range(130))
    assert placement.threads == _nearest_of_all(allocation, Supply(nodes), Weights())


def test_sam_asks_for_a_slot_more_where_the_packing_leaves_holes():
    """Three bundles of 0.6 CPU sum up to 1.8 slots and need 3: one more than asked for, and it says so."""
    tasks = {name: TaskAllocation(name, 1.0, (Bundle(name, 1, 1.0, 0.6, 0.1),)) for name in "abc"}
    placement = map_sam(Allocation("MBA", tasks), supply=BUY)
    assert (placement.allocated_slots, len(placement.slots), placement.extra) == (2, 3, 1)
    assert {position for positions in placement.threads.values() for position in positions} == {0, 1, 2}, "each is used"
    assert {slot.node for slot in placement.slots} == {"new-1"}, "the machine grows, what is placed stays"


def test_traffic_counts_what_leaves_its_node():
    """Half of a's threads are on each node, b is on one: half of 10 events/s cross."""
    slots = (Slot("n1", 0), Slot("n2", 0))
    placement = Placement("by hand", 2, slots, {"a": (0, 1), "b": (0, 0, 0)})
    assert between_nodes_per_s(placement, {("a", "b"): 10.0}) == pytest.approx(5.0)


def test_traffic_is_by_the_parts_in_which_events_are_routed():
    """A fifth of what a reads goes to n2, and so a fifth of what it makes comes from there; b reads a tenth there."""
    slots = (Slot("n1", 0), Slot("n2", 0))
    placement = Placement("by hand", 2, slots, {"a": (0, 1), "b": (0, 0, 1)})
    shares = {"a": {0: 0.8, 1: 0.2}, "b": {0: 0.9, 1: 0.1}}
    crossing = 0.8 * 0.1 + 0.2 * 0.9
    assert between_nodes_per_s(placement, {("a", "b"): 10.0}, shares) == pytest.approx(10 * crossing)
    even = {"a": {0: 0.5, 1: 0.5}, "b": {0: 2 / 3, 1: 1 / 3}}
    assert between_nodes_per_s(placement, {("a", "b"): 10.0}, even) == pytest.approx(
        between_nodes_per_s(placement, {("a", "b"): 10.0}))


def test_what_was_proved_of_traffic_holds_on_other_slots_only_where_they_are_alike():
    streams = {("a", "b"): 10.0}
    first = tuple(Slot(node, index) for node, index in (("n1", 0), ("n1", 1), ("n2", 0)))
    best = Placement("exact", 3, first, {"a": (0,), "b": (1, 2)}, traffic_bound=Bound(5.0, 5.0, proved=True))
    alike = on_other_slots(best, (Slot("n3", 0), Slot("n3", 4), Slot("n1", 0)), streams)
    assert alike.traffic_bound == Bound(5.0, 5.0, proved=True)
    worse = on_other_slots(best, (Slot("n2", 0), Slot("n1", 0), Slot("n1", 1)), streams)
    assert worse.traffic_bound == Bound(10.0, 5.0, proved=False) and worse.traffic_bound.gap == 0.5
    apart = on_other_slots(best, (Slot("n1", 0), Slot("n2", 0), Slot("n3", 0)), streams)
    assert apart.traffic_bound == Bound(10.0, 0.0, proved=False)
    mapped = on_other_slots(best, (Slot("n1", 0), Slot("n1", 1), Slot("n1", 2)), streams)
    assert mapped.traffic_bound == Bound(0.0, 0.0, proved=True)
    unknown = Placement("SAM", 3, first, {"a": (0,), "b": (1, 2)})
    assert on_other_slots(unknown, first, streams) == unknown, "of what knows no bound nothing is said"


def test_machines_come_from_what_is_free_first():
    free = (Node("n1", (Slot("n1", 1),)),)
    assert [slot.name for slot in Supply(free, SIZES).slots(4)] == ["n1/1", "new-1/0", "new-1/1", "new-1/2"]


def test_a_node_that_is_named_like_a_new_machine_is_not_handed_out_twice():
    free = (Node("new-1", (Slot("new-1", 0),)),)
    slots = Supply(free, SIZES, threads={"new-1": 64, "new-3": 64}).slots(6)
    assert [slot.name for slot in slots] == ["new-1/0", *(f"new-2/{index}" for index in range(4)), "new-4/0"]
    bought = acquisition_of(slots, supply=Supply(free, SIZES)).bought
    assert [node.name for node in bought] == ["new-2", "new-4"]


def test_of_a_mapping_the_slots_are_in_use_that_hold_something():
    slots = tuple(Slot("n1", index) for index in range(5))
    mapped = Placement(
        "RSM", 4, slots, {"a": (0, 0, 3), "b": (4, 3)}, {2: TakenShare(0.2, 0.1), 4: TakenShare(0.1, 0.1)})
    used = mapped.in_use()
    assert used.slots == (slots[0], *slots[3:]) and used.threads == {"a": (0, 0, 1), "b": (2, 1)}
    assert used.taken == {2: mapped.taken[4]} and used.empty == slots[1:3]
    for placement in (used, mapped):
        assert (placement.allocated_slots, placement.extra, placement.needed) == (4, 1, 5)
    assert used.in_use() is used
