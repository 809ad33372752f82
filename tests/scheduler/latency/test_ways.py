"""Limits along a part: each sequence of tasks and streams is planned as its elements add up, however it is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.pacing import LimitOnWay, Queries, expected_at, pace
from scheduler.latency.ways import part_of, way_of
from scheduler.model.estate import Estate
from scheduler.model.latency_limits import LatencyLimit, stream_ends

from .lines import FLOW, LINES, Line, costs_of, lasts_s, line_of, waits_s

INTERVALS_S = st.sampled_from([0.1, 0.4, 1.0, 3.0, 10.0])


def planned_s(queries: Queries, estate: Estate, limit: LatencyLimit) -> float:
    way = way_of(estate, FLOW, limit)
    assert way is not None
    want = LimitOnWay("w", way, limit.limit_s, limit.share)
    return expected_at(queries, [want], queries.before_s)["w"].latency_s


def by_definition_s(line: Line, queries: Queries, sequence: tuple[str, ...], share: float) -> float:
    """The sum over elements: a batch for each query in which there is a task of the sequence, the wait for a source's
    batch with the source, and of a stream between queries what blocks wait for."""
    home, intervals_s = line.home, queries.before_s
    worked = {home[element] for element in sequence if stream_ends(element) is None}
    total_s = sum(lasts_s(queries, query, intervals_s) for query in worked)
    if sequence[0] == line.tasks[0]:
        total_s += share * intervals_s[home[sequence[0]]]
    for writer, reader in filter(None, map(stream_ends, sequence)):
        if home[writer] != home[reader]:
            total_s += waits_s(queries, home[reader], intervals_s, share)
    return total_s


def queries_of(line: Line, data: st.DataObject) -> Queries:
    costs = costs_of(line, data)
    return Queries(costs, line.reads, before_s={query: data.draw(INTERVALS_S) for query in costs}, largest_s=10.0)


@given(LINES, st.data())
def test_a_part_takes_what_its_elements_take(line: Line, data: st.DataObject) -> None:
    queries, (begin, end) = queries_of(line, data), data.draw(line.slices())
    limit = line.limit(begin, end, percentile=data.draw(st.sampled_from([None, 95])))

    assert planned_s(queries, line.estate, limit) == pytest.approx(
        by_definition_s(line, queries, line.elements[begin:end], limit.share))


@given(LINES, st.data())
def test_cut_at_any_element_the_parts_add_up_to_the_whole(line: Line, data: st.DataObject) -> None:
    queries, last = queries_of(line, data), len(line.elements)
    cuts = sorted({0, last, *data.draw(st.sets(st.integers(0, last)))})

    parts = sum(planned_s(queries, line.estate, line.limit(*ends)) for ends in pairwise(cuts))

    whole = planned_s(queries, line.estate, LatencyLimit(1.0))
    twice = sum(  # tasks of a query have its batch in common: a cut between them counts it in both parts
        lasts_s(queries, query, queries.before_s)
        for query in queries.costs for number in [line.parts_with(query, cuts)] for _ in range(number - 1))
    assert parts == pytest.approx(whole + twice)


@given(LINES, st.data())
def test_a_part_is_held_with_no_more_than_the_whole_takes(line: Line, data: st.DataObject) -> None:
    queries, (begin, end) = queries_of(line, data), data.draw(line.slices())
    limit_s = data.draw(st.sampled_from([0.3, 1.0, 5.0]))
    limits = {"part": line.limit(begin, end, limit_s=limit_s), "whole": LatencyLimit(limit_s)}
    wants = {name: LimitOnWay(name, way_of(line.estate, FLOW, limit), limit_s) for name, limit in limits.items()}

    part, whole = (pace(queries, [want]) for want in wants.values())

    held = part.expected["part"]
    assert held.least_s is None or held.least_s > limit_s
    if whole.expected["whole"].least_s is None:
        assert held.least_s is None
        assert held.latency_s <= limit_s
        assert part.cores <= 1.1 * whole.cores + 1e-6, "but for what is rounded, and kept"


def test_what_waits_in_front_of_a_part_is_not_on_it() -> None:
    line = line_of(["a", "b", "c"])
    queries = Queries(costs_of(line), line.reads, largest_s=8.0)

    def paced(along: tuple[str, ...]) -> dict[str, float]:
        way = way_of(line.estate, FLOW, LatencyLimit(0.6, along))
        interval_s = pace(queries, [LimitOnWay("w", way, 0.6)]).interval_s
        return {task: interval_s[query] for task, query in line.home.items()}

    assert paced(("b", "c")) == {"a": 8.0, "b": 8.0, "c": 8.0}, "b takes what is there, and c what it writes"
    assert paced(("a -> b", "b", "c")) == {"a": 8.0, "b": 8.0, "c": 8.0}, "they follow a at once"
    assert paced(("a", "b", "c"))["a"] < 1.0, "what comes to a waits for its batch"
    assert paced(("a", "a -> b"))["b"] < 1.0, "and for b to take it"


def test_a_stream_within_a_query_takes_no_time_and_a_task_within_it_all_of_its_batch() -> None:
    line = line_of(["abc"])
    queries = Queries(costs_of(line), line.reads, before_s={"f0": 4.0})

    for along, latency_s in {
        ("a -> b",): 0.0, ("b",): 0.1, ("b", "c"): 0.1, ("a -> b", "b"): 0.1, ("a",): 2.1, ("a", "a -> b"): 2.1,
    }.items():
        assert planned_s(queries, line.estate, LatencyLimit(1.0, along)) == pytest.approx(latency_s), along


def test_a_part_of_which_a_task_rests_is_not_looked_at() -> None:
    line = line_of(["a", "b"], resting={"b"})

    assert part_of(line.estate, FLOW, LatencyLimit(1.0, ("a",))) is not None
    assert way_of(line.estate, FLOW, LatencyLimit(1.0, ("a -> b",))) is None
