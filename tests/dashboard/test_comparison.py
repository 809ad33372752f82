"""Pairs side by side: what would change against today, which machines, which pair to look at first."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.schedules.comparison import Changes, best_of, changes, machines_of, rows_of
from scheduler.enactment import parts_of
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.fragment import RunningBundle, Slot
from scheduler.model.prices import VmSize
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.resources import Catalogue, Node, Supply, TakenShare
from scheduler.model.task_types import TaskType, TaskTypes
from scheduler.pairs import PAIRS, QUICK_PAIRS, pair_of
from scheduler.scheduling import Schedule, SchedulingOptions, compare, prepare, schedule

TYPES = TaskTypes([
    TaskType("make", "source", "Makes events.", "none:none"), TaskType("work", "transform", "Works.", "none:none")])
PROFILES = Profiles([
    Profile("make", (Point(1, 1, 0.1, 0.1),), static=True),
    Profile("work", (Point(1, 10, 0.3, 0.1), Point(4, 30, 0.9, 0.4)))])
FLOW = Dataflow("flow", (Task("make", "make"), Task("work", "work")), (Stream("make", "work"),))
SIZES = Catalogue((VmSize("small", 1, 0.1), VmSize("large", 4, 0.3)), slot_hour=0.05)
NODES = ("n1", "n2")


def supply(free: int = 8) -> Supply:
    """So many free slots on each of two nodes."""
    return Supply(tuple(Node(name, tuple(Slot(name, index) for index in range(free))) for name in NODES), SIZES)


def scheduled(rate: float, *, free: int = 8) -> Schedule:
    job = prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=rate)
    return schedule(job, ("MBA", "SAM"), supply=supply(free))


def as_it_runs(planned: Schedule) -> dict[str, list[RunningBundle]]:
    """The bundles that run once a schedule is enacted."""
    return {
        task: [RunningBundle("f1", part.slot, part.threads, part.weight) for part in parts]
        for task, parts in parts_of(planned).items()}


slots = st.builds(lambda node, at: f"{node}/{at}", st.sampled_from(NODES), st.integers(0, 9))
bundles = st.builds(RunningBundle, st.just("f"), slots, st.integers(1, 4), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
running = st.fixed_dictionaries({
    task: st.lists(bundles, max_size=5, unique_by=lambda bundle: bundle.slot) for task in ("make", "work")})


@settings(max_examples=60, deadline=None)
@given(st.integers(5, 200), running)
def test_every_bundle_of_either_side_is_counted_once(rate: int, today: dict[str, list[RunningBundle]]) -> None:
    planned = scheduled(rate)
    counts = changes(planned, today)
    working = [bundle for bundles in today.values() for bundle in bundles if not bundle.leaving]
    staying = counts.stay + counts.weigh + counts.move
    assert counts.start + staying == len(planned.prediction.bundles)
    assert counts.leave + staying == len(working)


@settings(max_examples=20, deadline=None)
@given(st.integers(5, 200))
def test_a_schedule_that_runs_changes_nothing(rate: int) -> None:
    planned = scheduled(rate)
    counts = changes(planned, as_it_runs(planned))
    assert counts == Changes(stay=len(planned.prediction.bundles)) and not counts.any
    assert changes(planned, {}) == Changes(start=len(planned.prediction.bundles))


@pytest.mark.parametrize("rate", [60, 90, 180, 210])  # two, three, six and seven bundles alike
def test_weights_are_compared_as_they_are_stored(rate: int) -> None:
    planned = scheduled(rate)
    weights = [bundle.weight for bundle in as_it_runs(planned)["work"]]
    assert len(weights) == rate / 30 and sum(weights) == pytest.approx(1, abs=1e-12)
    assert not changes(planned, as_it_runs(planned)).any


def test_what_changes_is_told_apart() -> None:
    planned = scheduled(25)  # one bundle of each task
    make, work = planned.prediction.bundles
    node, index = work.slot.node, work.slot.index
    for was, expected in (
        (RunningBundle("f", work.slot.name, work.threads, 0.5), Changes(weigh=1, stay=1)),
        (RunningBundle("f", work.slot.name, work.threads + 1), Changes(move=1, stay=1)),
        (RunningBundle("f", f"{node}/{index + 5}", work.threads), Changes(move=1, stay=1)),
        (RunningBundle("f", "n9/0", work.threads), Changes(start=1, leave=1, stay=1)),
    ):
        today = {"make": [RunningBundle("m", make.slot.name, make.threads)], "work": [was]}
        assert changes(planned, today) == expected


def test_a_rate_that_takes_millions_of_threads_is_answered_at_once() -> None:
    job = prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=1e12)
    comparison = compare(job, supply=supply(), options=SchedulingOptions(most_threads=10_000))
    assert not comparison.schedules and set(comparison.errors) == set(PAIRS)
    for error in comparison.errors.values():
        assert error.code == "rate_not_held" and error.facts["threads"] > 10**9
        assert "at most 10,000 are scheduled here" in error.message


def test_machines_to_buy_stand_apart_from_nodes_that_are_there() -> None:
    planned = scheduled(200, free=1)
    nodes, *bought = machines_of(planned.acquisition)
    assert (nodes.size, nodes.names, nodes.slots) == ("", NODES, 2)
    assert sum(machines.slots for machines in bought) == planned.slots - 2
    assert bought[0].size == "large"
    enough = scheduled(200)
    assert [machines.size for machines in machines_of(enough.acquisition)] == [""]


def test_the_first_to_look_at_keeps_the_rate_and_costs_least() -> None:
    job = prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=100)
    pairs = list(QUICK_PAIRS)
    rows = rows_of(compare(job, supply=supply(), pairs=pairs))
    best = best_of(rows)
    assert best is not None and best.keeps
    prices = [row.schedule.acquisition.per_hour for row in rows if row.keeps and row.schedule]
    assert best.schedule is not None and best.schedule.acquisition.per_hour == min(prices)
    assert best_of([]) is None
    assert [row.pair for row in rows] == pairs


def test_where_the_exact_mapping_is_that_of_sam_its_row_says_why() -> None:
    job = prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=100)
    alike = rows_of(compare(job, supply=supply()))
    assert len(alike) == len(PAIRS) and not any(row.note for row in alike)
    slots = tuple(Slot("n1", index) for index in range(10))
    shared = Supply((Node("n1", slots),), SIZES, taken={slot: TakenShare(0.05, 0.05) for slot in slots[1:]})
    noted = [row for row in rows_of(compare(job, supply=shared)) if row.note]
    assert [row.pair for row in noted] == [("LSA", "exact"), ("MBA", "exact")]
    assert {row.note for row in noted} == {"placed as by SAM: others have part of its slots"}


@pytest.mark.parametrize("key", ["", "MBA", "MBA-SAM-x", "SAM-MBA", "mba-sam"])
def test_what_is_no_pair_is_none(key: str) -> None:
    assert pair_of(key) is None
    assert pair_of("MBA-SAM") == ("MBA", "SAM")


def test_machines_of_the_paper_s_rule_stand_beside_cheaper_ones() -> None:
    """Five slots are a D4 by the rule, and a D3 with a D1 at the least price."""
    catalogue = Catalogue((VmSize("D1", 1, 0.1), VmSize("D3", 4, 0.4), VmSize("D4", 8, 0.8)))
    job = prepare(FLOW, task_types=TYPES, profiles=PROFILES, rate_per_s=400)
    rows = rows_of(compare(job, supply=Supply(catalogue=catalogue), pairs=QUICK_PAIRS))
    dearer = [row for row in rows if row.published]
    assert dearer, "some pair takes slots that no one size has"
    for row in rows:
        assert row.schedule is not None
        of_rule = row.schedule.published_acquisition
        assert bool(row.published) == (of_rule is not None)
        if of_rule is not None:
            assert row.schedule.acquisition.per_hour < of_rule.per_hour
            assert sum(machines.slots for machines in row.published) == row.to_buy
