"""What a schedule promises, stored and read: with what is known of its bounds, and as it was before they were told."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from scheduler.applying import apply_plan
from scheduler.model.encoding import freeze_plan, plan_from_json, plan_to_json, to_json, value_of
from scheduler.model.errors import AlteredPlan
from scheduler.model.placement import Bound, ThreadShortage
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.promise import BundlePromise, Load, ProfileUsed, Promise
from scheduler.model.resources import Catalogue, Node, Supply
from scheduler.pairs import PAIRS, Pair
from scheduler.planning import merged_plainly, plan_submission
from scheduler.scheduling import prepare, schedule

from .catalogue import PRICES, TYPES, flow
from .schedules import SIZES
from .test_rescheduling import ESTATE, SAM, submitted

OLD = Promise(
    rate_per_s=100.0, sustained_per_s=110.0, latency_s=0.9, rates_per_s={"make": 100.0},
    bundles=(BundlePromise("f1-0", "make", "n1/0", 1, 1.0, 100.0, None, 0.1, 0.1),), pair=("MBA", "SAM"),
    profiles=(ProfileUsed("make", "sensors", 1, "", "declared"),), others={"n1/0": Load(0.1, None)})
# As it was written before bounds came to be: what was approved then has this text in it, and its digest is of that.
TEXT = (
    '{"allocated":{},"between_nodes_per_s":0.0,"bundles":[{"basis":"measured","cpu":0.1,"id":"f1-0","memory":0.1,'
    '"rate_per_s":100.0,"share":1.0,"slot":"n1/0","sustains_per_s":null,"task":"make","threads":1}],"currency":"",'
    '"extra":0,"latency_s":0.9,"limit":"","others":{"n1/0":{"cpu":0.1,"memory":null}},"pair":["MBA","SAM"],'
    '"per_hour":0.0,"profiles":[{"machine":"","origin":"declared","task":"make","task_type":"sensors","version":1}],'
    '"rate_per_s":100.0,"rates_per_s":{"make":100.0},"routing":"slot_aware","sustained_per_s":110.0}')


def test_what_was_promised_before_bounds_were_told_stays_as_it_was():
    assert to_json(OLD) == TEXT
    plan = submitted(ESTATE, pair=SAM)
    assert plan.promise.slots_bound is None and "_bound" not in plan_to_json(plan)


def test_the_bounds_of_the_exact_mapping_are_part_of_what_is_approved():
    plan = submitted(ESTATE, pair=("MBA", "exact"), rate_per_s=300)
    slots = plan.promise.slots_bound
    assert slots.reached == len(plan.promise.slots) >= slots.least
    assert plan.promise.traffic_bound.reached >= plan.promise.traffic_bound.least
    assert plan_from_json(plan_to_json(plan)) == plan
    another = replace(plan.promise, slots_bound=replace(slots, proved=not slots.proved))
    assert freeze_plan(replace(plan, promise=another)).digest != plan.digest
    gap = replace(OLD, traffic_bound=Bound(8.0, 6.0, proved=False))
    text = to_json(gap)
    assert '"traffic_bound":{"least":6.0,"proved":false,"reached":8.0}' in text and "slots_bound" not in text
    assert value_of(Promise, json.loads(text)) == gap and value_of(Promise, json.loads(TEXT)) == OLD


def test_slots_whose_driver_has_too_few_threads_are_part_of_what_is_approved():
    crowded = replace(OLD, crowded={"n1/0": ThreadShortage(64, 90)})
    text = to_json(crowded)
    assert '"crowded":{"n1/0":{"driver_threads":64,"placed":90}}' in text and "crowded" not in to_json(OLD)
    assert value_of(Promise, json.loads(text)) == crowded


def test_a_plan_that_was_signed_when_a_drivers_threads_had_another_name_still_stands():
    plan = submitted(ESTATE, pair=SAM)
    plan = replace(plan, promise=replace(plan.promise, crowded={"n1/0": ThreadShortage(64, 90)}))
    data = json.loads(plan_to_json(plan))
    data["promise"]["crowded"] = {"n1/0": {"there": 64, "placed": 90}}
    del data["digest"]
    signed = json.dumps(data, sort_keys=True, separators=(",", ":"))
    stored = plan_from_json(data | {"digest": hashlib.sha256(signed.encode()).hexdigest()})
    assert replace(stored, digest=plan.digest) == plan
    data["promise"]["crowded"]["n1/0"]["placed"] = 91
    with pytest.raises(AlteredPlan):
        plan_from_json(data | {"digest": stored.digest})


def test_a_rate_that_is_asked_for_is_of_each_source_and_the_promise_of_all_together():
    two = flow("two", {"one": "sensors", "other": ("sensors", {"city": "turin"}), "by": ("scale", {"by": 2}),
                       "out": "archive"}, "one > by > out", "other > by", rates={"one": 10, "other": 30})
    chosen, as_submitted = submitted(ESTATE, two, rate_per_s=20).promise, submitted(ESTATE, two).promise
    assert chosen.rate_per_s == chosen.rates_per_s["one"] + chosen.rates_per_s["other"] == 40
    assert as_submitted.rate_per_s == 40 and as_submitted.rates_per_s["one"] == 10
    assert chosen.sustained_per_s >= 40 and chosen.kept_per_s == 40
    short = submitted(ESTATE, two, pair=("LSA", "DSM"), rate_per_s=200)
    assert f"sustain {short.promise.sustained_per_s:.4g} of the 400 events/s" in "".join(short.notes)


def test_a_source_that_runs_already_and_makes_more_is_told_of_too():
    """It is not scheduled again; a rate that is asked for is of it all the same, and without one it has its own."""
    sources, rates = {"one": "sensors", "other": ("sensors", {"city": "turin"})}, {"one": 10, "other": 30}
    first = flow("first", sources | {"off": "alarm"}, "one > off", "other > off", rates=rates)
    estate = apply_plan(ESTATE, plan_submission(
        ESTATE, first, dataflow_id="first", team="water", task_types=TYPES, prices=PRICES))
    two = flow("two", sources | {"by": ("scale", {"by": 2}), "out": "archive"}, "one > by > out", "other > by",
               rates=rates)
    plan = submitted(estate, two, rate_per_s=20)
    assert {bundle.task for bundle in plan.promise.bundles} == {"by", "out"}
    too_little, too_much = plan.notes
    assert too_little.startswith("one makes 10 events/s, and the schedule is for 20: it keeps slots")
    assert too_much == "other makes 30 events/s, and the schedule is for 20: events beyond what it sustains are late."
    assert submitted(estate, two).notes == submitted(estate, two, rate_per_s=10).notes[1:] == ()


def test_a_rate_that_a_source_never_makes_is_warned_about_before_it_is_approved():
    [note] = submitted(ESTATE, PI, rate_per_s=200).notes
    assert note.startswith("in makes 10 events/s, and the schedule is for 200")
    assert submitted(ESTATE, PI, rate_per_s=10).notes == ()


PI = flow("pi", {"in": "sensors", "by": ("scale", {"by": 2}), "out": "archive"}, "in > by > out")
OF_PI = Profiles([Profile("scale", (Point(1, 1093, 0.97, 0.0014),))])


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize(("rate_per_s", "free"), [(1500, 3), (3800, 6)])
def test_what_is_promised_for_an_hour_is_what_the_plan_asks_for_the_slots_that_hold_something(
    pair: Pair, rate_per_s: float, free: int
):
    """RSM puts threads on the first slot of a node that has memory, so that of LSA's others are left empty."""
    supply = Supply(
        (Node("n1", tuple(slot for slot in ESTATE.slots if slot.node == "n1")[:free]),),
        Catalogue(SIZES.sizes, slot_hour=PRICES.core_hour))
    merged = merged_plainly(ESTATE, PI, dataflow_id="pi", team="water", task_types=TYPES)
    job = prepare(PI, task_types=TYPES, profiles=OF_PI, rate_per_s=rate_per_s, among=merged.new)
    planned = schedule(job, pair, supply=supply)
    plan = plan_submission(
        ESTATE, PI, dataflow_id="pi", team="water", task_types=TYPES, prices=PRICES, schedule=planned)
    assert planned.slots == len(plan.promise.slots) == len(planned.prediction.slots)
    assert planned.acquisition.per_hour == plan.promise.per_hour == pytest.approx(plan.price.slots_per_hour_delta)
    assert plan.promise.per_hour == pytest.approx(PRICES.core_hour * planned.slots)
    assert (planned.slots < planned.placement.needed) is (pair == ("LSA", "RSM"))
