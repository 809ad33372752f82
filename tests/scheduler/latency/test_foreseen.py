"""A limit that no batch can keep to is told before anything runs, and no other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.foreseen import out_of_reach
from scheduler.latency.offers import Alone, expected_queries
from scheduler.latency.pacing import LimitOnWay
from scheduler.latency.real_time import choose_modes
from scheduler.model.costs import DECLARED
from scheduler.model.documents import read_document
from scheduler.model.latency_limits import LatencyLimit
from workers.library.registry import task_types

FLOW = read_document("""
name: Foreseen
tasks:
  - {id: city, type: urban_sensing}
  - {id: parse, type: senml_parse}
  - {id: mean, type: block_average, config: {window: 10}}
  - {id: all, type: output, config: {name: all}}
  - {id: means, type: output, config: {name: means}}
streams: [{from: city, to: parse}, {from: parse, to: all}, {from: parse, to: mean}, {from: mean, to: means}]
""", task_types=task_types())
TYPES = task_types()
BATCH_S = DECLARED.query_batch_s + sum(
    DECLARED.task_batch_s(TYPES[FLOW.task(name).type]) for name in ("city", "parse", "mean", "means"))
LEAST_S = BATCH_S * (1 + 0.5 / 0.8)


@pytest.mark.parametrize(("limit_s", "is_told"), [(0.02, True), (0.99 * LEAST_S, True), (1.01 * LEAST_S, False)])
def test_a_limit_below_what_the_slowest_way_takes_is_told(limit_s: float, is_told: bool) -> None:
    notes = out_of_reach(FLOW, (LatencyLimit(limit_s),), task_types=TYPES, costs=DECLARED)

    assert bool(notes) is is_told
    assert all("city to means" in note for note in notes)


def test_a_limit_along_some_tasks_is_held_against_these_alone() -> None:
    limit = LatencyLimit(0.08, along=("city", "parse"))

    assert out_of_reach(FLOW, (limit,), task_types=TYPES, costs=DECLARED) == ()
    (note,) = out_of_reach(FLOW, (LatencyLimit(0.03, along=("city", "parse")),), task_types=TYPES, costs=DECLARED)
    assert "city to parse" in note


@pytest.mark.parametrize(("along", "least_s"), [
    (("parse", "mean"), DECLARED.query_batch_s + sum(
        DECLARED.task_batch_s(TYPES[FLOW.task(name).type]) for name in ("parse", "mean"))),
    (("city -> parse", "parse", "parse -> mean"), DECLARED.query_batch_s + DECLARED.task_batch_s(
        TYPES[FLOW.task("parse").type]))])
def test_what_begins_behind_a_source_need_not_wait(along: tuple[str, ...], least_s: float) -> None:
    for times, is_told in ((0.99, True), (1.01, False)):
        limits = (LatencyLimit(times * least_s, along),)
        notes = out_of_reach(FLOW, limits, task_types=TYPES, costs=DECLARED)
        assert bool(notes) is is_told
        assert all(f"a batch of {limits[0].tasks[0]} " in note and limits[0].words in note for note in notes)


def test_a_stream_alone_is_never_out_of_reach() -> None:
    assert out_of_reach(FLOW, (LatencyLimit(0.02, ("parse -> mean",)),), task_types=TYPES, costs=DECLARED) == ()


CHAINS = (("city", "parse", "all"), ("mean", "means"))
RATES = {"city": 50.0, "parse": 50.0, "all": 50.0, "mean": 50.0, "means": 5.0}


def alone(*able: str) -> Alone:
    queries, way = expected_queries(FLOW, CHAINS, rates_per_s=RATES, task_types=TYPES, costs=DECLARED)
    return Alone(queries, way, {task: chain[0] for chain in CHAINS for task in chain}, frozenset(able))


@pytest.mark.parametrize(("limit", "able", "words"), [
    (LatencyLimit(0.06), (), "is out of reach: a batch of"),
    (LatencyLimit(0.06), ("city", "mean"), "rests on open batches, with which events take about"),
    (LatencyLimit(0.06), ("city",), "with open batches"),
    (LatencyLimit(0.06, percentile=99), ("city", "mean"), "rests on open batches"),
    (LatencyLimit(0.06, along=("city", "parse", "all")), ("city",), "rests on open batches"),
    (LatencyLimit(0.02, percentile=99), ("city", "mean"), "with open batches")])
def test_open_batches_count_as_if_they_were_there_and_it_is_told(
    limit: LatencyLimit, able: tuple[str, ...], words: str
) -> None:
    (note,) = out_of_reach(FLOW, (limit,), task_types=TYPES, costs=DECLARED, alone=alone(*able))

    assert words in note
    assert ("is out of reach" in note) != ("rests on open batches" in note)


@given(st.floats(0.02, 1.0), st.sampled_from([None, 50.0, 95.0, 99.0]), st.sets(st.sampled_from(["city", "mean"])))
def test_what_is_told_to_be_in_reach_is_chosen_so(
    limit_s: float, percentile: float | None, able: set[str]
) -> None:
    on_own, limit = alone(*able), LatencyLimit(limit_s, percentile=percentile)
    notes = out_of_reach(FLOW, (limit,), task_types=TYPES, costs=DECLARED, alone=on_own)
    chosen = choose_modes(
        on_own.queries, [LimitOnWay("w", on_own.way, limit.limit_s, limit.share)], dict.fromkeys(sorted(able), ""))

    is_met = chosen.paced.expected["w"].least_s is None
    if any("rests on open batches" in note for note in notes):
        assert is_met
        assert chosen.open <= able
    if any("out of reach" in note for note in notes):
        assert not is_met


def test_without_limits_there_is_nothing_to_tell() -> None:
    assert out_of_reach(FLOW, (), task_types=TYPES, costs=DECLARED) == ()
