"""What one team's wide dataflow may take of the choice of intervals, and what it may change for others."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from scheduler.latency import interval_program, pacing
from scheduler.latency.pacing import LimitOnWay, Pacing, Queries, pace
from scheduler.latency.real_time import choose_modes
from scheduler.latency.triggers import BatchCost, BatchPlan
from scheduler.latency.ways import Way
from scheduler.latency.wide_ways import MOST_STREAMS, MOST_TOGETHER, effort_of, is_wide, total_size
from scheduler.model.standing_answers import StandingAnswers

COST = BatchCost(0.02, 0.002, 10.0, 1e-5, 1e-5)
SMALL = LimitOnWay("small/0", Way({"s": (), "t": ("s",)}, frozenset({"s"}), frozenset({"t"})), 1.0)


def layers(count: int, width: int, limit_s: float) -> tuple[dict[str, tuple[str, ...]], LimitOnWay]:
    """Layers of queries, each joined to the next all to all, with one limit on the whole."""
    names = [[f"q{layer}.{place}" for place in range(width)] for layer in range(count)]
    reads = {name: tuple(names[layer - 1]) if layer else () for layer in range(count) for name in names[layer]}
    return reads, LimitOnWay("wide/0", Way(reads, frozenset(names[0]), frozenset(names[-1])), limit_s)


def fan(readers: int) -> tuple[dict[str, tuple[str, ...]], list[LimitOnWay]]:
    """Dataflows of many teams that share their source, each with a limit of its own."""
    reads: dict[str, tuple[str, ...]] = {"shared": ()}
    wants = []
    for number in range(readers):
        near, far = f"a{number}", f"b{number}"
        reads_of = {"shared": (), near: ("shared",), far: (near,)}
        reads |= reads_of
        way = Way(reads_of, frozenset({"shared"}), frozenset({far}))
        wants.append(LimitOnWay(f"d{number}/0", way, 1.0 + number % 7))
    return reads, wants


WIDE = layers(8, 10, 5.0)  # 700 streams
CASES = {
    "a wide dataflow": ([WIDE[0]], [WIDE[1]]),
    "a wide one whose limit nothing meets": ([WIDE[0]], [replace(WIDE[1], limit_s=0.05)]),
    "many that share a source": ([fan(150)[0]], fan(150)[1]),
}


@pytest.mark.parametrize("is_crowded", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_no_program_is_larger_than_its_bound_and_a_small_dataflow_keeps_its_limit(
    case: str, is_crowded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, one program had them all, and who looked at the estate each second waited for it for minutes."""
    (reads,), wants = CASES[case]
    sizes = []

    def choose_intervals(plan: BatchPlan) -> interval_program.Intervals:
        if len(plan.costs) > 1 and (plan.limits or plan.capacity):
            sizes.append(total_size(plan.reads, plan.costs))
        return interval_program.choose_intervals(plan)

    monkeypatch.setattr(pacing, "choose_intervals", choose_intervals)
    reads = {**reads, "s": (), "t": ("s",)}
    queries = Queries(dict.fromkeys(reads, COST), reads)
    if is_crowded:
        queries = replace(queries, slot_of=dict.fromkeys(reads, "n/0"), capacity={"n/0": 0.05})

    paced = pace(queries, [*wants, SMALL])

    assert max(sizes, default=0) <= MOST_TOGETHER
    assert paced.expected["small/0"].latency_s <= SMALL.limit_s
    alone = pace(Queries(dict.fromkeys("st", COST), {"s": (), "t": ("s",)}), [SMALL])
    assert {name: paced.interval_s[name] for name in "st"} == alone.interval_s, "as if there were nothing beside it"
    _is_consistent(queries, wants, paced)


def _is_consistent(queries: Queries, wants: list[LimitOnWay], paced: Pacing) -> None:
    """Limits hold or are told as missed, queries keep to their intervals, and a slot takes what it has."""
    for want in wants:
        expected = paced.expected[want.key]
        assert expected.latency_s <= want.limit_s or expected.least_s is not None
    for query, cost in queries.costs.items():
        assert cost.least_s - 1e-9 <= paced.interval_s[query] <= queries.largest_s
    for slot, capacity in queries.capacity.items():
        longest = sum(cost.cores(queries.largest_s) for query, cost in queries.costs.items())
        taken = sum(cost.cores(paced.interval_s[query]) for query, cost in queries.costs.items()
                    if queries.slot_of[query] == slot)
        assert taken <= max(capacity, longest) + 1e-9
        assert (slot in paced.full) == any(expected.least_s is not None for expected in paced.expected.values())


@pytest.mark.parametrize("limit_s", [2.0, 5.0, 30.0, 300.0])
def test_a_wide_limit_is_met_with_the_longest_interval_that_does(limit_s: float) -> None:
    """Held to each of the intervals that all queries could have, one after the other."""
    reads, want = layers(8, 10, limit_s)
    queries = Queries(dict.fromkeys(reads, COST), reads)

    paced = pace(queries, [want])

    (chosen_s,) = set(paced.interval_s.values())
    assert paced.expected[want.key].latency_s <= 0.9 * limit_s
    for times in (1.25, 1.5, 2.0, 4.0):
        longer_s = min(queries.largest_s, times * chosen_s)
        latency_s = pacing.expected_at(queries, [want], dict.fromkeys(reads, longer_s))[want.key].latency_s
        assert latency_s > 0.9 * limit_s or longer_s == queries.largest_s
    again = pace(replace(queries, before_s=paced.interval_s), [replace(want, limit_s=1.02 * limit_s)])
    assert again.interval_s == paced.interval_s, "little has changed"


def test_no_query_of_a_wide_way_opens_its_batches_and_others_do() -> None:
    reads, want = layers(8, 10, 0.05)
    reads = {**reads, "s": (), "t": ("s",)}
    small = replace(SMALL, limit_s=0.05)

    chosen = choose_modes(Queries(dict.fromkeys(reads, COST), reads), [want, small], dict.fromkeys(reads, ""))

    assert chosen.open and chosen.open <= {"s", "t"}


def test_a_round_has_so_much_effort_and_who_is_left_out_has_a_turn_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty dataflows of one team, whose turn takes four rounds; another team's small one is in the first."""
    spent: list[float] = []

    def choose_intervals(plan: BatchPlan) -> interval_program.Intervals:
        if len(plan.costs) > 1 and len(plan.limits) == 1:  # the first program of each, behind that without a limit
            spent.append(effort_of(plan.reads, plan.costs))
        return interval_program.choose_intervals(plan)

    monkeypatch.setattr(pacing, "choose_intervals", choose_intervals)
    reads: dict[str, tuple[str, ...]] = {"s": (), "t": ("s",)}
    wants = []
    for number in range(40):
        names = [f"q{number}.{place}" for place in range(5)]
        reads_of = {name: tuple(names[max(0, place - 1): place]) for place, name in enumerate(names)}
        reads |= reads_of
        wants.append(LimitOnWay(f"d{number}/0", Way(reads_of, frozenset(names[:1]), frozenset(names[-1:])), 2.0))
    queries = Queries(dict.fromkeys(reads, COST), reads, before_s=dict.fromkeys(reads, 30.0))
    most = 10 * effort_of(reads, names) + effort_of(reads, "st")
    standing, met = StandingAnswers[Pacing](most), []

    for now_s in range(0, 50, 10):
        spent.clear()
        standing.begin_round(now_s)
        paced = pace(queries, [*wants, SMALL], standing=standing)
        assert sum(spent) <= most
        assert paced.expected["small/0"].latency_s <= SMALL.limit_s
        late = [want for want in wants if paced.expected[want.key].latency_s > want.limit_s]
        met.append(len(wants) - len(late))
        assert bool(late) == bool(standing.left_out)
        assert all(paced.interval_s[query] == 30.0 for want in late for query in want.way.writers), "as they were"
        assert not any(paced.expected[want.key].least_s for want in late), "nobody says that they cannot be met"

    assert met == [10, 20, 30, 40, 40]


def test_the_bound_is_of_streams_upstream_of_a_limits_end() -> None:
    """Also of a limit along a part: how long its batches take depends on all before it."""
    reads = {f"{side}{number}": () if side == "a" else tuple(f"a{other}" for other in range(20))
             for side, number in product("ab", range(MOST_STREAMS // 20 + 1))}
    reads |= {f"a{number}": () for number in range(20)}
    part = LimitOnWay("p/0", Way({"b0": ()}, frozenset({"b0"}), frozenset({"b0"})), 1.0)
    whole = Way(reads, frozenset(name for name in reads if name[0] == "a"), frozenset({"b0", "b1"}))

    assert is_wide(reads, whole)
    assert not is_wide(reads, part.way)
