"""Pacing: every path of every limit holds, though paths are never listed; nothing is changed without need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.latency import pacing
from scheduler.latency.interval_program import choose_intervals
from scheduler.latency.limits_met import LOWEST
from scheduler.latency.pacing import (
    AIM,
    LimitOnWay,
    Pacing,
    Queries,
    expected_at,
    expected_in_steps,
    interval_alone,
    pace,
)
from scheduler.latency.triggers import BatchCost, BatchPlan, Effective, PathLimit, latency_s
from scheduler.latency.ways import Way
from scheduler.model.latency_limits import LatencyLimit
from scheduler.model.standing_answers import STANDS_S, StandingAnswers

LARGEST_S = 8.0
CHEAP = BatchCost(batch_s=0.1, batch_cpu_s=0.05)


def paths_of(way: Way) -> Iterator[tuple[str, ...]]:
    """Every path of a way from a start to an end: the reference."""
    def back(query: str, rest: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        path = (query, *rest)
        if query in way.starts:
            yield path
        for writer in way.writers[query]:
            yield from back(writer, path)

    for end in way.ends:
        yield from back(end, ())


@st.composite
def problems(draw: st.DrawFn) -> tuple[Queries, list[LimitOnWay]]:
    """Up to seven queries, each reading some of those before it; up to three ways, which share queries."""
    names = [f"q{index}" for index in range(draw(st.integers(2, 7)))]
    reads = {name: tuple(sorted(draw(st.sets(st.sampled_from(names[:at]), max_size=3)))) if at else ()
             for at, name in enumerate(names)}
    costs = {name: BatchCost(draw(st.sampled_from([0.02, 0.1, 0.2])), draw(st.sampled_from([0.03, 0.06, 0.1])), 10,
                             draw(st.sampled_from([0.0, 0.002])), 0.0005) for name in names}
    wants = []
    for number in range(draw(st.integers(0, 3))):
        end = draw(st.sampled_from(names))
        covered, waiting = {end}, [end]
        while waiting:
            for writer in reads[waiting.pop()]:
                if writer not in covered:
                    covered.add(writer)
                    waiting.append(writer)
        way = Way({name: reads[name] for name in covered},
                  frozenset(name for name in covered if not reads[name]), frozenset({end}))
        wants.append(LimitOnWay(f"w{number}", way, draw(st.sampled_from([0.3, 1.0, 4.0, 20.0])),
                            share=draw(st.sampled_from([0.5, 0.95])), other_s=draw(st.sampled_from([0.0, 0.05]))))
    return Queries(costs, reads, largest_s=LARGEST_S), wants


def problem_of_a_hopeless_limit() -> tuple[Queries, list[LimitOnWay]]:
    """The tail of b's events is above its limit with any intervals; a's could be met, and needs a shorter interval."""
    slow = BatchCost(0.1, 0.1, 10, 0.002)
    queries = Queries({"a": slow, "b": replace(slow, batch_s=0.2)}, {"b": ("a",)}, largest_s=LARGEST_S)
    both = Way({"a": (), "b": ("a",)}, frozenset("a"), frozenset("b"))
    first = Way({"a": ()}, frozenset("a"), frozenset("a"))
    return queries, [
        LimitOnWay("w0", both, 0.3, 0.95), LimitOnWay("w1", first, 0.3, 0.95), LimitOnWay("w2", both, 0.3, 0.95)]


def test_without_a_limit_batches_are_as_rare_as_may_be() -> None:
    paced = pace(Queries({"a": CHEAP}, largest_s=LARGEST_S), [])

    assert paced.interval_s == {"a": LARGEST_S}


@settings(deadline=None)
@given(problems())
def test_no_path_of_any_limit_is_slower_than_is_told(problem: tuple[Queries, list[LimitOnWay]]) -> None:
    queries, wants = problem
    paced = pace(queries, wants)
    plan = BatchPlan(queries.costs, (), queries.reads)

    assert paced.interval_s.keys() == queries.costs.keys()
    for want in wants:
        expected = paced.expected[want.key]
        latencies = [want.other_s + latency_s(plan, path, Effective(plan, paced.interval_s), share=want.share)
                     for path in paths_of(want.way)]
        assert expected.latency_s == pytest.approx(max(latencies))
        assert want.other_s + sum(map(sum, expected.parts_s)) == pytest.approx(expected.latency_s)
        assert (expected.least_s is None) == (expected.latency_s <= want.limit_s)
        if expected.least_s is not None:
            assert expected.least_s > want.limit_s, "what could be met is met"


@settings(deadline=None)
@given(problems())
def test_what_was_saved_at_other_intervals_leaves_events_an_age(problem: tuple[Queries, list[LimitOnWay]]) -> None:
    queries, wants = problem
    wants = [replace(want, other_s=LOWEST * want.limit_s) for want in wants]
    shortest = dict.fromkeys(queries.costs, queries.smallest_s)
    for want, modelled in zip(wants, expected_at(
            queries, [replace(want, other_s=0.0) for want in wants], shortest).values(), strict=True):
        latency_s = expected_at(queries, wants, shortest)[want.key].latency_s
        assert 0 < modelled.latency_s / 2 <= latency_s * (1 + 1e-9)
        assert latency_s == pytest.approx(modelled.latency_s + want.other_s) or latency_s < want.limit_s


@settings(deadline=None)
@given(problems(), st.data())
def test_a_limit_that_is_impossible_needs_more_than_it_allows(
    problem: tuple[Queries, list[LimitOnWay]], data: st.DataObject
) -> None:
    queries, wants = problem
    slots = ["n/0", "n/1"][:data.draw(st.integers(1, 2))]
    queries = replace(
        queries, slot_of={query: data.draw(st.sampled_from(slots)) for query in queries.costs},
        capacity={slot: data.draw(st.sampled_from([0.05, 0.2, 0.6, 2.0])) for slot in slots})

    paced = pace(queries, wants)

    for want in wants:
        expected = paced.expected[want.key]
        here = {queries.slot_of[query] for query in want.way.writers}
        if expected.least_s is None:
            assert expected.latency_s <= want.limit_s
            assert not expected.full
        else:
            assert expected.least_s > want.limit_s
            assert set(expected.full) == here & set(paced.full)
            assert not expected.full or expected.least_s == expected.latency_s, "no CPU is left for less"


@settings(deadline=None)
@given(problems())
def test_steps_miss_for_good_what_no_intervals_meet(problem: tuple[Queries, list[LimitOnWay]]) -> None:
    queries, wants = problem
    planned = pace(queries, wants).expected

    stepped = expected_in_steps(queries, wants, dict.fromkeys(queries.costs, LARGEST_S))

    for want in wants:
        least_s = stepped[want.key].least_s
        assert least_s is None or least_s > want.limit_s
        if least_s is not None and planned[want.key].least_s is not None:
            assert least_s == pytest.approx(planned[want.key].least_s), "slots have no bound here"


@settings(deadline=None)
@given(problems())
@example(problem_of_a_hopeless_limit())
def test_a_limit_that_cannot_be_met_breaks_none_that_can(problem: tuple[Queries, list[LimitOnWay]]) -> None:
    queries, wants = problem
    latest = expected_in_steps(queries, wants, dict.fromkeys(queries.costs, LARGEST_S))
    possible = [want for want in wants if latest[want.key].least_s is None]
    alone = pace(queries, possible).expected

    beside = pace(queries, wants).expected

    for want in possible:
        assert alone[want.key].least_s is not None or beside[want.key].least_s is None


@settings(deadline=None)
@given(problems())
def test_it_takes_no_more_than_with_all_paths_listed(problem: tuple[Queries, list[LimitOnWay]]) -> None:
    queries, wants = problem
    limits = [PathLimit(path, AIM * want.limit_s, want.other_s, want.share) for want in wants for path in
              paths_of(want.way)]
    whole = choose_intervals(BatchPlan(queries.costs, limits, queries.reads, largest_s=LARGEST_S))

    paced = pace(queries, wants)

    if not whole.unmet:
        assert paced.cores <= whole.cores * 1.1 + 1e-6, "what is rounded down costs a little"


@settings(deadline=None)
@given(problems())
def test_what_is_in_force_is_chosen_again(problem: tuple[Queries, list[LimitOnWay]]) -> None:
    queries, wants = problem
    first = pace(queries, wants).interval_s

    assert pace(replace(queries, before_s=first), wants).interval_s == first


@pytest.mark.parametrize(("times", "stays"), [(1.03, True), (0.9, True), (3.0, False)])
def test_an_interval_that_would_change_little_stays(times: float, stays: bool) -> None:
    way = Way({"a": ()}, frozenset({"a"}), frozenset({"a"}))
    wants = [LimitOnWay("w", way, 1.0)]
    first = pace(Queries({"a": CHEAP}, largest_s=LARGEST_S), wants).interval_s
    other = BatchCost(CHEAP.batch_s * times, CHEAP.batch_cpu_s)

    again = pace(Queries({"a": other}, before_s=first, largest_s=LARGEST_S), wants)

    assert (again.interval_s == first) is stays
    assert again.expected["w"].latency_s <= 1.0


def test_a_full_slot_is_named_and_slows_what_no_limit_needs() -> None:
    way = Way({"a": ()}, frozenset({"a"}), frozenset({"a"}))
    queries = Queries({"a": CHEAP, "b": CHEAP}, slot_of={"a": "n/0", "b": "n/0"}, capacity={"n/0": 0.2},
                      largest_s=LARGEST_S)

    met = pace(queries, [LimitOnWay("w", way, 0.4)])
    unmet = pace(replace(queries, capacity={"n/0": 0.05}), [LimitOnWay("w", way, 0.4)])

    assert met.expected["w"].latency_s <= 0.4
    assert met.interval_s["b"] == LARGEST_S
    assert unmet.full == unmet.expected["w"].full == ("n/0",)
    assert unmet.expected["w"].least_s == unmet.expected["w"].latency_s > 0.4


def test_a_reader_that_nobody_waits_for_leaves_its_writer_room() -> None:
    cheap = BatchCost(batch_s=0.005, batch_cpu_s=0.002)
    way = Way({"a": ()}, frozenset({"a"}), frozenset({"a"}))
    queries = Queries({"a": cheap, "b": cheap, "c": cheap}, {"b": ("a",), "c": ("b",)}, largest_s=60.0)

    paced = pace(queries, [LimitOnWay("w", way, 0.05)])

    assert paced.interval_s["a"] < 0.1
    assert paced.interval_s["b"] == pytest.approx(100 * paced.interval_s["a"])
    assert paced.interval_s["c"] == 60.0
    assert paced.expected["w"].latency_s <= 0.05


def test_a_query_that_has_promised_more_has_no_longer_interval() -> None:
    queries = Queries({"a": CHEAP, "b": CHEAP}, largest_s=LARGEST_S, bounds_s={"b": 0.5})

    assert pace(queries, []).interval_s == {"a": LARGEST_S, "b": 0.5}


def test_a_percentile_takes_shorter_intervals_than_the_mean() -> None:
    way = Way({"a": ()}, frozenset({"a"}), frozenset({"a"}))
    queries = Queries({"a": CHEAP}, largest_s=LARGEST_S)

    mean = pace(queries, [LimitOnWay("w", way, 2.0)]).interval_s["a"]
    tail = pace(queries, [LimitOnWay("w", way, 2.0, share=0.99)]).interval_s["a"]

    assert tail == pytest.approx(mean * 0.5 / 0.99, rel=0.05)


@given(st.sampled_from([0.05, 0.3, 2.0, 30.0]), st.sampled_from([None, 95.0]))
def test_what_plans_are_priced_with_is_what_a_query_alone_gets(limit_s: float, percentile: float | None) -> None:
    limit = LatencyLimit(limit_s, percentile=percentile)
    way = Way({"a": ()}, frozenset({"a"}), frozenset({"a"}))
    paced = pace(Queries({"a": CHEAP}, largest_s=LARGEST_S), [LimitOnWay("w", way, limit_s, limit.share)])

    alone_s = interval_alone((limit,), batch_s=CHEAP.batch_s, largest_s=LARGEST_S)

    assert alone_s == pytest.approx(paced.interval_s["a"], rel=0.06), "but for what is rounded"
    assert interval_alone((), batch_s=CHEAP.batch_s, largest_s=LARGEST_S) == LARGEST_S
    assert interval_alone((replace(limit, along=("t",)),), batch_s=CHEAP.batch_s, largest_s=LARGEST_S) == alone_s


DRIFTS = st.sampled_from([1.0, 0.98, 1.02, 0.9, 1.1, 0.5, 2.0])


@settings(deadline=None)
@given(problems(), st.lists(
    st.tuples(st.sampled_from([1, 10, 30, 60]), DRIFTS, DRIFTS, st.integers(0, 6)), min_size=1, max_size=4))
def test_what_stands_meets_the_same_limits_and_is_chosen_anew_within_a_minute(
    problem: tuple[Queries, list[LimitOnWay]], rounds: list[tuple[int, float, float, int]]
) -> None:
    """Beside a site that solves everything in each round, from the same intervals in force."""
    queries, wants = problem
    queries = replace(queries, before_s=pace(queries, wants).interval_s)
    standing, now_s = StandingAnswers[Pacing](), 0
    pace(queries, wants, standing=standing)
    for later_s, batches, beyond, at in rounds:
        now_s += later_s
        name = sorted(queries.costs)[at % len(queries.costs)]
        cost = queries.costs[name]
        queries = replace(queries, costs=queries.costs | {name: replace(
            cost, batch_s=cost.batch_s * batches, batch_cpu_s=cost.batch_cpu_s * batches)})
        wants = [replace(want, other_s=want.other_s * beyond) for want in wants]
        anew = pace(queries, wants)

        standing.begin_round(now_s)
        paced = pace(queries, wants, standing=standing)

        for want in wants:
            expected, fresh = paced.expected[want.key], anew.expected[want.key]
            assert (expected.least_s is None) == (fresh.least_s is None), "what is missed is told at once"
            plan = BatchPlan(queries.costs, (), queries.reads)
            assert expected.latency_s == pytest.approx(max(
                want.other_s + latency_s(plan, path, Effective(plan, paced.interval_s), share=want.share)
                for path in paths_of(want.way))), "by what is measured now"
        if later_s >= STANDS_S:
            assert paced == anew
        queries = replace(queries, before_s=paced.interval_s)


def test_queries_are_solved_again_only_where_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    two = {f"{name}{number}": CHEAP for number in (1, 2) for name in "ab"}
    wants = [LimitOnWay(f"w{number}", Way({f"a{number}": (), f"b{number}": (f"a{number}",)}, frozenset([f"a{number}"]),
                                          frozenset([f"b{number}"])), 2.0) for number in (1, 2)]
    queries = Queries(two, {"b1": ("a1",), "b2": ("a2",)}, largest_s=LARGEST_S)
    queries = replace(queries, before_s=pace(queries, wants).interval_s)
    solved: list[set[str]] = []
    monkeypatch.setattr(pacing, "_solved", lambda of, members, *args, _solve=pacing._solved, **kwargs: (
        solved.append(set(members)), _solve(of, members, *args, **kwargs))[1])
    standing = StandingAnswers[Pacing]()
    standing.begin_round(0)
    pace(queries, wants, standing=standing)
    solved.clear()

    quiet = replace(queries, costs={name: replace(CHEAP, batch_s=CHEAP.batch_s * 1.02) for name in two})
    pace(quiet, wants, standing=standing)
    assert not solved, "a fiftieth more of a batch changes nothing"

    pace(replace(quiet, costs=quiet.costs | {"a2": replace(CHEAP, batch_s=0.4)}), wants, standing=standing)
    assert solved == [{"a2", "b2"}], "a slower batch matters to those that a limit joins to it"
    solved.clear()

    pace(queries, [replace(wants[0], limit_s=1.9), wants[1]], standing=standing)
    assert {"a1", "b1"} in solved, "another limit is seen at once"
