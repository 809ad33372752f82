"""LSA and MBA against the published loops, in exact fractions; machines for the slots that come of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.allocation.acquisition import Acquisition, acquisition_of, cheapest_machines
from scheduler.allocation.lsa import allocate_lsa
from scheduler.allocation.mba import allocate_mba
from scheduler.model.allocated import Bundle
from scheduler.model.errors import InsufficientSlots, InvalidResources, MissingProfile, RateNotHeld
from scheduler.model.fragment import Slot
from scheduler.model.prices import VmSize
from scheduler.model.profile import Point, Profile
from scheduler.model.resources import Catalogue, Node, Supply

from .schedules import BUY, SIZES, profiles

Sums = tuple[int, Fraction, Fraction]


def published_lsa(rate: Fraction, profile: Profile) -> Sums:
    """Algorithm 2, line by line."""
    single = profile.points[0]
    peak, cpu_of, memory_of = Fraction(single.rate_per_s), Fraction(single.cpu), Fraction(single.memory)
    threads, cpu, memory = 0, Fraction(0), Fraction(0)
    while rate >= peak:
        threads, rate, cpu, memory = threads + 1, rate - peak, cpu + cpu_of, memory + memory_of
    if rate > 0:
        threads, cpu, memory = threads + 1, cpu + cpu_of * rate / peak, memory + memory_of * rate / peak
    return threads, cpu, memory


def published_mba(rate: Fraction, profile: Profile) -> Sums:
    """Algorithm 3, line by line."""
    peak = max(Fraction(point.rate_per_s) for point in profile.points)
    full = min(point.threads for point in profile.points if point.rate_per_s == peak)
    threads, cpu, memory = 0, Fraction(0), Fraction(0)
    while rate >= peak:
        threads, rate, cpu, memory = threads + full, rate - peak, cpu + 1, memory + 1
    if rate > 0:
        smallest = min((point for point in profile.points if point.rate_per_s >= rate), key=lambda point: point.threads)
        part = rate / Fraction(smallest.rate_per_s) if smallest.threads == 1 else 1
        threads, cpu = threads + smallest.threads, cpu + Fraction(smallest.cpu) * part
        memory += Fraction(smallest.memory) * part
    return threads, cpu, memory


@pytest.mark.parametrize(("allocate", "published"), [(allocate_lsa, published_lsa), (allocate_mba, published_mba)])
@given(many=st.lists(st.tuples(profiles(), st.fractions(0, 2000, max_denominator=8)), min_size=1, max_size=5))
def test_allocations_are_the_published_ones(allocate, published, many: list[tuple[Profile, Fraction]]):
    names = [f"t{number}" for number in range(len(many))]
    allocation = allocate(
        {name: float(rate) for name, (_, rate) in zip(names, many, strict=True)},
        {name: profile for name, (profile, _) in zip(names, many, strict=True)})
    total_cpu, total_memory = Fraction(0), Fraction(0)
    for name, (profile, rate) in zip(names, many, strict=True):
        threads, cpu, memory = published(rate, profile) if rate else (1, Fraction(0), Fraction(0))
        task = allocation.tasks[name]
        assert task.threads == threads
        assert (task.cpu, task.memory) == pytest.approx((float(cpu), float(memory)))
        assert sum(bundle.rate_per_s * bundle.count for bundle in task.bundles) == pytest.approx(float(rate))
        total_cpu, total_memory = total_cpu + cpu, total_memory + memory
    slack = Fraction(1, 10**9)
    assert allocation.slots == max(1, ceil(total_cpu - slack), ceil(total_memory - slack))


@given(peak=st.floats(0.1, 1000), times=st.integers(1, 1000))
def test_rounding_adds_no_thread(peak: float, times: int):
    """A rate that is so many peaks, but for the last digit, is so many threads."""
    profile = Profile("t", (Point(1, peak, 0.5, 0.1),))
    for allocate in (allocate_lsa, allocate_mba):
        assert allocate({"t": sum([peak] * times)}, {"t": profile}).threads == times


def test_what_may_not_be_divided_has_one_thread_or_an_error_with_the_numbers():
    profile = Profile("t", (Point(1, 100, 0.5, 0.1), Point(4, 300, 0.9, 0.1)))
    for allocate in (allocate_lsa, allocate_mba):
        assert allocate({"t": 100.0}, {"t": profile}, one_thread={"t"}).threads == 1
        with pytest.raises(RateNotHeld) as caught:
            allocate({"t": 101.0}, {"t": profile}, one_thread={"t"})
        assert caught.value.facts == {"task": "t", "rate_per_s": 101.0, "peak_per_s": 100, "threads": 1}


def test_bad_input_is_told():
    profile = Profile("t", (Point(2, 100, 0.5, 0.1),))
    with pytest.raises(MissingProfile, match="One thread of t was not measured"):
        allocate_lsa({"t": 5.0}, {"t": profile})
    with pytest.raises(MissingProfile, match="1 of 2 tasks"):
        allocate_mba({"t": 5.0, "u": 5.0}, {"t": profile})
    for rate in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidResources, match="events/s"):
            allocate_mba({"t": rate}, {"t": profile})


def test_a_static_task_has_one_thread_with_its_share_at_any_rate():
    source = Profile("source", (Point(1, 1, 0.10, 0.15),), static=True)
    for rate in (0.0, 1e6):
        task = allocate_mba({"s": rate}, {"s": source}).tasks["s"]
        assert (task.threads, task.cpu, task.memory) == (1, 0.10, 0.15)


@pytest.mark.parametrize("values", [
    {"threads": 1.5}, {"threads": 0}, {"count": 1.5}, {"count": float("nan")}, {"cpu": float("nan")}, {"cpu": -0.1},
    {"memory": float("nan")}, {"memory": "1"}, {"rate_per_s": float("nan")}, {"rate_per_s": float("inf")}])
def test_a_bundle_of_what_is_no_number_is_refused(values: dict):
    with pytest.raises(InvalidResources, match="A bundle of t has"):
        Bundle(**{"task": "t", "threads": 1, "rate_per_s": 10.0, "cpu": 0.5, "memory": 0.1} | values)


def acquire(slots: int, *, supply: Supply) -> Acquisition:
    """The machines of so many slots, taken in the order in which a supply offers them."""
    return acquisition_of(supply.slots(slots), supply=supply)


@given(slots=st.integers(1, 60), free=st.integers(0, 5))
def test_machines_are_as_few_as_published_and_slots_grow_one_by_one(slots: int, free: int):
    nodes = (Node("n1", tuple(Slot("n1", index) for index in range(free)), size=VmSize("big", 8, 0.8)),)
    supply = Supply(nodes, SIZES)
    got = acquire(slots, supply=supply)
    rest = max(0, slots - free)
    sizes = [node.size.slots for node in got.bought]
    assert sizes == [4] * (rest // 4) + ([{1: 1, 2: 2, 3: 4}[rest % 4]] if rest % 4 else [])
    assert got.per_hour == pytest.approx(0.1 * sum(sizes) + 0.1 * min(free, slots))
    assert sum(len(node.slots) for node in got.nodes) == slots
    assert tuple(slot for node in got.nodes for slot in node.slots) == supply.slots(slots + 1)[:slots]


# Microsoft Azure, Southeast Asia, as paper [2] (7.1) has it.
AZURE_D = Catalogue(
    (VmSize("D1", 1, 0.098), VmSize("D2", 2, 0.196), VmSize("D3", 4, 0.392), VmSize("D4", 8, 0.784)))


def test_the_published_catalogue():
    got = acquire(15, supply=Supply(catalogue=AZURE_D))
    assert [node.size.name for node in got.nodes] == ["D4", "D4"]
    assert got.per_hour == pytest.approx(1.568) and got.per_month == pytest.approx(1.568 * 730)


def test_five_slots_are_cheapest_as_four_and_one():
    """By the paper's rule they are a machine of eight, for 0.784."""
    published = acquire(5, supply=Supply(catalogue=AZURE_D))
    assert [node.size.name for node in published.nodes] == ["D4"] and published.per_hour == pytest.approx(0.784)
    sizes = cheapest_machines(5, AZURE_D.sizes)
    assert [size.name for size in sizes] == ["D3", "D1"]
    bought = acquire(5, supply=Supply(catalogue=AZURE_D, machines=sizes))
    assert bought.per_hour == pytest.approx(0.490) and [len(node.slots) for node in bought.bought] == [4, 1]


@st.composite
def catalogues(draw: st.DrawFn) -> Catalogue:
    """Up to four sizes of different numbers of slots; more slots need not cost more."""
    counts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True))
    return Catalogue(tuple(VmSize(f"S{slots}", slots, draw(st.integers(0, 40)) / 10) for slots in sorted(counts)))


def published_machines(slots: int, catalogue: Catalogue) -> list[VmSize]:
    """Paper [2], 7.1, line by line: the largest while it fills up, then the smallest that holds the rest."""
    machines, largest = [], max(catalogue.sizes, key=lambda size: size.slots)
    while slots >= largest.slots:
        machines, slots = [*machines, largest], slots - largest.slots
    if slots:
        machines.append(min((size for size in catalogue.sizes if size.slots >= slots), key=lambda size: size.slots))
    return machines


@settings(max_examples=200, deadline=None)
@given(slots=st.integers(1, 60), catalogue=catalogues())
def test_the_published_rule_is_kept_and_the_optimum_never_costs_more(slots: int, catalogue: Catalogue):
    by_rule = acquire(slots, supply=Supply(catalogue=catalogue))
    assert [node.size for node in by_rule.bought] == published_machines(slots, catalogue)
    cheapest = cheapest_machines(slots, catalogue.sizes)
    assert sum(size.slots for size in cheapest) >= slots
    assert sum(size.hour for size in cheapest) <= by_rule.per_hour + 1e-9
    bought = acquire(slots, supply=Supply(catalogue=catalogue, machines=cheapest))
    assert bought.per_hour <= by_rule.per_hour + 1e-9, "and so many slots are there to be taken"
    assert sum(len(node.slots) for node in bought.nodes) == slots


@settings(max_examples=100, deadline=None)
@given(slots=st.integers(0, 14), data=st.data())
def test_the_cheapest_machines_are_those_that_looking_at_all_finds(slots: int, data: st.DataObject):
    sizes = [
        VmSize(f"S{number}", data.draw(st.integers(1, 6)), data.draw(st.integers(0, 20)) / 10)
        for number in range(data.draw(st.integers(1, 3)))]
    bought = cheapest_machines(slots, sizes)
    assert sum(size.slots for size in bought) >= slots
    enough = (
        counts for counts in product(range(slots + 1), repeat=len(sizes))
        if sum(count * size.slots for count, size in zip(counts, sizes, strict=True)) >= slots)
    least = min(sum(count * size.hour for count, size in zip(counts, sizes, strict=True)) for counts in enough)
    assert sum(size.hour for size in bought) == pytest.approx(least)


def test_bad_resources_are_refused_with_the_numbers():
    with pytest.raises(InvalidResources, match="-1") as caught:
        Catalogue((VmSize("D1", 1, -1.0),))
    assert caught.value.facts["price"] == -1.0
    with pytest.raises(InvalidResources, match="0 slots"):
        Catalogue((VmSize("D1", 0, 1.0),))
    for slots in (1.5, float("nan"), float("inf"), "2", True):
        with pytest.raises(InvalidResources, match="Size D1 has"):
            Catalogue((VmSize("D1", slots, 1.0),))
    for price in (float("nan"), float("inf"), "1"):
        with pytest.raises(InvalidResources, match="Size D1 costs"):
            Catalogue((VmSize("D1", 1, price),))
    with pytest.raises(InvalidResources, match="Slot n1/0 is listed twice"):
        Supply((Node("n1", (Slot("n1", 0),) * 10),))
    with pytest.raises(InvalidResources, match="Slot n1/0 is listed twice"):
        Supply((Node("n1", (Slot("n1", 0),)), Node("n1", (Slot("n1", 0),))))
    with pytest.raises(InvalidResources, match="twice"):
        Catalogue((VmSize("D1", 1, 1.0), VmSize("D1", 2, 1.0)))
    with pytest.raises(InvalidResources, match="no size"):
        Catalogue(())
    with pytest.raises(InvalidResources, match="0 slots"):
        Supply()
    with pytest.raises(InsufficientSlots) as lacking:
        acquire(3, supply=Supply((Node("n1", (Slot("n1", 0),)),)))
    assert lacking.value.facts == {"needed": 3, "available": 1}
    assert acquire(1, supply=BUY).bought[0].size.name == "D1"
