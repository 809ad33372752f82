"""The exact mapping: against every possibility on small cases, and where it has no time or no choice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.allocation.lsa import allocate_lsa
from scheduler.mapping import exact_mapping
from scheduler.mapping.effort import Effort
from scheduler.mapping.eligible import eligible_slots, on_few_nodes, useful_nodes
from scheduler.mapping.exact_mapping import map_exact
from scheduler.mapping.sam import map_sam
from scheduler.mapping.traffic import between_nodes_per_s
from scheduler.model.allocated import Allocation, Bundle, TaskAllocation
from scheduler.model.fragment import Slot
from scheduler.model.placement import Bound, Placement
from scheduler.model.profile import Point, Profile
from scheduler.model.resources import Node, Supply, TakenShare

from .schedules import BUY, SIZES, allocations, chain, check_bundles

EFFORT = 0.05


@settings(max_examples=40, deadline=None)
@given(allocation=allocations(tasks=5, most=2))
def test_exact_needs_no_more_slots_than_sam_and_no_more_traffic_with_as_many(allocation: Allocation):
    by_sam = map_sam(allocation, supply=BUY)
    ours = map_exact(allocation, supply=BUY, streams=chain(allocation), effort=EFFORT)
    assert len(ours.slots) <= len(by_sam.slots)
    assert ours.slots_bound.least <= len(ours.held) == ours.slots_bound.reached <= len(ours.slots)
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
    units = [bundle for task in allocation.tasks.values() for bundle in task.bundles for _ in range(bundle.count)]
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


@settings(max_examples=40, deadline=None)
@given(allocation=few_bundles(), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), data=st.data())
def test_exact_chooses_the_best_of_the_free_slots(allocation: Allocation, sizes: list[int], data: st.DataObject):
    """Nodes with uneven numbers of free slots, and machines to buy: every choice of slots, every way to use them."""
    nodes = tuple(Node(f"n{n}", tuple(Slot(f"n{n}", index) for index in range(size))) for n, size in enumerate(sizes))
    taken = {slot: TakenShare(0.3, 0.3) for node in nodes for slot in node.slots if data.draw(st.integers(0, 7)) == 0}
    supply, streams = Supply(nodes, SIZES, taken=taken), chain(allocation)
    ours = map_exact(allocation, supply=supply, streams=streams, effort=5.0)
    if ours.algorithm == "SAM":
        assert ours == replace(
            map_sam(allocation, supply=supply), slots_bound=ours.slots_bound, traffic_bound=ours.traffic_bound)
        return
    count = len(ours.slots)
    free = [slot.node for node in nodes for slot in node.slots if slot not in taken]
    rooms = Counter(free if count <= len(free) else [slot.node for slot in supply.slots(count)])
    choices = [
        tuple(Slot(name, number) for number, name in enumerate(names))
        for names in product(rooms, repeat=count) if Counter(names) <= rooms]
    units = [bundle for task in allocation.tasks.values() for bundle in task.bundles for _ in range(bundle.count)]
    ways = [where for where in product(range(count), repeat=len(units)) if _in_order(where) and _fits(units, where)]
    least = min(
        between_nodes_per_s(_as_placement(allocation, units, where, slots), streams)
        for slots in choices for where in ways)
    assert between_nodes_per_s(ours, streams) == pytest.approx(least, abs=1e-4)
    assert ours.traffic_bound.proved and ours.traffic_bound.gap == 0


def _in_order(where: tuple[int, ...]) -> bool:
    """Whether slots are numbered in the order in which they are begun: others are the same by other names."""
    return all(position <= max(where[:number], default=-1) + 1 for number, position in enumerate(where))



def _fits(units: list[Bundle], where: tuple[int, ...]) -> bool:
    for slot in set(where):
        placed = [unit for unit, position in zip(units, where, strict=True) if position == slot]
        if any(unit.full for unit in placed) and len(placed) > 1:
            return False
        if sum(unit.cpu for unit in placed) > 1 + 1e-9 or sum(unit.memory for unit in placed) > 1 + 1e-9:
            return False
    return True


def _as_placement(
    allocation: Allocation, units: list[Bundle], where: tuple[int, ...], slots: tuple[Slot, ...]
) -> Placement:
    threads: dict[str, tuple[int, ...]] = dict.fromkeys(allocation.tasks, ())
    for unit, position in zip(units, where, strict=True):
        threads[unit.task] += (position,) * unit.threads
    return Placement("by hand", allocation.slots, slots, threads)


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5), data=st.data())
def test_whatever_is_on_some_nodes_fits_on_those_that_are_worth_a_look(sizes: list[int], data: st.DataObject):
    """What is together stays together; so nothing is further apart there."""
    nodes = tuple(Node(f"n{n}", tuple(Slot(f"n{n}", index) for index in range(size))) for n, size in enumerate(sizes))
    parts = [part for size in sizes if (part := data.draw(st.integers(0, size)))]
    count = sum(parts)
    eligible = eligible_slots(Supply(nodes), count)
    worth = {name: len(eligible[name]) for name in useful_nodes(eligible, count)}
    assert any(
        all(sum(part for part, on in zip(parts, where, strict=True) if on == name) <= worth[name] for name in worth)
        for where in product(worth, repeat=len(parts)))
    few = on_few_nodes(eligible, count)
    assert len(set(few)) == count and set(few) <= set(Supply(nodes).slots(sum(sizes)))
    assert len({slot.node for slot in few}) <= max(1, len(parts))


def test_exact_takes_two_neighbours_to_the_node_that_holds_both():
    """One slot is free on n1 and four on n2: in the order of the supply all events would cross."""
    nodes = tuple(
        Node(name, tuple(Slot(name, index) for index in range(size))) for name, size in (("n1", 1), ("n2", 4)))
    tasks = {name: TaskAllocation(name, 1.0, (Bundle(name, 2, 1.0, 1.0, 1.0, full=True),)) for name in "ab"}
    allocation = Allocation("MBA", tasks)
    assert between_nodes_per_s(map_sam(allocation, supply=Supply(nodes)), {("a", "b"): 10.0}) == 10.0
    placement = map_exact(allocation, supply=Supply(nodes), streams={("a", "b"): 10.0})
    assert placement.slots == (Slot("n2", 0), Slot("n2", 1))
    assert placement.traffic_bound == Bound(0.0, 0.0, proved=True)


def test_where_the_solver_has_no_time_few_nodes_are_taken_all_the_same():
    sizes = (1, 1, 1, 3, 2, 1)
    nodes = tuple(Node(f"n{n}", tuple(Slot(f"n{n}", index) for index in range(size))) for n, size in enumerate(sizes))
    tasks = {name: TaskAllocation(name, 1.0, (Bundle(name, 1, 1.0, 0.9, 0.1),)) for name in "abcd"}
    allocation = Allocation("MBA", tasks)
    mapped = map_exact(allocation, supply=Supply(nodes), streams=chain(allocation), effort=0.0)
    check_bundles(mapped, allocation)
    assert [slot.name for slot in mapped.slots] == ["n0/0", "n3/0", "n3/1", "n3/2"]
    assert mapped.traffic_bound == Bound(10.0, 0.0, proved=False)


class Told(Effort):
    """What each of them spent is kept."""

    made: list[Told] = []

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        Told.made.append(self)


def test_all_calls_of_the_solver_share_one_effort(monkeypatch: pytest.MonkeyPatch):
    """Fifteen bundles that no two slots hold as well as they could, on machines of four slots."""
    monkeypatch.setattr(exact_mapping, "Effort", Told)
    monkeypatch.setattr(Told, "made", [])
    shares = [0.21 + 0.017 * number for number in range(15)]
    tasks = {
        f"t{number}": TaskAllocation(f"t{number}", 1.0, (Bundle(f"t{number}", 1, 1.0, share, 0.55 - share / 2),))
        for number, share in enumerate(shares)}
    allocation = Allocation("MBA", tasks)
    mapped = map_exact(allocation, supply=BUY, streams=chain(allocation), effort=0.1)
    check_bundles(mapped, allocation)
    packing, traffic = Told.made
    assert packing.seconds == 0.05 and traffic.seconds == pytest.approx(0.1 - packing.spent)
    assert packing.spent + traffic.spent < 0.2, "the solver looks at its clock now and then"
    assert 0 <= mapped.traffic_bound.least <= mapped.traffic_bound.reached
    none = map_exact(allocation, supply=BUY, streams=chain(allocation), effort=0.0)
    check_bundles(none, allocation)
    assert len(none.slots) <= len(map_sam(allocation, supply=BUY).slots)


def test_shares_that_fill_slots_to_the_last_digit_are_packed_and_what_is_proved_of_them_is_true():
    """Four, three and two ninths are a slot, and more than one as soon as they are rounded up."""
    profile = Profile("t", (Point(1, 90, 1.0, 0.1),))
    rates = dict(zip("abcdef", (40.0, 40.0, 30.0, 30.0, 20.0, 20.0), strict=True))
    allocation = allocate_lsa(rates, dict.fromkeys(rates, profile))
    assert len(map_sam(allocation, supply=BUY).slots) == 3
    mapped = map_exact(allocation, supply=BUY, streams=chain(allocation), effort=5.0)
    check_bundles(mapped, allocation)
    assert len(mapped.slots) == 2 and mapped.slots_bound == Bound(2, 2, proved=True)


def of_shares(*shares: float) -> Allocation:
    """A bundle of a task of its own for each of these shares of CPU."""
    return Allocation("any", {
        f"t{number}": TaskAllocation(f"t{number}", 1.0, (Bundle(f"t{number}", 1, 1.0, share, 0.1),))
        for number, share in enumerate(shares)})


def test_halves_that_only_rounding_makes_larger_share_a_slot():
    mapped = map_exact(of_shares(0.5 + 2e-10, 0.5 + 2e-10), supply=BUY, streams={})
    assert len(mapped.slots) == 1 and mapped.slots_bound == Bound(1, 1, proved=True)


def test_what_fits_by_rounded_shares_alone_is_no_packing():
    """Three of a third and a little share no slot, though no whole billionth says so: nothing is proved of it."""
    third = 1 / 3 + 6e-10
    allocation = of_shares(third, third, third, 0.9)
    mapped = map_exact(allocation, supply=BUY, streams=chain(allocation), effort=5.0)
    check_bundles(mapped, allocation)
    assert len(mapped.held) == 3 and mapped.slots_bound == Bound(3, 2, proved=False)
    apart = Supply(tuple(Node(f"n{number}", (Slot(f"n{number}", 0),)) for number in range(3)))
    spread = map_exact(allocation, supply=apart, streams=chain(allocation), effort=5.0)
    check_bundles(spread, allocation)
    assert len(spread.held) == 3 and not spread.traffic_bound.proved, "nor of traffic"
