"""Which slow task is cut out, for whom, and what that promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.controllers.changes import Aspect, AspectChange, Carriage
from scheduler.controllers.loop_values import ACTS, OFF, RECOMMENDS, Policy
from scheduler.controllers.task_isolation import HoldUp, HoldUps, Isolating, Waiting

SLOW = HoldUp(
    "t3", "wait", "f1", "t2", "t3", ("t1", "t2", "t3"), added_ms=9_000.0, latency_ms=9_200.0,
    waiting=(Waiting("a", "city", 9_100.0), Waiting("b", "mobility")))
LOWER = replace(SLOW, task="u3", query="f2", parent="u2", head="u3", added_ms=3_000.0)


def policies(**modes: str) -> dict[str, Policy]:
    return {team: Policy(mode) for team, mode in modes.items()}


@pytest.mark.parametrize(("modes", "target"), [
    ({}, "a"), ({"city": RECOMMENDS}, "b"), ({"city": OFF}, "b"), ({"city": RECOMMENDS, "mobility": OFF}, "a"),
    ({"city": OFF, "mobility": OFF}, None),
])
def test_it_is_cut_for_a_team_that_waits_and_first_for_one_that_lets_it_act(
    modes: dict[str, str], target: str | None
) -> None:
    decisions = Isolating().evaluate(HoldUps((SLOW,)), policies(**modes)).decisions
    assert [decision.target for decision in decisions] == ([target] if target else [])


def test_the_task_that_adds_most_comes_first_and_its_stream_comes_into_a_channel() -> None:
    decisions = Isolating().evaluate(HoldUps((LOWER, SLOW)), {}).decisions
    first, second = sorted(decisions, key=lambda decision: -decision.worth)
    assert first.changes == (AspectChange(Aspect.STREAM, "t2>t3", Carriage.WITHIN, Carriage.CHANNEL),)
    assert second.arguments["slow"] == "u3" and first.moves_queries and not first.touched
    assert Isolating().rollback(first) == (AspectChange(Aspect.STREAM, "t2>t3", Carriage.CHANNEL, Carriage.WITHIN),)


@pytest.mark.parametrize(("latency_ms", "at_most"), [(9_100.0, 4_550.0), (600.0, 2_000.0), (None, None)])
def test_it_promises_half_of_the_latency_or_four_batches(latency_ms: float | None, at_most: float | None) -> None:
    slow = replace(SLOW, waiting=(Waiting("a", "city", latency_ms),))
    [decision] = Isolating().evaluate(HoldUps((slow,), batch_ms=500.0), {}).decisions
    assert [bound.at_most for bound in decision.promise.bounds] == ([at_most] if at_most else [])


def test_what_stays_is_told_to_all_who_wait_and_asked() -> None:
    evaluation = Isolating().evaluate(
        HoldUps((replace(SLOW, why_not="a schedule says how that query runs"),)), policies(mobility=OFF))
    assert not evaluation.decisions
    assert [(reason.team, reason.target) for reason in evaluation.reasons] == [("city", "a")]
    assert "a schedule says how that query runs" in evaluation.reasons[0].why


def test_it_acts_unless_a_team_chose_otherwise() -> None:
    assert Isolating().usual.mode == ACTS
