"""Limits on wide ways in the pacer: they go by a rule, say so, and take turns."""

from __future__ import annotations

import json

import pytest

from dashboard.operations.latency_control import pacer
from dashboard.operations.latency_control.latency_view import latency_of
from dashboard.operations.models import BatchFigures
from dashboard.teams.permissions import viewer_of
from scheduler.latency import wide_ways
from tests.dashboard.building import World, document, running
from tests.dashboard.played import Played, intervals, status


@pytest.mark.parametrize("most, words", [(300, ""), (0, "all its queries have one interval")])
def test_a_limit_that_goes_by_a_rule_holds_and_says_so(world: World, played: Played, most: int, words: str) -> None:
    played.patch.setattr(wide_ways, "MOST_STREAMS", most)
    chained = json.loads(document("wide", latency="2 s"))
    chained["tasks"][2]["chain"] = "never"
    record = running(world.carla, world.city, json.dumps(chained), world.ana)

    played.run(60)

    [limit] = latency_of(viewer_of(world.vera), record.pk)["limits"]
    assert limit["state"] == "met"
    assert words in limit["why"] and bool(words) == bool(limit["why"])
    assert len(set(intervals(record))) == 1 or not words


def test_wide_limits_take_turns_and_keep_their_state_while_they_wait(world: World, played: Played) -> None:
    """Of one team three, and one of another: with room for one in a round, each has had its turn after four."""
    chained = json.loads(document("wide", latency="2 s"))
    chained["tasks"][2]["chain"] = "never"

    def named(name: str) -> str:
        return json.dumps(chained | {"name": name})

    busy = [running(world.carla, world.city, named(f"busy{number}"), world.ana) for number in range(3)]
    calm = running(world.mo, world.mobility, named("calm"), world.ana, world.ben)
    played.patch.setattr(wide_ways, "MOST_STREAMS", 0)
    played.patch.setattr(pacer, "MOST_LOOKED_AT", 1)
    looked_at: list[set[str]] = []
    choose = played.pacer._turns.of_round

    def of_round(wide, most):
        chosen = choose(wide, most=most)
        looked_at.append({name for name, _ in chosen})
        return chosen

    played.patch.setattr(played.pacer._turns, "of_round", of_round)
    played.run(100)

    names = {str(record.pk) for record in (*busy, calm)}
    assert len(looked_at) >= 8 and {len(chosen) for chosen in looked_at} == {1}
    assert set().union(*looked_at[:6]) == names
    turns_of_calm = sum(str(calm.pk) in chosen for chosen in looked_at)
    assert abs(2 * turns_of_calm - len(looked_at)) <= 2, "each team has half of them"
    assert {status(record).state for record in (*busy, calm)} == {"met"}
    stored = {query: row.trigger_ms for query, row in BatchFigures.objects.in_bulk().items()}
    played.run(40)
    assert {query: row.trigger_ms for query, row in BatchFigures.objects.in_bulk().items()} == stored
