"""What would meet a limit that nothing meets as it is: each way out holds when it is taken, and none is left out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.latency.pacing import LimitOnWay, Queries, pace
from scheduler.latency.real_time import choose_modes
from scheduler.latency.remedies import ASK, CHAIN, CHAIN_AND_SLOTS, SLOTS, Remedy, chains_among, remedies
from scheduler.latency.triggers import BatchCost, Counted
from scheduler.latency.ways import Way

QUERY = BatchCost(0.03, 0.03)
SLOT = 0.9


def line(names: str, cost: BatchCost, *, capacity: float = 10.0) -> Queries:
    reads = {reader: (writer,) for writer, reader in pairwise(names)}
    return Queries(
        dict.fromkeys(names, cost), reads, dict.fromkeys(names, 5.0), dict.fromkeys(names, "n/0"), {"n/0": capacity})


def wanted(names: str, limit_s: float) -> LimitOnWay:
    writers = {names[0]: (), **{reader: (writer,) for writer, reader in pairwise(names)}}
    return LimitOnWay("flow/0", Way(writers, frozenset(names[0]), frozenset(names[-1])), limit_s)


def offered(
    queries: Queries, want: LimitOnWay, chains: tuple[tuple[str, ...], ...] = (), able: Collection[str] = ()
) -> dict[str, Remedy]:
    return {remedy.kind: remedy for remedy in remedies(
        queries, want, chains=chains, query=QUERY, slot_cores=SLOT, able=able)}


def test_fewer_queries_meet_what_their_batches_one_after_the_other_do_not() -> None:
    queries, want = line("abc", BatchCost(0.05, 0.05)), wanted("abc", 0.15)
    assert pace(queries, [want]).expected["flow/0"].least_s is not None
    offers = offered(queries, want, (("a", "b", "c"),))

    assert set(offers) == {ASK, CHAIN}
    assert offers[CHAIN].fused == (("a", "b", "c"),)
    assert offers[CHAIN].latency_s <= 0.15
    assert offers[ASK].limit_s > 0.15
    assert offers[ASK].cores > 0, "batches come more often than every five seconds"


def test_nobody_is_told_to_ask_for_more_than_may_be_asked_for() -> None:
    offers = [offered(line("a", BatchCost(batch_s, 0.1)), wanted("a", 1.0)) for batch_s in (1_000.0, 4_000.0)]
    assert [ASK in offer for offer in offers] == [True, False]


def test_where_slots_are_full_more_of_them_are_counted() -> None:
    queries, want = line("ab", BatchCost(0.02, 0.05), capacity=0.3), wanted("ab", 0.2)
    offers = offered(queries, want)

    assert set(offers) == {ASK, SLOTS}
    assert offers[SLOTS].slots == 1
    assert set(offers[SLOTS].moved) <= {"a", "b"}
    assert offers[SLOTS].cores > 0.2


def test_both_together_are_offered_only_where_neither_does_alone() -> None:
    queries = line("abc", BatchCost(0.05, 0.05), capacity=0.4)
    offers = offered(queries, wanted("abc", 0.15), (("a", "b", "c"),))

    assert CHAIN not in offers
    assert SLOTS not in offers
    if CHAIN_AND_SLOTS in offers:
        assert offers[CHAIN_AND_SLOTS].slots >= 1


def test_what_others_take_of_a_slot_stays_theirs() -> None:
    queries, want = line("ab", BatchCost(0.02, 0.02), capacity=0.5), wanted("ab", 0.2)
    crowded = replace(
        queries, costs={**queries.costs, "x": BatchCost(0.1, 0.4)}, before_s={**queries.before_s, "x": 1.0},
        slot_of={**queries.slot_of, "x": "n/0"})

    assert SLOTS not in offered(queries, want)
    assert offered(crowded, want)[SLOTS].slots == 1


@pytest.mark.parametrize(("names", "passed", "latency_s"), [
    ("abc", "", 0.12), ("abc", "a", 0.12), ("abc", "c", 0.07), ("ab", "ab", 0.0)])
def test_what_is_fused_with_a_query_that_counts_counts(names: str, passed: str, latency_s: float) -> None:
    """Batches of a and b take 50 ms each, of both as one 70 ms; a stream between them takes no time then."""
    queries, whole = line("abc", BatchCost(0.05, 0.05)), wanted(names, 0.2)
    want = replace(whole, way=replace(whole.way, counted=Counted(False, frozenset(passed))))

    offers = offered(queries, want, (("a", "b"),))

    assert offers[CHAIN].latency_s == pytest.approx(latency_s)


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(2, 6)).filter(lambda part: sum(part) <= 6)))
def test_chains_are_the_longest_series_that_share_no_query(parts: set[tuple[int, int]]) -> None:
    path = "abcdef"
    series = {tuple(path[begin:begin + length]) for begin, length in parts}
    chains = chains_among(path, series)
    assert set(chains) <= series and list(chains) == sorted(chains)
    names = [name for chain in chains for name in chain]
    assert len(names) == len(set(names))
    for left in series - set(chains):  # what is left out shares a query with one that is no shorter
        assert any(set(left) & set(chain) and len(chain) >= len(left) for chain in chains)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4), st.floats(0.01, 0.2), st.floats(0.01, 0.3), st.floats(0.05, 1.0), st.floats(0.05, 2.0),
    st.floats(0, 50))
def test_whatever_is_offered_holds_when_it_is_taken(
    number: int, batch_s: float, cpu_s: float, capacity: float, limit_s: float, rate_per_s: float
) -> None:
    names = "abcd"[:number]
    cost = BatchCost(batch_s, cpu_s, rate_per_s, 0.001, 0.001)
    queries, want = line(names, cost, capacity=capacity), wanted(names, limit_s)
    chains = (tuple(names),) if number > 1 else ()
    offers = offered(queries, want, chains)

    if ASK in offers:
        lenient = replace(want, limit_s=offers[ASK].limit_s)
        assert pace(replace(queries, before_s={}), [lenient]).expected["flow/0"].least_s is None
    if SLOTS in offers:
        free = pace(replace(queries, before_s={}, capacity={}), [want])
        assert free.expected["flow/0"].latency_s == pytest.approx(offers[SLOTS].latency_s)
        left = sum(queries.costs[name].cores(free.interval_s[name]) for name in names if name not in offers[
            SLOTS].moved)
        assert left <= capacity + 1e-9
        assert 1 <= offers[SLOTS].slots <= len(offers[SLOTS].moved)
    for offer in offers.values():
        assert offer.latency_s <= offer.limit_s * (1 + 1e-6)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4), st.floats(0.01, 0.2), st.floats(0.05, 1.0), st.floats(0.02, 1.0), st.floats(0, 50),
    st.sets(st.sampled_from("abcd")))
@example(4, 0.1, 0.5, 0.1, 1e-9, {"a"})  # what so few events need is nothing for a solver
def test_where_batches_may_stay_open_less_latency_is_offered_and_it_holds(
    number: int, batch_s: float, capacity: float, limit_s: float, rate_per_s: float, able: set[str]
) -> None:
    names = "abcd"[:number]
    queries = line(names, BatchCost(batch_s, 0.05, rate_per_s, 0.001, 0.001), capacity=capacity)
    want, able = wanted(names, limit_s), able & set(names)
    offers, micro = offered(queries, want, able=able), offered(queries, want)
    if ASK in offers:
        lenient = replace(want, limit_s=offers[ASK].limit_s)
        chosen = choose_modes(replace(queries, before_s={}), [lenient], dict.fromkeys(able, ""))
        assert chosen.paced.expected["flow/0"].least_s is None
        if ASK in micro:
            assert offers[ASK].limit_s <= micro[ASK].limit_s * (1 + 1e-6)
    for offer in offers.values():
        assert offer.latency_s <= offer.limit_s * (1 + 1e-6)


def test_a_fused_query_may_stay_open_where_all_may_that_it_is_made_of() -> None:
    queries, want = line("abc", BatchCost(0.05, 0.05, 5, 0.0002, 0.0002)), wanted("abc", 0.1)
    chains = (("a", "b"),)
    whole, apart = offered(queries, want, chains, able="abc"), offered(queries, want, chains, able="bc")
    assert whole[CHAIN].latency_s <= 0.1
    assert whole[CHAIN].cores < 1, "open batches, not batches that follow one another"
    assert CHAIN not in apart
    assert apart[ASK].limit_s < offered(queries, want, chains)[ASK].limit_s


@settings(max_examples=40, deadline=None)
@given(st.floats(0.02, 0.3), st.floats(1.0, 300.0), st.floats(0.05, 1.0))
def test_what_a_part_is_told_counts_what_is_upstream_of_it(batch_s: float, rate_per_s: float, limit_s: float) -> None:
    """Batches of b hold what a leaves: they are quicker with a quicker a, and what that takes is in the price."""
    queries = line("ab", BatchCost(batch_s, 0.05, rate_per_s, 0.5 / rate_per_s))
    part = Way({"b": ()}, frozenset("b"), frozenset("b"), Counted(waits=False))
    want = LimitOnWay("flow/0", part, limit_s)

    lenient = offered(queries, want)[ASK]
    paced = pace(replace(queries, before_s={}), [replace(want, limit_s=lenient.limit_s)])

    assert paced.expected["flow/0"].least_s is None
    assert lenient.latency_s == pytest.approx(batch_s + 0.5 * max(paced.interval_s.values()), rel=0.12)
    taken = sum(cost.cores(paced.interval_s[name]) for name, cost in queries.costs.items())
    before = sum(cost.cores(5.0) for cost in queries.costs.values())
    assert lenient.cores == pytest.approx(taken - before, rel=0.15, abs=0.02)
