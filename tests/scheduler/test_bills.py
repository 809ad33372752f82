"""Bills: equal shares are the Shapley value, add up to the unit, and never grow when somebody joins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from itertools import pairwise, permutations
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.amounts import Amounts, round_together, share_out
from scheduler.reuse.cost_shares import BatchPart, BillShare, Need, divide

TASKS = [f"t{number}" for number in range(8)]
PLAYERS = 5
Game = tuple[dict[str, int], dict[str, set[str]]]


@st.composite
def games(draw: st.DrawFn, *, players: int = PLAYERS, unit: int = 1) -> Game:
    """Costs of some tasks, in multiples of a unit, and which of them each dataflow needs."""
    costs = {task: unit * draw(st.integers(0, 1000)) for task in TASKS}
    needs = {f"d{number}": draw(st.sets(st.sampled_from(TASKS))) for number in range(draw(st.integers(1, players)))}
    return costs, needs


def cost_of_union(costs: Mapping[str, int], needs: Mapping[str, Collection[str]]) -> Callable[[Collection[str]], int]:
    """What a coalition costs: each task that any of its members needs, once."""
    return lambda coalition: sum(costs[task] for task in {task for player in coalition for task in needs[player]})


def bills(costs: Mapping[str, int], needs: Mapping[str, Collection[str]]) -> dict[str, int]:
    """What each dataflow pays of all tasks for one moment."""
    pays = dict.fromkeys(needs, 0)
    for task, cost in costs.items():
        users = [Need(dataflow, 0) for dataflow in needs if task in needs[dataflow]]
        shares: tuple[BillShare, ...] = divide(Amounts(cost_nanos=cost), users, since_ms=1, until_ms=2, every_ms=1)
        assert all(share.alone.cost_nanos == cost for share in shares), "nobody pays more than alone"
        for share in shares:
            if share.dataflow is not None:
                pays[share.dataflow] += share.pays.cost_nanos
    return pays


def shapley(players: Collection[str], cost: Callable[[Collection[str]], int]) -> dict[str, Fraction]:
    """By the definition: what a player adds to those before it, on average over all orders of the players."""
    added = dict.fromkeys(players, 0)
    orders = list(permutations(players))
    for order in orders:
        for place, player in enumerate(order):
            added[player] += cost(order[: place + 1]) - cost(order[:place])
    return {player: Fraction(total, len(orders)) for player, total in added.items()}


# Multiples of what every number of users divides, so that no rounding hides a difference.
@given(games(unit=lcm(*range(1, PLAYERS + 1))))
def test_equal_shares_are_the_shapley_value(game: Game) -> None:
    costs, needs = game
    by_definition = shapley(needs, cost_of_union(costs, needs))
    assert bills(costs, needs) == by_definition


@pytest.mark.long
@given(games(players=6, unit=lcm(*range(1, 7))))
def test_equal_shares_are_the_shapley_value_of_six(game: Game) -> None:
    costs, needs = game
    by_definition = shapley(needs, cost_of_union(costs, needs))
    assert bills(costs, needs) == by_definition


@given(games())
def test_rounding_costs_nobody_more_than_a_unit_a_task(game: Game) -> None:
    costs, needs = game
    by_definition = shapley(needs, cost_of_union(costs, needs))
    for dataflow, bill in bills(costs, needs).items():
        assert abs(bill - by_definition[dataflow]) < max(1, len(needs[dataflow]))


@given(games(players=12))
def test_bills_add_up_to_what_is_needed(game: Game) -> None:
    costs, needs = game
    assert sum(bills(costs, needs).values()) == cost_of_union(costs, needs)(needs)


@given(games(players=12))
def test_nobody_pays_more_than_alone(game: Game) -> None:
    costs, needs = game
    cost = cost_of_union(costs, needs)
    for dataflow, bill in bills(costs, needs).items():
        assert 0 <= bill <= cost([dataflow])


@given(games(players=12), st.sets(st.sampled_from(TASKS)), st.sampled_from(["", "d0", "d55", "z"]))
def test_a_merge_raises_no_bill(game: Game, wanted: set[str], newcomer: str) -> None:
    costs, needs = game
    newcomer = newcomer or "a"
    after = bills(costs, {**{name: tasks for name, tasks in needs.items() if name != newcomer}, newcomer: wanted})
    before = bills(costs, {name: tasks for name, tasks in needs.items() if name != newcomer})
    assert all(after[dataflow] <= bill for dataflow, bill in before.items())


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**6), min_size=1, max_size=12))
def test_the_largest_remainder_keeps_every_unit_and_every_quota(total: int, weights: list[int]) -> None:
    parts = share_out(total, weights)
    assert sum(parts) == total
    whole = sum(weights)
    quotas = [Fraction(total * weight, whole) if whole else Fraction(total, len(weights)) for weight in weights]
    assert all(abs(part - quota) < 1 for part, quota in zip(parts, quotas, strict=True))
    if whole:
        assert all(part == 0 for part, weight in zip(parts, weights, strict=True) if not weight)


@given(st.lists(st.integers(0, 10**12), max_size=12), st.sampled_from([1, 1_000, 100_000, 10_000_000]))
def test_what_is_shown_adds_up(amounts: list[int], unit: int) -> None:
    shown = round_together(amounts, unit=unit)
    assert abs(unit * sum(shown) - sum(amounts)) <= unit / 2
    assert all(abs(unit * part - amount) < unit for part, amount in zip(shown, amounts, strict=True))


HOUR = 3_600_000
moments = st.integers(0, 3 * HOUR)


@st.composite
def needs_of_a_task(draw: st.DrawFn) -> list[Need]:
    """Up to five dataflows that need a task now and then, each at most once at a time."""
    needs = []
    for number in range(draw(st.integers(0, 5))):
        times = sorted(draw(st.sets(moments, min_size=1, max_size=4)))
        ends = [*times, None]
        needs += [Need(f"d{number}", ends[i], ends[i + 1]) for i in range(0, len(ends) - 1, 2)]
    return needs


amounts = st.builds(Amounts, *(st.integers(0, 10**9) for _ in range(4)))


@given(amounts, needs_of_a_task(), moments, st.integers(1, 3 * HOUR))
def test_divided_over_time_nothing_is_lost(used: Amounts, needs: list[Need], since_ms: int, length_ms: int) -> None:
    until_ms = since_ms + length_ms
    parts = divide(used, needs, since_ms=since_ms, until_ms=until_ms, every_ms=HOUR)
    assert sum((part.pays for part in parts), Amounts()) == used
    for part in parts:
        assert since_ms <= part.since_ms < part.until_ms <= until_ms
        assert part.since_ms // HOUR == (part.until_ms - 1) // HOUR
        middle = (part.since_ms + part.until_ms) / 2
        current = [n for n in needs if n.since_ms < middle and (n.until_ms is None or middle < n.until_ms)]
        assert part.users == len(current)
        assert part.dataflow in ({need.dataflow for need in current} or {None})


def lengths() -> st.SearchStrategy[tuple[int, int]]:
    """Since when somebody new needs a task, and for how long."""
    return st.tuples(moments, st.integers(1, 3 * HOUR))


@given(amounts, needs_of_a_task(), moments, st.integers(1, HOUR), lengths())
def test_a_newcomer_raises_no_share_by_more_than_two_units(
    used: Amounts, needs: list[Need], since_ms: int, length_ms: int, newcomer: tuple[int, int]
) -> None:
    """A share is what a user pays for a time in which the users stay the same; its other times are cut, and rounded,
    where the newcomer comes and goes."""
    times = {"since_ms": since_ms, "until_ms": since_ms + length_ms, "every_ms": HOUR}
    before = divide(used, needs, **times)
    after = divide(used, [*needs, Need("z", newcomer[0], sum(newcomer))], **times)
    for share in before:
        if share.dataflow is None:
            continue
        parts = [part for part in after if part.dataflow == share.dataflow
                 and share.since_ms <= part.since_ms < share.until_ms]
        pays = sum((part.pays for part in parts), Amounts())
        assert pays.cost_nanos <= share.pays.cost_nanos + 2 and pays.cpu_us <= share.pays.cpu_us + 2


@given(amounts, moments, st.integers(1, HOUR))
def test_who_left_pays_nothing_from_then_on(used: Amounts, left_ms: int, length_ms: int) -> None:
    needs = [Need("stays", 0), Need("left", 0, left_ms)]
    for part in divide(used, needs, since_ms=left_ms, until_ms=left_ms + length_ms, every_ms=HOUR):
        assert (part.dataflow, part.pays) == ("stays", part.alone)


def test_who_comes_in_the_middle_pays_half_of_the_second_half() -> None:
    needs = [Need("a", 0), Need("b", 500)]
    parts = divide(Amounts(cost_nanos=400), needs, since_ms=0, until_ms=1000, every_ms=HOUR)
    assert [(part.dataflow, part.pays.cost_nanos, part.alone.cost_nanos) for part in parts] == [
        ("a", 200, 200), ("a", 100, 200), ("b", 100, 200)]


INTERVALS = st.dictionaries(st.sampled_from("abcd"), st.integers(20, 60_000), min_size=1)


@given(INTERVALS, st.floats(0, 1), st.integers(0, 10**9))
def test_who_needs_batches_more_often_pays_for_them(intervals: dict[str, int], share: float, cpu_us: int) -> None:
    used = Amounts(cpu_us=cpu_us, memory_mb_s=1_000, cost_nanos=cpu_us)
    parts = divide(used, [Need(user, 0) for user in intervals], since_ms=0, until_ms=1_000, every_ms=10_000,
                   batches=BatchPart(share, intervals))

    assert sum((part.pays for part in parts), Amounts()) == used
    pays = {part.dataflow: part.pays.cpu_us for part in parts}
    order = sorted(intervals, key=lambda user: intervals[user])
    slack = 1 + cpu_us * len(intervals) / 1_000_000  # weights are whole parts of a million
    for stricter, other in pairwise(order):
        assert pays[stricter] >= pays[other] - slack
    for part in parts:
        assert part.pays.cpu_us <= part.alone.cpu_us + slack, "nobody pays more than alone"
        assert part.alone.memory_mb_s == 1_000


def test_where_it_is_not_known_who_needs_what_all_is_divided_evenly() -> None:
    used = Amounts(cpu_us=1_000)
    needs = [Need("a", 0), Need("b", 0)]
    parts = divide(used, needs, since_ms=0, until_ms=1_000, every_ms=10_000, batches=BatchPart(0.9, {"a": 100}))

    assert [part.pays.cpu_us for part in parts] == [500, 500]
    assert [part.alone.cpu_us for part in parts] == [1_000, 1_000]


def test_of_a_query_that_one_needs_ten_times_as_often_the_other_pays_half_of_what_it_needs() -> None:
    used = Amounts(cpu_us=1_000_000)
    parts = divide(used, [Need("slow", 0), Need("fast", 0)], since_ms=0, until_ms=1_000, every_ms=10_000,
                   batches=BatchPart(1.0, {"slow": 5_000, "fast": 500}))

    pays = {part.dataflow: part.pays.cpu_us for part in parts}
    assert pays == {"slow": 50_000, "fast": 950_000}
    assert {part.dataflow: part.alone.cpu_us for part in parts} == {"slow": 100_000, "fast": 1_000_000}


@given(INTERVALS, st.integers(20, 60_000), st.floats(0, 1), st.floats(0, 1), st.integers(0, 10**9))
def test_what_is_for_batches_and_for_limits_is_a_part_of_what_is_paid(
    intervals: dict[str, int], unlimited_ms: int, share: float, of_cpu: float, cpu_us: int
) -> None:
    used = Amounts(cpu_us=cpu_us, memory_mb_s=1_000, cost_nanos=3 * cpu_us)
    parts = divide(
        used, [Need(user, 0) for user in intervals], since_ms=0, until_ms=1_000, every_ms=10_000,
        batches=BatchPart(share, intervals, unlimited_ms), cpu_part_of_cost=of_cpu)

    assert sum((part.pays for part in parts), Amounts()) == used
    batches = sum((part.batches for part in parts), Amounts())
    limits = sum((part.for_limit for part in parts), Amounts())
    strictest_ms = min(intervals.values())
    for_limits = max(0.0, 1 - strictest_ms / unlimited_ms)
    for taken, whole in ((batches.cpu_us, share * cpu_us), (batches.cost_nanos, share * of_cpu * 3 * cpu_us)):
        assert whole * (1 - 1e-4) - 2 * len(parts) <= taken <= whole * (1 + 1e-12), "to the rounding of weights"
    for taken, whole in (
            (limits.cpu_us, for_limits * share * cpu_us),
            (limits.cost_nanos, for_limits * share * of_cpu * 3 * cpu_us)):
        assert whole * (1 - 1e-4) - 2 * len(parts) - 1e-4 * cpu_us <= taken <= whole * (1 + 1e-9)
    for part in parts:
        assert 0 <= part.for_limit.cpu_us <= part.batches.cpu_us <= part.pays.cpu_us
        assert 0 <= part.for_limit.cost_nanos <= part.batches.cost_nanos <= part.pays.cost_nanos
        assert part.for_limit.memory_mb_s == part.batches.memory_mb_s == 0
        if intervals[part.dataflow] >= unlimited_ms:
            assert part.for_limit == Amounts(), "nothing where no limit asks for more batches"


@given(INTERVALS, st.floats(0, 1), st.integers(1, 10**9))
def test_what_is_told_of_batches_changes_no_bill(intervals: dict[str, int], share: float, cpu_us: int) -> None:
    used, needs = Amounts(cpu_us=cpu_us, cost_nanos=cpu_us), [Need(user, 0) for user in intervals]
    times = {"since_ms": 0, "until_ms": 1_000, "every_ms": 10_000}
    plain = divide(used, needs, **times)
    as_often = divide(used, needs, **times, batches=BatchPart(share, dict.fromkeys(intervals, 500), 10_000))
    assert [(part.dataflow, part.pays, part.alone) for part in plain] == [
        (part.dataflow, part.pays, part.alone) for part in as_often]
    assert all(part.for_limit is None and not part.batches for part in plain), "nothing is known of batches"


def test_where_it_is_not_known_who_needs_what_nothing_is_said_of_limits() -> None:
    needs = [Need("a", 0), Need("b", 0)]
    for intervals, unlimited_ms in (({"a": 100}, 10_000), ({"a": 100, "b": 200}, None), ({}, None)):
        parts = divide(Amounts(cpu_us=1_000), needs, since_ms=0, until_ms=1_000, every_ms=10_000,
                       batches=BatchPart(0.9, intervals, unlimited_ms))
        assert [part.for_limit for part in parts] == [None, None]
        assert sum(part.batches.cpu_us for part in parts) == pytest.approx(900, abs=2)


def test_what_a_limit_costs_of_a_query_that_two_need_differently_often() -> None:
    """Batches 500 ms apart for one, 5 s for the other, 10 s for nobody's sake: twenty times as many as without limits.

    Of 20 parts both share 1 that is for no limit, and 1 that both limits ask for; 18 are the stricter one's.
    """
    parts = divide(Amounts(cpu_us=1_000_000), [Need("slow", 0), Need("fast", 0)], since_ms=0, until_ms=1_000,
                   every_ms=10_000, batches=BatchPart(1.0, {"slow": 5_000, "fast": 500}, 10_000))

    assert {part.dataflow: part.batches.cpu_us for part in parts} == {"slow": 50_000, "fast": 950_000}
    assert {part.dataflow: part.for_limit.cpu_us for part in parts} == pytest.approx(
        {"slow": 25_000, "fast": 925_000}, abs=1)


def test_what_others_of_the_same_query_ask_for_is_for_no_limit_of_who_pays() -> None:
    """A query runs every 500 ms for who needs the first of its tasks; the last one's only user needs it every 5 s."""
    (part,) = divide(Amounts(cpu_us=1_000_000), [Need("slow", 0)], since_ms=0, until_ms=1_000, every_ms=10_000,
                     batches=BatchPart(1.0, {"slow": 5_000, "fast": 500}, 10_000))

    assert part.batches.cpu_us == 1_000_000
    assert part.for_limit.cpu_us == pytest.approx(50_000, abs=1), "a twentieth: from every 10 s to every 5 s"


def test_only_what_cpu_costs_follows_batches() -> None:
    parts = divide(Amounts(cost_nanos=1_000_000), [Need("slow", 0), Need("fast", 0)], since_ms=0, until_ms=1_000,
                   every_ms=10_000, batches=BatchPart(1.0, {"slow": 5_000, "fast": 500}), cpu_part_of_cost=0.5)

    assert {part.dataflow: part.pays.cost_nanos for part in parts} == {"slow": 275_000, "fast": 725_000}
