"""What is kept and told of limits: each on its sequence of tasks, and of one that is missed what would help."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from dashboard.catalog.services import choose_latency
from dashboard.controllers.latency_told import latency_told
from dashboard.controllers.models import ReasonRow
from dashboard.controllers.services import set_mode
from dashboard.operations.diagnosis.health import health
from dashboard.operations.latency_control.latency_view import worst_states
from dashboard.operations.live_view.cost_learning import WARM
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.models import LatencyStatus
from dashboard.teams.permissions import viewer_of
from scheduler.guards.figure_streams import DataflowSubject
from scheduler.model.latency_limits import LatencyLimit, figure_in_words
from tests.dashboard.building import World, document, running
from tests.dashboard.played import Played, status


def test_every_limit_and_where_the_time_goes_on_each_sequence_of_tasks_is_kept(world: World, played: Played) -> None:
    record = running(world.carla, world.city, document("many", latency="2 s"), world.ana)
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(
        LatencyLimit(2.0), LatencyLimit(5.0, percentile=99), LatencyLimit(1.5, along=("sense", "parse"))))
    played.run(30)

    values = {line.metric: value for line, value in played.pacer.values_of(view_for(EVERYTHING)).items()}
    assert {name: value for name, value in values.items() if "latency_limit" in name} == {
        "latency_limit_ms": 2000.0, "latency_limit_2_ms": 5000.0, "latency_limit_3_ms": 1500.0}
    assert {name for name in values if "waiting" in name} == {"latency_waiting_ms", "latency_waiting_3_ms"}


def test_what_is_missed_for_long_says_where_the_time_goes_what_was_tried_and_what_would_meet_it(
    world: World, played: Played
) -> None:
    record = running(world.carla, world.city, document("late", latency="1 s"), world.ana)
    played.run(120)
    row = status(record)
    assert (row.state, row.late_since) == ("met", None)
    viewer, held_s = viewer_of(world.carla), row.measured_s
    (limit,) = latency_told(viewer, record.pk)["limits"]
    assert (limit["tried"], limit["remedies"], limit["is_lasting"]) == ([], [], False)
    assert limit["path"][0]["measured_s"] == pytest.approx(held_s, rel=0.1), "it is one query"

    LatencyStatus.objects.update(state="missed", measured_s=3.0, late_since=row.at - timedelta(seconds=20))
    (limit,) = latency_told(viewer, record.pk)["limits"]
    assert (limit["is_lasting"], limit["remedies"]) == (False, []), "it may pass within the span of the limit"
    LatencyStatus.objects.update(late_since=row.at - timedelta(seconds=90))
    set_mode(actor=world.dev, controller="deployment", team=world.city, mode="off")
    ReasonRow.objects.create(
        controller="chaining", team=world.city, dataflow=record, target=str(record.pk), gist="", since=row.at,
        until=row.at, why="There is nothing to chain.")
    (limit,) = latency_told(viewer, record.pk)["limits"]

    assert "3 s are measured" in limit["why"]
    assert f"Events take {figure_in_words(limit['path'][0]['measured_s'])} in sense … out in the mean" in limit["why"]
    assert limit["tried"][1:] == [
        "Chaining: There is nothing to chain.", "Deployment is off for City.", "Open batches saw nothing to change."]
    assert limit["tried"][0].startswith("Batches on its way are")
    (ask,) = limit["remedies"]
    assert ask["kind"] == "ask"
    assert ask["limit_s"] > 3.0 - row.expected_s, "what was measured beyond what was expected stays"
    client = Client()
    client.force_login(world.carla)
    page = client.get(f"/dataflows/{record.pk}/").content.decode()
    assert 'data-part="tried"' in page
    assert 'data-remedy="ask"' in page
    assert client.get(f"/api/dataflows/{record.pk}/latency").json()["limits"][0]["tried"] == limit["tried"]

    LatencyStatus.objects.update(measured_s=1.15)
    (limit,) = latency_told(viewer, record.pk)["limits"]
    assert limit["remedies"] == [], "shorter intervals would do"

    LatencyStatus.objects.update(state="impossible", least_s=2.0, measured_s=100.0)
    (limit,) = latency_told(viewer, record.pk)["limits"]
    assert "events should take 2 s. Events take" in limit["why"]
    assert all(remedy["limit_s"] > 99.0 for remedy in limit["remedies"]), "nothing is promised that was not measured"


def test_nothing_is_promised_by_a_driver_that_began_lately(world: World, played: Played) -> None:
    played.began_s = played.now_s
    record = running(world.carla, world.city, document("young", latency="1 s"), world.ana)
    viewer = viewer_of(world.carla)
    played.run(120)

    (limit,) = latency_told(viewer, record.pk)["limits"]
    assert limit["state"] == "met", "it is measured, and what is done about a limit waits for nothing"
    assert limit["warm_at"] == datetime.fromtimestamp(played.began_s, UTC) + WARM
    assert "The driver of n1/0 has run for less than 10 minutes" in limit["why"]
    assert f"hold from {limit['warm_at']:%H:%M} UTC on" in limit["why"]
    client = Client()
    client.force_login(world.carla)
    assert limit["why"] in client.get(f"/dataflows/{record.pk}/").content.decode()

    played.began_s -= round(WARM.total_seconds())
    (limit,) = latency_told(viewer, record.pk)["limits"]
    assert (limit["warm_at"], limit["why"]) == (None, "")


def test_no_limit_is_called_impossible_while_a_driver_on_its_way_still_compiles(world: World, played: Played) -> None:
    played.began_s = played.now_s
    record = running(world.carla, world.city, document("hopeless", latency="50 ms"), world.ana)
    viewer = viewer_of(world.carla)
    played.run(120)
    assert status(record).state == "impossible", "controllers may do something about it at once"

    def limit_shown() -> tuple[str, list[str], dict[str, str], float]:
        (limit,) = latency_told(viewer, record.pk)["limits"]
        late = [finding.state for finding in health(view_for(viewer)) if finding.part == "limit"]
        figures = DataflowSubject(str(record.pk)).figures(played.pacer.values_of(view_for(EVERYTHING)))
        return limit["state"], late, worst_states([str(record.pk)]), figures["limits_missed"]

    assert limit_shown() == ("waiting", [], {str(record.pk): "waiting"}, 0), "nor do guards count it"
    (limit,) = latency_told(viewer, record.pk)["limits"]
    assert f"events take {figure_in_words(limit['least_s'])} so far" in limit["why"]
    assert f"is known from {limit['warm_at']:%H:%M} UTC on" in limit["why"] and limit["tried"]
    assert [remedy["kind"] for remedy in limit["remedies"] if remedy["kind"] != "open"] == [], "it has no price yet"

    played.began_s -= round(WARM.total_seconds())
    played.run(10)
    assert limit_shown() == ("impossible", ["impossible"], {str(record.pk): "impossible"}, 1)
