"""Experiments with schedules: which rates are tried, what counts as sustained, and how predictions are judged."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from math import isnan, nan
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.errors import MissingProfile, WeirError
from scheduler.model.fragment import Slot
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.resources import Node, Supply
from scheduler.scheduling import SchedulingOptions, prepare, schedule
from tests.benches import ends, schedules_on_spark
from tests.benches.experiment_dataflows import ENDS, SHAPES, dataflow, kinds, parts
from tests.benches.experiments import (
    GROWS,
    STEP_PER_S,
    Sample,
    Stair,
    carried,
    due_ms,
    fit,
    is_over,
    loads_at,
    plan,
    stairs,
)
from tests.benches.highest_rate import highest_rate
from tests.benches.laboratory import placement_document, runs_as
from tests.benches.predict_again import at_their_speed, retold
from tests.benches.published_pairs import PUBLISHED_PAIRS
from workers.library.registry import task_types

RATES = st.floats(1, 1000)


@given(RATES, RATES)
def test_stairs_rise_from_below_to_beyond_what_is_predicted(planned, predicted):
    climb = stairs(planned, predicted, first_s=10, stair_s=5)
    assert [stair.counts for stair in climb[:3]] == [False, True, True] and climb[0].seconds == 10
    assert climb[0].rate_per_s <= climb[1].rate_per_s <= climb[2].rate_per_s
    rates = [stair.rate_per_s for stair in climb if stair.counts]
    assert rates == sorted(rates)
    assert rates[-1] > 1.5 * predicted and predicted in rates
    if planned <= rates[-1]:
        assert min(abs(rate - planned) for rate in rates) <= 0.0301 * planned


@given(st.lists(st.builds(Stair, st.floats(0.5, 300), st.floats(0.5, 10)), min_size=1, max_size=5))
def test_events_are_due_evenly_within_each_stair(climb):
    due = due_ms(climb)
    assert due == sorted(due) and len(due) == sum(stair.events for stair in climb)
    began_ms = 0.0
    for stair in climb:
        mine = [at for at in due if began_ms - 1 <= at < began_ms + 1000 * stair.seconds - 1]
        assert abs(len(mine) - stair.rate_per_s * stair.seconds) <= 2
        began_ms += 1000 * stair.seconds


def samples(rates, *, seconds=6.0, every=0.25):
    count = int(seconds / every)
    return [Sample(at * every, {task: int(rate * at * every) for task, rate in rates.items()}, {})
            for at in range(count)]


def test_a_stair_carries_what_its_slowest_task_lets_through():
    weights = {"source": 1.0, "a": 1.0, "b": 4.0}
    stair = carried(samples({"source": 50, "a": 50, "b": 200}), rate_per_s=50, parts=weights, source="source")
    assert stair.keeps_up and stair.carried_per_s == pytest.approx(50, rel=0.02)
    behind = carried(samples({"source": 50, "a": 50, "b": 160}), rate_per_s=50, parts=weights, source="source")
    assert not behind.keeps_up and behind.slowest == "b" and behind.carried_per_s == pytest.approx(40, rel=0.02)
    drained = carried(samples({"source": 50, "a": 80, "b": 320}), rate_per_s=50, parts=weights, source="source")
    assert drained.carried_per_s == pytest.approx(50, rel=0.02), "what had piled up before is not sustained"
    starved = carried(samples({"source": 30, "a": 30, "b": 120}), rate_per_s=50, parts=weights, source="source")
    assert not starved.keeps_up and starved.carried_per_s == pytest.approx(30, rel=0.03)
    assert not is_over([]) and not is_over([behind]) and is_over([stair, behind])
    little = replace(stair, carried_per_s=46.0)
    assert not is_over([stair, little]) and is_over([little, little])


@given(st.floats(-0.2, 0.2), st.booleans())
def test_a_stair_is_stable_where_latency_does_not_grow_as_in_a_trial(grows, some_hiccup):
    """By the slope that tells a profile's peak; one late batch is no growth."""
    late = [replace(sample, latency_s=1.0 + grows * sample.at_s if number % 4 == 0 else None)
            for number, sample in enumerate(samples({"source": 50, "a": 50}))]
    if some_hiccup:
        late[8] = replace(late[8], latency_s=30.0)
    stair = carried(late, rate_per_s=50, parts={"source": 1.0, "a": 1.0}, source="source")
    assert stair.keeps_up
    if not some_hiccup:
        assert stair.latency_slope == pytest.approx(grows, abs=1e-9)
    if abs(grows - GROWS) > 0.1:
        assert stair.stable == (grows < GROWS)
    grown = replace(stair, latency_slope=1.0)
    assert not grown.stable and not is_over([grown, grown]) and is_over([grown] * 3)
    assert not is_over([grown, replace(stair, latency_slope=0.0), grown])


def test_a_sink_at_which_nothing_arrives_is_not_stable():
    stair = carried(samples({"source": 50, "a": 50}), rate_per_s=50, parts={"source": 1.0, "a": 1.0}, source="source")
    assert stair.keeps_up and not stair.stable


def test_fits_by_correlation_and_by_equality():
    exact = fit([(1, 1), (2, 2), (4, 4)])
    assert (exact.correlation, exact.identity, exact.error) == (1, 1, 0)
    doubled = fit([(2, 1), (4, 2), (8, 4), (nan, 3)])
    assert doubled.points == 3 and doubled.correlation == pytest.approx(1) and doubled.identity < 0
    assert doubled.error == pytest.approx(1)
    assert isnan(fit([(1, 1)]).correlation) and isnan(fit([(1, 2), (3, 2)]).identity)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=3, max_size=20))
def test_the_correlation_is_that_of_numpy_and_no_less_than_equality(pairs):
    x, y = np.array(pairs).T
    if x.std() < 0.1 or y.std() < 0.1:
        return
    line = fit(pairs)
    assert line.correlation == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2, abs=1e-6)
    assert line.identity <= line.correlation + 1e-6


# Of the characters that the tasks have, in figures of our own.
KNOWN = (
    Profile("xml_document", (Point(1, 400, 0.9, 0.02),)),
    Profile("pi_viete", (Point(1, 200, 0.9, 0.01), Point(2, 190, 0.95, 0.02))),
    Profile("file_batches", (Point(1, 3000, 0.8, 0.02),)),
    Profile("http_get", (Point(1, 18, 0.1, 0.01, 0.05), Point(4, 70, 0.3, 0.03, 0.05), Point(8, 130, 0.5, 0.05, 0.1))),
    Profile("sql_lookup", (Point(1, 28, 0.1, 0.01, 0.05), Point(4, 110, 0.3, 0.03, 0.05))),
)
PROFILES = Profiles(KNOWN)
TASKS = kinds("http://127.0.0.1:1")
SLOTS = 2
SUPPLY = Supply(free=(Node("n1", tuple(Slot("n1", index) for index in range(SLOTS))),))


def job_at(name, rate_per_s, profiles=PROFILES):
    flow = dataflow(name, TASKS, path="events.parquet", run="x")
    return prepare(flow, task_types=task_types(), profiles=profiles, rate_per_s=rate_per_s)


def scheduled(name, pair, rate_per_s):
    return schedule(job_at(name, rate_per_s), pair, supply=SUPPLY)


def is_scheduled(name, pair, rate_per_s):
    try:
        return scheduled(name, pair, rate_per_s).slots <= SLOTS
    except WeirError:
        return False


def test_the_plan_has_every_pair_at_every_part_of_its_highest_rate():
    names = sorted(set(SHAPES) - {ENDS})
    planned = list(plan(names, PUBLISHED_PAIRS, (1.0, 0.5), job_at=job_at, supply=SUPPLY, slots=SLOTS))
    assert len(planned) == 2 * len(names) * len(PUBLISHED_PAIRS) and len(PUBLISHED_PAIRS) == 5
    made = {(name, pair, part): schedule for name, pair, part, schedule in planned
        if not isinstance(schedule, WeirError)}
    assert len(made) >= 20, {key[:3]: str(schedule) for *key, schedule in planned if isinstance(schedule, WeirError)}
    for (name, pair, part), planned_run in made.items():
        assert planned_run.slots <= SLOTS
        if part == 1.0:
            assert not is_scheduled(name, pair, planned_run.rate_per_s + STEP_PER_S)
        elif (name, pair, 1.0) in made:
            assert planned_run.rate_per_s == pytest.approx(0.5 * made[name, pair, 1.0].rate_per_s)
    none = highest_rate(
        lambda rate: job_at("linear", 1000 + rate), ("MBA", "SAM"), supply=SUPPLY, slots=SLOTS, step_per_s=1)
    assert none is None


def test_source_and_sink_end_no_plan():
    """They are tried up to rates that no dataflow reaches by its other tasks, with the profiles measured on two cores:
    else a plan and its prediction would end where measuring did."""
    measured = (
        Profile("xml_document", (Point(1, 1300, 0.97, 0.003),)), *KNOWN[1:3],
        Profile("http_get", (Point(1, 17, 0.09, 0.002), Point(4, 67, 0.15, 0.008), Point(16, 224, 0.41, 0.03))),
        Profile("sql_lookup", (Point(1, 27, 0.12, 0.003), Point(4, 112, 0.17, 0.013), Point(16, 416, 0.43, 0.055))))
    tried = (Profile(task_type, (Point(1, max(ends.RATES_PER_S), 0.08, 0.01),)) for task_type in ends.TYPES.values())
    profiles = Profiles([*measured, *tried])

    names = sorted(set(SHAPES) - {ENDS})
    of_measured = partial(job_at, profiles=profiles)
    for name, pair, _, planned_run in plan(names, PUBLISHED_PAIRS, (1.0,), job_at=of_measured, supply=SUPPLY,
            slots=SLOTS):
        limit = planned_run.prediction.routed.limit
        assert max(planned_run.rate_per_s, planned_run.sustained_per_s) < 0.9 * max(ends.RATES_PER_S), (name, pair)
        assert limit is None or not {"source", "sink"}.intersection(limit.reason.split()), (name, pair, limit.reason)


def test_a_pair_without_a_schedule_comes_with_the_reason_and_the_others_with_theirs():
    """Nobody has measured the look-up, which "enrich" has: that is told of it, and the other dataflow is planned."""
    profiles = Profiles([profile for profile in KNOWN if profile.task_type != "sql_lookup"])

    planned = list(plan(
        ["enrich", "fetch"], PUBLISHED_PAIRS, (1.0, 0.5), job_at=partial(job_at, profiles=profiles), supply=SUPPLY,
        slots=SLOTS))
    assert len(planned) == 2 * 2 * len(PUBLISHED_PAIRS)
    for name, _, _, outcome in planned:
        if name == "enrich":
            assert isinstance(outcome, MissingProfile) and outcome.facts["task_types"] == ["sql_lookup"]
        else:
            assert not isinstance(outcome, WeirError)


def test_loads_at_a_rate_are_those_of_the_prediction():
    planned = scheduled("linear", ("MBA", "SAM"), 40)
    at = loads_at(planned, min(40, planned.sustained_per_s))
    for load in planned.prediction.slots:
        assert at[load.slot.name] == (pytest.approx(min(1, load.cpu)), pytest.approx(load.memory))
    assert all(half[0] <= full[0] for half, full in zip(loads_at(planned, 20).values(), at.values(), strict=True))


def test_a_run_is_told_what_is_predicted_for_cores_as_fast_as_it_had():
    planned = scheduled("linear", ("MBA", "SAM"), 40)
    speeds = dict.fromkeys((profile.task_type for profile in planned.job.profiles.values()), 20.0)

    def ran(*of_stairs: float) -> dict:
        facts = {"stairs": [{"rate_per_s": 10.0 * number, "carried_per_s": 10.0 * number, "stable": True, "speeds": {
            slot.name: speed for slot in planned.placement.slots}} for number, speed in enumerate(of_stairs, start=1)]}
        at_their_speed(facts, planned, speeds, supply=SUPPLY)
        return facts

    same = ran(10.0, 20.0)
    assert same["predicted_at_speed_per_s"] == pytest.approx(planned.sustained_per_s), "of the highest stable stair"
    at = same["stairs"][1]["predicted_at_speed"]
    assert {name: (load["cpu"], load["memory"]) for name, load in at.items()} == loads_at(planned, 20.0)
    slow, fast = (ran(20.0, speed)["predicted_at_speed_per_s"] for speed in (10.0, 40.0))
    assert slow < planned.sustained_per_s < fast
    slower = ran(1.0, 10.0)["stairs"][1]["predicted_at_speed"]
    assert all(load["cpu"] >= at[name]["cpu"] for name, load in slower.items())
    speeds.popitem()
    assert "predicted_at_speed_per_s" not in ran(20.0), "a profile whose core's speed nobody noted"


def test_a_run_that_was_made_before_is_told_by_the_profiles_of_now_or_made_again():
    one = scheduled("linear", ("MBA", "SAM"), 40)
    stair = {"rate_per_s": 30.0, "carried_per_s": 30.0, "stable": True, "speeds": {}, "predicted": {}}
    before = {"dataflow": "linear", "pair": ["MBA", "SAM"], "key": "k", "stairs": [stair], **placement_document(one),
              "predicted_per_s": 1.0, "runs_as": runs_as(one)}
    stored = json.loads(json.dumps(before))
    now = retold(stored, scheduled, {}, supply=SUPPLY)
    assert now is not None and now["predicted_per_s"] == one.sustained_per_s and now["key"] == "k"
    assert {slot: (load["cpu"], load["memory"]) for slot, load in now["stairs"][0]["predicted"].items()} == loads_at(
        one, 30.0)
    assert stored == json.loads(json.dumps(before)), "what was read stays"
    [task, *_] = stored["runs_as"]
    [slot, *_] = stored["runs_as"][task]
    other = stored | {"runs_as": stored["runs_as"] | {task: {slot: [1, 0.123]}}}
    assert retold(other, scheduled, {}, supply=SUPPLY) is None, "other parts of the events"
    assert retold(stored | {"placement": {}}, scheduled, {}, supply=SUPPLY) is None
    assert retold(stored | {"planned_per_s": 1e6}, scheduled, {}, supply=SUPPLY) is None, "that it no longer has"
    assert retold({"key": "k", "error": "no"}, scheduled, {}, supply=SUPPLY) == {"key": "k", "error": "no"}


@pytest.mark.parametrize("name", SHAPES)
def test_a_task_names_columns_that_every_event_has(name):
    """Those of the recording: what the tasks before it add depends on the dataflow."""
    flow = dataflow(name, TASKS, path="events.parquet", run="x")
    named = {task.id: task.config for task in flow.tasks}
    assert set(named.get("archive", {}).get("columns", ["key"])) <= {"key"}
    assert "{key}" in named.get("download", {"url": "{key}"})["url"]
    assert ":key" in named.get("look_up", {"query": ":key"})["query"]


@pytest.mark.parametrize("name", SHAPES)
def test_parts_count_the_ways_from_the_source(name):
    streams = SHAPES[name]

    def ways(task):
        return 1 if task == "source" else sum(ways(parent) for parent, target in streams if target == task)

    assert parts(name) == {task: ways(task) for task in dict.fromkeys(end for ends in streams for end in ends)}


def test_drivers_have_run_source_and_sink_before_these_are_measured():
    """What a driver's first run leaves in its memory for good would count as the source's, in every schedule."""
    ran = []

    def run(planned, name, climb):
        ran.append((name, [stair.rate_per_s for stair in climb if stair.counts]))
        loads = {"n1/0": {"cpu": 0.06, "memory": 0.002}, "n1/1": {"cpu": 0.06, "memory": 0.001}}
        return {"placement": {"source": {"n1/0": 1}, "sink": {"n1/1": 1}}, "stairs": [
            {"rate_per_s": rate, "carried_per_s": rate, "stable": True, "loads": loads} for rate in ran[-1][1]]}

    lab, stored = SimpleNamespace(tasks=TASKS, supply=SUPPLY, run=run), {}
    sizes = schedules_on_spark.sizes_of(schedules_on_spark._options([]))
    for _ in range(2):  # the second time they are known
        ends_found = schedules_on_spark._ends(lab, sizes, stored, lambda: None)
        assert {entry.profile.task_type: entry.profile.one_thread.rate_per_s for entry, _ in ends_found} == {
            "replay": max(ends.RATES_PER_S), "output": max(ends.RATES_PER_S)}
        assert ran == [(ENDS, [max(ends.RATES_PER_S)]), (ENDS, list(ends.RATES_PER_S))]


def test_source_and_sink_are_measured_apart():
    flow = dataflow(ENDS, TASKS, path="events.parquet", run="x")
    job = prepare(flow, task_types=task_types(), profiles=PROFILES, rate_per_s=max(ends.RATES_PER_S))
    apart = ends.apart(job, supply=SUPPLY, options=SchedulingOptions())
    assert {task: list(counts) for task, counts in apart.placement.counts.items()} == {"source": [0], "sink": [1]}

    def stair(rate, source_cpu, sink_cpu, *, stable=True):
        return {"rate_per_s": rate, "carried_per_s": rate, "stable": stable, "loads": {
            "n1/0": {"cpu": source_cpu, "memory": 0.01}, "n1/1": {"cpu": sink_cpu, "memory": 0.0}}}

    climbed = [stair(50, 0.15, 0.1), stair(100, 0.2, 0.1), stair(300, 0.9, 0.9, stable=False)]
    source, sink = ends.profiles(
        climbed, slot_of={"source": "n1/0", "sink": "n1/1"}, machine="m", origin="here")
    assert (source.task_type, sink.task_type) == ("replay", "output")
    alone = source.one_thread
    assert (alone.rate_per_s, alone.cpu, alone.idle_cpu) == (100, 0.2, pytest.approx(0.1))
    assert sink.one_thread.idle_cpu == pytest.approx(0.1)
    assert not ends.reached(climbed) and ends.reached([*climbed, stair(max(ends.RATES_PER_S), 0.9, 0.9)])
    with pytest.raises(ValueError, match="did not keep up"):
        ends.profiles(climbed[2:], slot_of={"source": "n1/0", "sink": "n1/1"}, machine="m", origin="here")
