"""Queries that have more to do than they can: which reports say so, and from when on that counts."""

from __future__ import annotations

import pytest

from scheduler.contracts.reports import QueryReport
from scheduler.elasticity.overloaded_queries import OverloadWatch, is_overloaded, is_settled

BUSY = {"state": "running", "batch_ms": 1_900.0, "trigger_ms": 1_000, "phases_ms": {"asking": 100.0}}


@pytest.mark.parametrize(("changed", "waiting", "expected"), [
    ({}, 1_000, True),
    ({}, 999, False),  # it works all the time, and keeps up
    ({"batch_ms": 900.0}, 5_000, False),  # they are on their way: it works 0.8 of the time
    ({"phases_ms": {"asking": 1_200.0}}, 5_000, False),  # it waited
    ({"batch_ms": None, "batch_for_ms": 2_000, "phases_ms": {}}, 5_000, True),  # its first batch does not end
    ({"trigger_ms": None}, 5_000, False),
    ({"real_time": True}, 5_000, False)])
def test_many_events_wait_and_it_works_nearly_all_the_time(
    changed: dict[str, object], waiting: int, expected: bool
) -> None:
    report = QueryReport(**{**BUSY, **changed})
    assert is_overloaded(report, waiting, usual_interval_s=2.5) == expected


@pytest.mark.parametrize(("state", "at_ms", "expected"), [
    ("running", 161_000, True), ("running", 159_000, False), ("starting", 500_000, False)])
def test_a_query_that_began_lately_says_nothing(state: str, at_ms: int, expected: bool) -> None:
    assert is_settled(QueryReport(state=state, since_ms=100_000), at_ms=at_ms) == expected


def test_it_counts_from_the_second_look_on_and_anew_after_a_look_that_found_nothing() -> None:
    first = OverloadWatch().look({"d"}, now_s=100.0)
    assert not first.lasting(100.0)
    second = first.look({"d", "e"}, now_s=103.0)
    assert second.lasting(103.0) == {"d"}
    assert second.look({"e"}, now_s=106.0).look({"d", "e"}, now_s=109.0).lasting(109.0) == {"e"}


def test_whoever_has_not_looked_for_long_or_whose_clock_was_put_back_knows_nothing() -> None:
    watch = OverloadWatch().look({"d"}, now_s=100.0).look({"d"}, now_s=103.0)
    for later_s in (119.0, 102.0):
        assert not watch.lasting(later_s)
        assert not watch.look({"d"}, now_s=later_s).lasting(later_s)
