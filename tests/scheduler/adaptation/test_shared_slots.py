"""Choices of alternates on slots that tasks share: what they come to, and that they go nowhere back and forth."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.adaptation.adaptation_port import AdaptationProblem
from scheduler.adaptation.adaptation_registry import ADAPTATIONS
from scheduler.adaptation.shared_slots import (
    GAIN,
    MOST_CORES,
    MOST_TASKS,
    AdaptationRoom,
    candidate_of,
    choose_on_slots,
    offer_of,
    slot_class,
)
from scheduler.simulation.elastic import Alternate, ElasticDataflow
from scheduler.simulation.problem import BreakEven, Conditions

SLOTS = ("n1/0", "n1/1")


@st.composite
def chains(draw: st.DrawFn) -> tuple[AdaptationProblem, Conditions, dict[str, str], AdaptationRoom]:
    """Two to four tasks one behind the other on up to two slots, with one to three alternates each."""
    count = draw(st.integers(2, 4))
    names = [f"t{number}" for number in range(count)]
    tasks = {
        name: {way: Alternate(way, worth, draw(st.floats(1e-4, 1e-2)), draw(st.floats(0.1, 2.0)))
               for way, worth in zip("abc"[:draw(st.integers(1, 3))], (1.0, 0.8, 0.3), strict=False)}
        for name in names}
    where = {name: draw(st.sampled_from(SLOTS)) for name in names}
    room = AdaptationRoom(
        {slot: draw(st.floats(0.05, 0.95)) for slot in SLOTS if slot in where.values()},
        {name: {slot: 1.0} for name, slot in where.items()})
    dataflow = ElasticDataflow(tasks, tuple(itertools.pairwise(names)))
    problem = AdaptationProblem(
        dataflow, (slot_class(0.1, tasks=count),), BreakEven(draw(st.floats(0.5, 5.0)), 0.1), step_s=60.0,
        billing="seconds")
    active = {name: draw(st.sampled_from(sorted(ways))) for name, ways in tasks.items()}
    return problem, Conditions({names[0]: draw(st.floats(1.0, 500.0))}, 60.0), active, room


@settings(max_examples=60, deadline=None)
@given(chains())
def test_a_chain_lets_through_what_its_fullest_slot_does(case: tuple) -> None:
    problem, conditions, active, room = case
    needed: dict[str, float] = {}
    per_s = sum(conditions.rates_per_s.values())
    for task in problem.dataflow.upstream_first:
        alternate, (slot,) = problem.dataflow.tasks[task][active[task]], room.parts[task]
        needed[slot] = needed.get(slot, 0.0) + per_s * alternate.event_s
        per_s *= alternate.selectivity
    part = min(1.0, *(room.cores[slot] / cores for slot, cores in needed.items()))
    seen = candidate_of(problem, conditions, active, room)
    assert 0.95 * part <= seen.throughput <= part + 1e-9, "less by rounding to parts of a core alone"
    assert seen.cores <= sum(room.cores.values()) + 1e-9


@settings(max_examples=60, deadline=None)
@given(chains(), st.sampled_from(list(ADAPTATIONS)))
def test_what_is_chosen_helps_and_is_not_taken_back_at_the_same_load(case: tuple, algorithm: str) -> None:
    problem, conditions, active, room = case

    def answer_to(on: dict[str, str]):
        return choose_on_slots(
            problem, conditions, on, room, kind=ADAPTATIONS[algorithm])

    first = answer_to(active)
    assert answer_to(active) == first, "the same comes to the same"
    low, high = problem.least - problem.tolerance, problem.least + problem.tolerance
    if low < first.now.throughput < high:
        assert not first.switches
    if not first.switches:
        return
    if first.now.throughput <= low:
        assert first.chosen.throughput > first.now.throughput
    else:
        assert first.chosen.throughput >= problem.least - 1e-6
        assert first.chosen.profit > first.now.profit + GAIN
    been, on = [dict(active)], dict(first.chosen.active)
    for _ in range(8):
        assert on not in been, "nothing goes back and forth"
        been.append(on)
        answer = answer_to(on)
        if not answer.switches:
            break
        on = dict(answer.chosen.active)


@settings(max_examples=30, deadline=None)
@given(chains(), st.sampled_from(list(ADAPTATIONS)))
def test_an_offer_keeps_throughput_and_costs_its_cores(case: tuple, algorithm: str) -> None:
    problem, conditions, _, _ = case
    offer = offer_of(problem, conditions, algorithm=algorithm)
    assert offer.throughput >= problem.least - 1e-6
    assert offer.per_hour == pytest.approx(0.1 * offer.cores)


@settings(max_examples=20, deadline=None)
@given(chains())
def test_however_much_comes_a_choice_is_made(case: tuple) -> None:
    problem, conditions, active, room = case
    source = next(iter(conditions.rates_per_s))
    flood = Conditions({source: 1e9}, 60.0, {source: 1e12})
    answer = choose_on_slots(problem, flood, active, room, kind=ADAPTATIONS["CE"])
    assert answer.chosen.throughput >= answer.now.throughput and answer.more_slots > MOST_CORES
    with pytest.raises(ValueError, match="more to do"):
        offer_of(problem, flood, algorithm="CE")


def test_of_more_tasks_than_an_algorithm_is_asked_for_what_is_on_stays_or_a_neighbour_is_chosen() -> None:
    count = MOST_TASKS + 1
    ways = {"dear": Alternate("dear", 1.0, 1e-5), "cheap": Alternate("cheap", 0.5, 1e-6)}
    tasks = {f"t{number}": {"only": Alternate("only", 1.0, 1e-6)} for number in range(count - 1)} | {"last": ways}
    names = list(tasks)
    problem = AdaptationProblem(
        ElasticDataflow(tasks, tuple(itertools.pairwise(names))), (slot_class(0.1, tasks=count),), BreakEven(2.0, 1.0),
        step_s=60.0, billing="seconds")

    def nobody(*_: object, **__: object) -> None:
        raise AssertionError("an algorithm was asked")

    conditions, active = Conditions({"t0": 1.0}), {task: next(iter(on)) for task, on in tasks.items()}
    room = AdaptationRoom({"n1/1": 1e-6}, {name: {"n1/1": 1.0} for name in names})
    answer = choose_on_slots(
        problem, conditions, active, room, kind=replace(ADAPTATIONS["CE"], deploy=nobody, adapt=nobody))
    assert answer.switches in ({}, {"last": "cheap"})
    with pytest.raises(ValueError, match=f"{count} tasks"):
        offer_of(problem, conditions, algorithm="CE")
