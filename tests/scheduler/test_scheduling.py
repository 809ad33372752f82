"""Schedules of all pairs side by side, and what is told where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.allocation.acquisition import cheapest_machines
from scheduler.enactment import require_slots
from scheduler.model.costs import Costs
from scheduler.model.errors import InsufficientSlots, InvalidResources, MissingProfile, RateNotHeld
from scheduler.model.fragment import Slot
from scheduler.model.prices import VmSize
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.resources import Catalogue, Node, Supply
from scheduler.pairs import PAIRS, QUICK_PAIRS, Pair
from scheduler.performance.declared import declared_profile
from scheduler.performance.rates import input_rates_per_s
from scheduler.scheduling import Job, SchedulingOptions, compare, prepare, schedule

from .catalogue import TYPES, flow
from .schedules import BUY, SIZES, check_bundles, check_placed, check_thread_shares

FLOW = flow(
    "air", {"in": "sensors", "by": ("scale", {"by": 2}), "some": "thin", "out": "archive"}, "in > by > some > out",
    rates={"in": 200})
PROFILES = Profiles([
    Profile("sensors", (Point(1, 1, 0.1, 0.15),), static=True),
    Profile("scale", (Point(1, 50, 0.6, 0.2), Point(4, 120, 0.9, 0.3))),
    Profile("thin", (Point(1, 500, 0.9, 0.05),)),
    Profile("archive", (Point(1, 100, 0.5, 0.1),)),
])


def job(rate_per_s: float | None = None, **more) -> Job:
    return prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=rate_per_s, **more)


def test_rates_go_along_the_streams_as_declared_or_as_measured():
    assert job().rates_per_s == {"in": 200, "by": 200, "some": 200, "out": pytest.approx(20)}
    assert job().rate_per_s == 200 and job(50).rates_per_s["by"] == 50
    measured = job(measured={("some", "out"): 0.5})
    assert measured.rates_per_s["out"] == 100 and measured.streams["some", "out"] == 100
    assert input_rates_per_s(FLOW, task_types=TYPES) == job().rates_per_s


def test_all_pairs_are_compared_and_each_keeps_its_word():
    comparison = compare(job(), supply=BUY)
    assert [planned.pair for planned in comparison.schedules] == list(PAIRS) and not comparison.errors
    for row in comparison.schedules:
        cheaper = tuple(node.size for node in row.acquisition.bought) if row.published_acquisition else ()
        check_placed(row.placement, row.allocation, replace(BUY, machines=cheaper))
        assert sum(len(node.slots) for node in row.acquisition.nodes) == row.slots
        assert row.acquisition.per_hour == pytest.approx(sum(node.size.hour for node in row.acquisition.nodes))
        assert row.sustained_per_s == pytest.approx(200 * row.prediction.factor) and row.latency_s > 0
    by_pair = {planned.pair: planned for planned in comparison.schedules}
    for allocation in ("LSA", "MBA"):
        assert by_pair[allocation, "exact"].slots <= by_pair[allocation, "SAM"].slots
    assert by_pair["MBA", "SAM"].prediction.keeps and by_pair["MBA", "exact"].prediction.keeps
    assert compare(job(), supply=BUY) == comparison, "the same question, the same answer"


def test_there_are_eight_pairs():
    assert len(set(PAIRS)) == 8


BY_RULE = SchedulingOptions(machines="published")  # cheaper machines have slots of other names


def test_thousands_of_single_threads_are_packed_into_the_fewest_slots():
    """Of few shapes: what LSA asks for many times over is a small question, and its answer is proved."""
    measured = Profiles([
        Profile("sensors", (Point(1, 1, 0.1, 0.15),), static=True), Profile("archive", (Point(1, 10**6, 0.5, 0.1),)),
        Profile("scale", (Point(1, 10, 0.3, 0.2),)), Profile("thin", (Point(1, 10, 0.2, 0.05),))])
    many = prepare(FLOW, task_types=TYPES, profiles=measured, rate_per_s=25_000)
    by_sam, ours = compare(many, supply=BUY, pairs=[("LSA", "SAM"), ("LSA", "exact")], options=BY_RULE).schedules
    assert ours.allocation.threads > 5_000
    check_placed(ours.placement, ours.allocation, BUY)
    check_bundles(ours.placement, ours.allocation)
    assert ours.placement.slots_bound.proved and ours.placement.slots_bound.least == ours.slots <= by_sam.slots


def test_mba_by_hand():
    """200 events/s of scale: one bundle of four threads for 120, and four threads again for 80."""
    planned = schedule(job(), ("MBA", "SAM"), supply=BUY)
    scale = planned.allocation.tasks["by"]
    assert [(bundle.threads, bundle.rate_per_s, bundle.full) for bundle in scale.bundles] == [(4, 120, True),
        (4, 80, False)]
    assert planned.allocation.cpu == pytest.approx(0.1 + 1.0 + 0.9 + 0.36 + 0.1) and planned.allocation.slots == 3


def test_free_slots_come_first_and_cost_their_share():
    free = (Node("n1", (Slot("n1", 0), Slot("n1", 1))),)
    planned = schedule(job(), ("MBA", "SAM"), supply=Supply(free, SIZES))
    assert planned.placement.slots[:2] == free[0].slots and planned.acquisition.nodes[0].name == "n1"
    assert planned.acquisition.per_hour == pytest.approx(2 * 0.05 + 0.1 * (planned.slots - 2))


PAIRED = Profiles([
    *(Profile(end, (Point(1, 1, 0.1, 0.1),), static=True) for end in ("sensors", "archive")),
    Profile("scale", (Point(1, 50, 0.5, 0.2), Point(4, 120, 0.8, 0.3)))])
STEEP = Catalogue((VmSize("S1", 1, 0.1), VmSize("S4", 4, 0.3), VmSize("S8", 8, 0.7)))


@settings(max_examples=25, deadline=None)
@given(rate_per_s=st.integers(50, 1500), free=st.integers(0, 3), pair=st.sampled_from(QUICK_PAIRS))
def test_the_cheapest_machines_are_bought_where_they_cost_less_and_change_nothing_else(
    rate_per_s: int, free: int, pair: Pair
):
    nodes = (Node("n1", tuple(Slot("n1", index) for index in range(free))),)
    supply, at = Supply(nodes, STEEP), prepare(PI, task_types=TYPES, profiles=PAIRED, rate_per_s=rate_per_s)
    by_rule = schedule(at, pair, supply=supply, options=SchedulingOptions(machines="published"))
    assert by_rule.published_acquisition is None
    planned = schedule(at, pair, supply=supply)
    if planned.published_acquisition is None:
        assert planned.placement == by_rule.placement and planned.acquisition == by_rule.acquisition
    else:
        assert planned.published_acquisition == by_rule.acquisition
        assert planned.acquisition.per_hour < by_rule.acquisition.per_hour
    new = sum(slot.node != "n1" for slot in (*by_rule.placement.slots, *by_rule.placement.empty))
    bought = sum(node.size.slots for node in planned.acquisition.bought)
    assert bought >= sum(slot.node != "n1" for slot in planned.placement.slots)
    if pair[1] != "RSM" and new:  # which may leave whole machines without a thread, or lend CPU within one
        least = sum(size.hour for size in cheapest_machines(new, STEEP.sizes))
        assert sum(node.size.hour for node in planned.acquisition.bought) == pytest.approx(least)
    assert planned.placement.threads == by_rule.placement.threads
    assert planned.placement.needed == by_rule.placement.needed
    assert planned.sustained_per_s == pytest.approx(by_rule.sustained_per_s)
    if pair[1] == "RSM":
        check_thread_shares(planned.placement, planned.allocation, cpu=not planned.placement.empty)


PI = flow("pi", {"in": "sensors", "by": ("scale", {"by": 2}), "out": "archive"}, "in > by > out")
OF_PI = Profiles([Profile("scale", (Point(1, 1093, 0.97, 0.0014),))])
LSA_RSM = ("LSA", "RSM")


def test_a_slot_that_holds_nothing_is_neither_taken_nor_paid_for():
    """RSM asks for two slots of the CPU of two threads, and has all of them on the first, which has the memory."""
    job_of_pi = prepare(PI, task_types=TYPES, profiles=OF_PI, rate_per_s=1500)
    free = (Slot("n1", 0), Slot("n1", 1))
    planned = schedule(job_of_pi, LSA_RSM, supply=Supply((Node("n1", free),), SIZES))
    assert (planned.allocation.slots, planned.placement.allocated_slots, planned.placement.extra) == (2, 2, 0)
    assert planned.placement.slots == free[:1] and planned.slots == 1 and not planned.prediction.keeps
    assert planned.acquisition.per_hour == pytest.approx(SIZES.slot_hour)
    with pytest.raises(InsufficientSlots):
        schedule(job_of_pi, LSA_RSM, supply=Supply((Node("n1", free[:1]),)))


def test_what_a_mapping_asks_for_has_to_be_there_though_it_leaves_some_of_it_empty():
    """Of four slots that RSM asks for two hold something, and two are free: as many as the CPU takes there are not."""
    job_of_pi = prepare(PI, task_types=TYPES, profiles=OF_PI, rate_per_s=3800)
    planned = schedule(job_of_pi, LSA_RSM, supply=Supply((Node("n1", (Slot("n1", 0), Slot("n1", 1))),), SIZES))
    assert (planned.placement.allocated_slots, planned.placement.needed, planned.slots) == (4, 4, 2)
    assert [slot.name for slot in planned.placement.slots] == ["n1/0", "new-1/0"]
    assert planned.acquisition.per_hour == pytest.approx(SIZES.slot_hour + 0.2), "a machine of the two slots asked for"
    with pytest.raises(InsufficientSlots, match="4 slots, and 2 are free here: 2 would be") as lacking:
        require_slots(planned)
    assert lacking.value.facts == {"needed": 4, "available": 2, "machines": {"D2": 1}}


@pytest.mark.parametrize("routing", ["slot_aware", "shuffle"])
def test_traffic_between_nodes_is_what_will_flow(routing: str):
    """Counted again from the bundles: what one makes goes to another by the part that the other gets."""
    nodes = tuple(
        Node(name, tuple(Slot(name, index) for index in range(count))) for name, count in (("n1", 2), ("n2", 9)))
    comparison = compare(job(400), supply=Supply(nodes), options=SchedulingOptions(routing=routing))
    assert len(comparison.schedules) == len(PAIRS)
    even = compare(job(400), supply=Supply(nodes), options=SchedulingOptions(routing="shuffle"))
    for one in comparison.schedules:
        of_task = {
            task: [bundle for bundle in one.prediction.bundles if bundle.task == task] for task in one.job.profiles}
        crossing = sum(
            rate_per_s * writer.share * reader.share
            for (source, target), rate_per_s in one.job.streams.items()
            for writer in of_task[source] for reader in of_task[target] if writer.slot.node != reader.slot.node)
        assert one.between_nodes_per_s == pytest.approx(crossing * min(1, one.prediction.factor))
    assert any(one.between_nodes_per_s > 0 for one in comparison.schedules)
    differ = [one.pair for one, other in zip(comparison.schedules, even.schedules, strict=True)
              if one.between_nodes_per_s != pytest.approx(other.between_nodes_per_s)]
    assert bool(differ) is (routing == "slot_aware")


def test_a_pair_without_a_schedule_says_why_and_the_others_have_theirs():
    narrow = Profiles([
        *(profile for task in FLOW.tasks if (profile := PROFILES.find(task)) and profile.task_type != "scale"),
        Profile("scale", (Point(4, 120, 0.9, 0.3),)),
    ])
    comparison = compare(prepare(FLOW, task_types=TYPES, profiles=narrow), supply=BUY)
    assert {pair[0] for pair in comparison.errors} == {"LSA"} and {row.pair[0]
        for row in comparison.schedules} == {"MBA"}
    assert all(isinstance(error, MissingProfile) and error.facts["fewest"] == 4 for error in comparison.errors.values())


def test_too_few_slots_are_told_with_the_numbers():
    free = Supply((Node("n1", (Slot("n1", 0), Slot("n1", 1))),))
    comparison = compare(job(), supply=free)
    assert not comparison.schedules
    for error in comparison.errors.values():
        assert isinstance(error, InsufficientSlots) and error.facts["available"] == 2 < error.facts["needed"]


def test_a_rate_that_takes_too_many_threads_is_refused_by_every_pair_at_once():
    """It was mapped for more than twenty seconds."""
    light = (Profile(end, (Point(1, 1, 0.1, 0.1),), static=True) for end in ("sensors", "archive"))
    measured = Profiles([*light, Profile("scale", (Point(1, 10, 0.6, 0.2),))])
    comparison = compare(prepare(PI, task_types=TYPES, profiles=measured, rate_per_s=1e6 + 10), supply=BUY)
    assert set(comparison.errors) == set(PAIRS)
    for error in comparison.errors.values():
        assert isinstance(error, RateNotHeld) and error.facts["threads"] > error.facts["most_threads"] == 100_000


@pytest.mark.parametrize("rate_per_s", [0.0, -5.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate_per_s: float):
    with pytest.raises(InvalidResources, match="events/s"):
        job(rate_per_s)


def test_tasks_without_a_profile_are_named():
    with pytest.raises(MissingProfile, match="2 of 2 tasks have no profile in use, of types scale, thin") as caught:
        prepare(FLOW, task_types=TYPES, profiles=Profiles([]))
    assert caught.value.facts["tasks"] == ["by", "some"], "sources and sinks have what their types declare"


def test_a_source_nobody_measured_has_what_its_type_declares():
    """8 µs for each of 200 events/s, and twice a second a batch of 33 ms for the query and 6 ms for the task."""
    measured = Profiles([Profile("scale", (Point(1, 50, 0.6, 0.2),)), Profile("thin", (Point(1, 500, 0.9, 0.05),))])
    profiles = prepare(FLOW, task_types=TYPES, profiles=measured).profiles
    assert (profiles["in"].origin, profiles["in"].static) == ("declared", True)
    assert profiles["in"].one_thread.cpu == pytest.approx(200 * 8e-6 + 2 * 0.039)
    assert profiles["out"].origin == "declared" and profiles["by"].origin == ""
    with pytest.raises(RateNotHeld, match="it declares") as caught:
        prepare(FLOW, task_types=TYPES, profiles=measured, rate_per_s=200_000)
    assert caught.value.facts["peak_per_s"] == pytest.approx((1 - 0.078) / 8e-6)


def test_a_source_nobody_measured_has_what_such_tasks_were_seen_to_take():
    """12 µs for each of 200 events/s, and twice a second a batch of 50 ms for the query and 9 ms for the task; the
    sink, of which none ran, what it declares, scaled as others were."""
    measured = Profiles([Profile("scale", (Point(1, 50, 0.6, 0.2),)), Profile("thin", (Point(1, 500, 0.9, 0.05),))])
    costs = Costs(
        query_batch_s=0.050, scale=1.5, queries=3, batch_s={"sensors": 0.009}, event_us={"sensors": 12.0})
    profiles = prepare(FLOW, task_types=TYPES, profiles=measured, costs=costs).profiles
    assert (profiles["in"].origin, profiles["out"].origin) == ("learned", "declared")
    assert profiles["in"].one_thread.cpu == pytest.approx(200 * 12e-6 + 2 * 0.059)
    assert profiles["out"].one_thread.cpu - 2 * 0.050 >= 1.5 * 2 * 0.006
    with pytest.raises(RateNotHeld, match="it was seen to take"):
        prepare(FLOW, task_types=TYPES, profiles=measured, rate_per_s=200_000, costs=costs)


def test_a_source_whose_batches_alone_take_more_than_a_slot_is_told_though_its_events_cost_nothing():
    free = replace(TYPES["sensors"], cost_us=0.0)
    assert declared_profile(free, rate_per_s=1e9, trigger_s=0.5).one_thread.cpu == pytest.approx(0.078)
    with pytest.raises(RateNotHeld, match=r"a batch every 0.02 s, one sustains 0") as caught:
        declared_profile(free, rate_per_s=10.0, trigger_s=0.02)
    assert caught.value.facts["peak_per_s"] == 0.0


def test_only_some_tasks_are_scheduled_where_the_others_run_already():
    job_ = prepare(FLOW, task_types=TYPES, profiles=PROFILES, among={"some", "out"})
    assert job_.rates_per_s == {"some": 200, "out": pytest.approx(20)} and set(job_.profiles) == {"some", "out"}
    assert set(job_.streams) == {("some", "out")} and job_.one_thread == {"out"}
    assert set(schedule(job_, ("MBA", "SAM"), supply=BUY).placement.threads) == {"some", "out"}


COUNTED = flow("c", {"in": "sensors", "by": ("scale", {"by": 2}), "n": "count", "off": "thin", "out": "archive"},
               "in > by > n > off > out")
OF_COUNTED = [
    Profile("sensors", (Point(1, 1, 0.1, 0.15),), static=True), Profile("archive", (Point(1, 300, 0.5, 0.1),)),
    Profile("scale", (Point(1, 50, 0.3, 0.2), Point(4, 120, 0.9, 0.3))), Profile("thin", (Point(1, 50, 0.6, 0.05),)),
    Profile("count", (Point(1, 180, 0.5, 0.1), Point(2, 150, 0.9, 0.1))),
]


def test_what_a_stateful_task_reads_keeps_its_order():
    """Threads of one bundle keep the order of events, bundles do not: before state there is one bundle."""
    job_ = prepare(COUNTED, task_types=TYPES, profiles=Profiles(OF_COUNTED), rate_per_s=120)
    assert job_.one_slot == {"in", "by", "n", "out"} and job_.one_thread == {"in", "n", "out"}
    for pair in (("MBA", "SAM"), ("MBA", "exact")):
        placed = schedule(job_, pair, supply=BUY).placement
        assert len(placed.threads["by"]) == 4 and len(set(placed.threads["by"])) == 1
        assert len(set(placed.threads["off"])) == 3, "behind the state it is divided"
    for pair in (*(pair for pair in PAIRS if pair[0] == "LSA"), ("MBA", "DSM"), ("MBA", "RSM")):
        with pytest.raises(RateNotHeld, match=r"^120 events/s are too many for task by: it cannot be .* sustains 50"):
            schedule(job_, pair, supply=BUY)
    more = prepare(COUNTED, task_types=TYPES, profiles=Profiles(OF_COUNTED), rate_per_s=130)
    with pytest.raises(RateNotHeld, match="No slot holds 130 events/s of scale: the peak measured is 120") as caught:
        schedule(more, ("MBA", "SAM"), supply=BUY)
    assert "Lower the rate" in caught.value.remedy and "ivide" not in caught.value.remedy, "which it may not be"


def test_state_is_not_divided():
    counting = flow("c", {"in": "sensors", "n": "count", "out": "archive"}, "in > n > out")
    measured = Profiles([
        Profile("sensors", (Point(1, 1, 0.1, 0.15),), static=True), Profile("archive", (Point(1, 100, 0.5, 0.1),)),
        Profile("count", (Point(1, 80, 0.5, 0.1), Point(2, 150, 0.9, 0.1))),
    ])
    at_100 = prepare(counting, task_types=TYPES, profiles=measured, rate_per_s=100)
    with pytest.raises(RateNotHeld) as caught:
        schedule(at_100, ("MBA", "SAM"), supply=BUY)
    assert caught.value.facts == {"task": "n", "rate_per_s": 100, "peak_per_s": 80, "threads": 1}
