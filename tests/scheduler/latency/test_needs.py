"""Who needs batches how often: what each would have alone, and what all would without limits."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.latency import batch_needs as needs
from scheduler.latency.batch_needs import batch_needs
from scheduler.latency.pacing import MOST_BLOCKS, LimitOnWay, Queries, pace
from scheduler.latency.real_time import BatchModes, choose_modes, equal_interval_s, keep_modes
from scheduler.latency.sharing import limit_shares
from scheduler.latency.triggers import BatchCost
from scheduler.latency.ways import Way

from .test_pacing import problems

SLOW = BatchCost(batch_s=0.1, batch_cpu_s=0.05, rate_per_s=10, event_s=0.0002, event_cpu_s=0.0002)
LINE = Queries({"a": SLOW, "b": SLOW}, {"b": ("a",)}, largest_s=10.0)
WAY = Way({"a": (), "b": ("a",)}, frozenset({"a"}), frozenset({"b"}))
FIRST = Way({"a": ()}, frozenset({"a"}), frozenset({"a"}))


def in_force(queries: Queries, wants: list[LimitOnWay], opened: frozenset[str] = frozenset()) -> BatchModes:
    return keep_modes(queries, wants, opened)


@st.composite
def shared(draw: st.DrawFn):
    """Queries, limits by user, and users of queries: who needs one needs all that it reads; some have no limit."""
    queries, wants = draw(problems())
    owners = {f"d{number}": [want] for number, want in enumerate(wants)} | {"none": []}
    users = {query: {name for name, limits in owners.items() for want in limits if query in want.way.writers}
             for query in queries.costs}
    waiting = draw(st.sets(st.sampled_from(sorted(queries.costs))))
    while waiting:
        query = waiting.pop()
        users[query].add("none")
        waiting |= set(queries.reads.get(query, ()))
    return queries, owners, users


@settings(max_examples=60, deadline=None)
@given(shared())
def test_who_has_no_limit_pays_for_none_and_who_has_one_pays_no_more_than_batches(problem) -> None:
    queries, owners, users = problem
    wants = [want for limits in owners.values() for want in limits]
    chosen = BatchModes(frozenset(), paced := pace(queries, wants), paced.interval_s)
    for query, need in batch_needs(queries, chosen, owners, users).items():
        priced_ms = round(1000 * chosen.priced_s(query, queries.costs[query]))
        intervals_ms = need.alone_ms or dict.fromkeys(users[query], priced_ms)
        assert not users[query] or intervals_ms.keys() == users[query]
        if not users[query]:
            continue
        costs = {user: 1 / interval_ms for user, interval_ms in intervals_ms.items()}
        parts = limit_shares(costs, 1 / need.unlimited_ms)
        assert parts.get("none", 0.0) <= 1e-9, "it has no limit"
        assert sum(parts.values()) <= max(costs.values())


def test_each_user_of_a_query_has_its_own_interval_and_without_limits_it_is_the_longest() -> None:
    owners = {"fast": [LimitOnWay("f", WAY, 0.5)], "slow": [LimitOnWay("s", FIRST, 5.0)], "none": []}
    chosen = in_force(LINE, [want for limits in owners.values() for want in limits])
    alone = batch_needs(LINE, chosen, owners, {"a": set(owners), "b": {"fast"}})
    assert alone["a"].alone_ms["fast"] < 500 < alone["a"].alone_ms["slow"] < alone["a"].alone_ms["none"] == 10_000
    assert alone["b"].alone_ms == {}, "it has one user"
    assert (alone["a"].unlimited_ms, alone["b"].unlimited_ms) == (10_000, 10_000)


def test_a_query_that_no_limit_is_on_would_be_as_it_is_without_one() -> None:
    as_before = replace(LINE, before_s={"a": 9.5, "b": 9.5})
    chosen = in_force(as_before, [])
    assert set(chosen.interval_s.values()) == {9.5}
    alone = batch_needs(as_before, chosen, {}, {"a": {"x", "y"}, "b": {"x"}})
    assert {need.unlimited_ms for need in alone.values()} == {9_500}


def test_a_limit_elsewhere_is_no_limit_here() -> None:
    owners = {"first": [LimitOnWay("f", FIRST, 0.5)]}
    chosen = in_force(LINE, owners["first"])
    alone = batch_needs(LINE, chosen, owners, {"a": {"first"}, "b": {"first", "none"}})
    assert alone["b"].alone_ms == {}, "no limit is on it"
    assert alone["b"].unlimited_ms == round(1000 * chosen.interval_s["b"])


def test_of_open_batches_it_is_what_takes_as_much_and_a_reader_goes_by_its_writer() -> None:
    owners = {"live": [LimitOnWay("l", FIRST, 0.06)], "late": [LimitOnWay("t", WAY, 8.0)]}
    wants = [want for limits in owners.values() for want in limits]
    opened = choose_modes(LINE, wants, {"a": "", "b": "it is played"}).open
    assert opened == {"a"}
    chosen = in_force(LINE, wants, opened)
    alone = batch_needs(LINE, chosen, owners, {"a": {"live", "late"}, "b": {"late"}})
    assert alone["a"].alone_ms["live"] == round(1000 * equal_interval_s(SLOW, chosen.interval_s["a"]))
    assert alone["a"].unlimited_ms == 10_000
    most_ms = 1000 * MOST_BLOCKS * 0.05  # blocks of the writer come as far apart as events do, with room to spare
    assert alone["b"].unlimited_ms == min(10_000, most_ms), "what its writer asks of it is for no limit of its own"


def test_of_too_many_users_nothing_is_told_apart(monkeypatch) -> None:
    monkeypatch.setattr(needs, "MOST_USERS", 2)
    owners = {"x": [LimitOnWay("x", WAY, 0.5)], "y": [], "z": []}
    chosen = in_force(LINE, owners["x"])
    alone = batch_needs(LINE, chosen, owners, {"a": set(owners), "b": {"x", "y"}})
    assert (alone["a"].alone_ms, alone["a"].unlimited_ms) == ({}, None)
    assert alone["b"].alone_ms.keys() == {"x", "y"}
    same = batch_needs(LINE, in_force(LINE, []), {}, {"a": set(owners), "b": set(owners)})
    assert same["a"].unlimited_ms == 10_000, "they all need it as often"
