"""What is promised of limits is what comes, in batches that are played without the planner's formulas.

The planner takes it that readers whose intervals are longer than their writers' begin at any time, that none begins
early, and that blocks of several writers wait a whole interval: so what comes may be less than is promised. It is more
by a twentieth at most: the batches of a busy query that does not follow its writer take now longer and now shorter, and
those of its readers with them, which the planner has in the mean alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

import pytest

from scheduler.latency.pacing import LimitOnWay, Pacing, Queries, pace
from scheduler.latency.remedies import ASK, remedies
from scheduler.latency.triggers import BatchCost, Counted
from scheduler.latency.ways import Way

from .batches import mean_s, played

LOW = 0.95  # of what comes: less may not be promised
LARGEST_S = 10.0


def between(rng: Random, least: float, most: float) -> float:
    """Evenly over powers of ten."""
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def cost_of(rng: Random, rate_per_s: float) -> BatchCost:
    busy = rng.choice([0.0, rng.uniform(0, 0.2), rng.uniform(0, 0.7)])
    return BatchCost(between(rng, 0.01, 1), between(rng, 0.01, 0.2), rate_per_s, busy / rate_per_s)


def way_along(paths: Sequence[Sequence[str]]) -> Way:
    writers: dict[str, set[str]] = {query: set() for path in paths for query in path}
    for path in paths:
        for writer, reader in pairwise(path):
            writers[reader].add(writer)
    return Way({query: tuple(sorted(of)) for query, of in writers.items()}, frozenset(path[0] for path in paths),
               frozenset(path[-1] for path in paths))


def line(rng: Random) -> tuple[Queries, dict[str, list[list[str]]]]:
    names = [f"q{at}" for at in range(rng.randint(1, 5))]
    rate_per_s = between(rng, 1, 300)
    reads = {reader: (writer,) for writer, reader in pairwise(names)}
    return Queries({name: cost_of(rng, rate_per_s) for name in names}, reads, largest_s=LARGEST_S), {"w0": [names]}


def fork(rng: Random) -> tuple[Queries, dict[str, list[list[str]]]]:
    """Two dataflows that share their first queries."""
    rate_per_s, shared = between(rng, 1, 300), ["a", "b"][: rng.randint(1, 2)]
    ends = [[*shared, *(f"{name}{at}" for at in range(rng.randint(1, 2)))] for name in "cd"]
    reads = {reader: (writer,) for path in ends for writer, reader in pairwise(path)}
    names = dict.fromkeys(name for path in ends for name in path)
    return Queries({name: cost_of(rng, rate_per_s) for name in names}, reads, largest_s=LARGEST_S), {
        "w0": [ends[0]], "w1": [ends[1]]}


def join(rng: Random) -> tuple[Queries, dict[str, list[list[str]]]]:
    """Two or three sources that a query reads, and one that reads that."""
    rates = {name: between(rng, 1, 300) for name in "abc"[: rng.randint(2, 3)]}
    costs = {name: cost_of(rng, rate_per_s) for name, rate_per_s in rates.items()}
    costs |= {name: cost_of(rng, sum(rates.values())) for name in "xy"}
    return Queries(costs, {"x": tuple(rates), "y": ("x",)}, largest_s=LARGEST_S), {
        "w0": [[name, "x", "y"] for name in rates]}


def comes_to_s(
    queries: Queries, interval_s: Mapping[str, float], paths: Sequence[Sequence[str]], rng: Random
) -> float:
    """The mean along the slowest path."""
    return max(map(mean_s, played(queries.costs, queries.reads, interval_s, paths, rng)))


@pytest.mark.parametrize(("kind", "number"), [  # the short run has the first fourth of the same worlds
    (line, 150), (fork, 75), (join, 40),
    *(pytest.param(*row, marks=pytest.mark.long) for row in ((line, 600), (fork, 300), (join, 150)))])
def test_what_is_promised_comes_and_limits_that_are_said_to_hold_do(kind, number) -> None:
    rng = Random(20_261)
    held = 0
    for _ in range(number):
        queries, paths = kind(rng)
        wants = [LimitOnWay(key, way_along(of), between(rng, 0.3, 20)) for key, of in paths.items()]

        paced = pace(queries, wants)

        for want in wants:
            expected = paced.expected[want.key]
            comes_s = comes_to_s(queries, paced.interval_s, paths[want.key], rng)
            assert expected.latency_s >= LOW * comes_s, (queries, want, paced)
            if expected.least_s is None:
                held += 1
                assert comes_s <= want.limit_s, (queries, want, paced)
    assert held > number / 3, "many limits can be held"


def test_a_reader_has_the_events_of_its_writers_interval() -> None:
    """By hand: batches of the writer are 2.5 s apart, so the reader's hold 2.5 s however often it may have them."""
    queries = Queries({"w": BatchCost(2, 0.1, 100, 0, 0), "r": BatchCost(0.01, 0.05, 100, 0.007, 0)}, {"r": ("w",)})
    want = LimitOnWay("w", way_along([["w", "r"]]), 4.0)
    paced = pace(queries, [want])

    least_s = 2.5 / 2 + 2 + 0.01 + 0.7 * 2.5
    assert paced.expected["w"].least_s == pytest.approx(least_s)
    assert paced.expected["w"].latency_s == pytest.approx(least_s)
    assert comes_to_s(queries, paced.interval_s, [["w", "r"]], Random(1)) == pytest.approx(least_s, rel=0.01)
    lenient, *_ = remedies(
        Queries(queries.costs, queries.reads, before_s=paced.interval_s), want, chains=(),
        query=BatchCost(0.05, 0.05), slot_cores=0.9)
    assert lenient.kind == ASK and lenient.limit_s == pytest.approx(least_s / 0.9)


def test_a_busy_reader_is_not_made_quicker_than_what_it_reads() -> None:
    queries = Queries({"w": BatchCost(1, 0.1, 100, 0, 0), "r": BatchCost(0.01, 0.05, 100, 0.005, 0)}, {"r": ("w",)})
    paced: Pacing = pace(queries, [LimitOnWay("w", way_along([["w", "r"]]), 4.0)])

    assert paced.interval_s["r"] >= paced.interval_s["w"] - 1e-9
    assert paced.cores == pytest.approx(0.15 / paced.interval_s["w"], rel=1e-3)


def test_a_part_has_the_events_of_what_is_upstream_of_it() -> None:
    """A limit on the reader's batch alone makes its writer quicker: that holds what it leaves for it."""
    queries = Queries({"w": BatchCost(0.1, 0.1, 100, 0, 0), "r": BatchCost(0.01, 0.05, 100, 0.005, 0)}, {"r": ("w",)})
    part = Way({"r": ()}, frozenset({"r"}), frozenset({"r"}), Counted(waits=False))
    paced = pace(queries, [LimitOnWay("part", part, 1.0)])

    assert paced.expected["part"].least_s is None
    assert paced.interval_s["w"] <= (0.9 - 0.01) / 0.5
    until_written_s, whole_s = (mean_s(pairs) for pairs in played(
        queries.costs, queries.reads, paced.interval_s, [["w"], ["w", "r"]], Random(2)))
    assert whole_s - until_written_s <= 1.0
