"""One verdict: pages, probe, command, API and metrics say the same of an estate, whatever goes wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from dashboard.catalog.models import DataflowRecord
from dashboard.operations.models import LatencyStatus
from dashboard.operations.selectors import live_dataflow
from dashboard.teams.permissions import viewer_of
from scheduler.model.latency_limits import LatencyLimit, to_json
from tests.cases import each
from tests.dashboard.alerting import alert_of
from tests.dashboard.building import World, document, running
from tests.dashboard.test_health import observe

Wrong = Callable[[World, DataflowRecord, pytest.MonkeyPatch], None]


def late(record: DataflowRecord, state: str, *, for_s: float = 600.0) -> None:
    """A latency limit of it is not met since then."""
    now = timezone.now()
    LatencyStatus.objects.update_or_create(dataflow=record, number=0, defaults={
        "limit": to_json((LatencyLimit(5.0),)), "state": state, "expected_s": 6.0, "since": now,
        "late_since": now - timedelta(seconds=for_s), "at": now})


def nothing(_world: World, _record: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    observe(monkeypatch, worker=True)


def a_driver_ended(_world: World, _record: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    observe(monkeypatch, slot={"state": "backoff", "restarts": 2, "error": "Killed."}, worker=True)


def a_limit_is_missed(_world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing(_world, record, monkeypatch)
    late(record, "missed")


def a_limit_was_missed_for_a_moment(_world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing(_world, record, monkeypatch)
    late(record, "missed", for_s=0.1)


def a_default_cannot_be_met(_world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing(_world, record, monkeypatch)
    late(record, "impossible")


def an_alert_fires(world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing(world, record, monkeypatch)
    alert_of(world.city, kind="drift", dataflow=record, severity="critical")


def an_alert_fires_of_a_limit_that_is_missed(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_limit_is_missed(world, record, monkeypatch)
    alert_of(world.city, kind="latency_limit", dataflow=record, element=str(record.pk))


def a_full_channel_has_an_alert(world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    observe(monkeypatch, query={"throttled_by": "f1-0.0"}, worker=True)
    alert_of(world.city, kind="backlog", dataflow=record)


def an_alert_outlives_its_finding(world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing(world, record, monkeypatch)
    alert_of(world.city, kind="failing", dataflow=record, element=str(record.pk), severity="critical")


def places_shown(client: Client, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The verdict in every place that gives one, as a state or in words; and the words for states of its parts."""
    estate, wall, problems = (client.get(path).text for path in ("/", "/wall/", "/problems/"))
    call_command("estate")
    lines = capsys.readouterr().out.splitlines()
    return {
        "estate": re.search(r'id="health" data-health="(\w+)"', estate)[1],
        "wall": re.search(r'id="wall-health" data-refresh data-health="(\w+)"', wall)[1],
        "readyz": Client().get("/readyz").json()["checks"]["estate"],
        "words": {
            re.search(r'id="health-title">Health</h2><span class="chip[^"]*">([^<]+)<', estate)[1],
            re.search(r"<h1>Problems</h1><span class=\"chip[^\"]*\">([^<]+)<", problems)[1],
            re.search(r"<strong>([^<]+)</strong>", wall)[1],
            lines[-1].rstrip(".")},
        "slots": (
            re.findall(r'class="slot" aria-label="Slot ([^"]+)">.*?<span class="chip[^>]*>([^<]+)<', estate),
            [tuple(re.match("slot ([^:]+): ([^,]+),", line).groups()) for line in lines if line.startswith("slot ")]),
        "dataflows": (
            re.findall(r'id="row-.*?</th>\s*<td><span class="chip[^>]*>([^<]+)<', estate, re.DOTALL),
            [line.rpartition(": ")[2] for line in lines if line.startswith("dataflow ")]),
        "problems": Counter(line.partition(":")[0] for line in lines if line.startswith(("problem:", "note:"))),
    }


@each("wrong, state, words", [
    (nothing, "well", "All well"), (a_driver_ended, "bad", "1 problem"), (a_limit_is_missed, "warn", "1 problem"),
    (a_limit_was_missed_for_a_moment, "well", "All well"), (a_default_cannot_be_met, "note", "1 note"),
    (an_alert_fires, "bad", "1 problem"), (an_alert_fires_of_a_limit_that_is_missed, "warn", "1 problem"),
    (an_alert_outlives_its_finding, "bad", "1 problem"), (a_full_channel_has_an_alert, "warn", "1 problem"),
])
def test_every_place_says_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: Wrong, state: str,
    words: str,
) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    wrong(world, record, monkeypatch)
    client = Client()
    client.force_login(world.root)

    places = places_shown(client, capsys)

    for part in ("slots", "dataflows"):
        page, command = places.pop(part)
        assert page == command and page, part
    assert places.pop("problems") == ({words.split()[1]: 1} if words != "All well" else {})
    assert places == {"estate": state, "wall": state, "readyz": state, "words": {words}}
    health = client.get("/api/estate").json()["health"]
    assert sum(row["severity"] != "note" for row in health.values()) == int(state in ("bad", "warn"))
    told_health = client.get(f"/api/dataflows/{record.pk}/live").json()["health"]
    assert told_health.keys() == health.keys(), "all of it concerns this dataflow"


def test_an_alert_of_another_team_is_not_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    an_alert_fires(world, record, monkeypatch)
    client = Client()
    client.force_login(world.mo)
    assert client.get("/api/estate").json()["health"] == {}


@pytest.mark.parametrize(("query", "busy"), [
    ({"batch_ms": 450, "trigger_ms": 500}, 0.9), ({"batch_ms": 9_000, "trigger_ms": 500}, 1.0),
    ({"batch_ms": 9_000, "trigger_ms": 20, "real_time": True}, None)])
def test_a_query_whose_batch_stays_open_is_not_busy_for_that(
    world: World, monkeypatch: pytest.MonkeyPatch, query: dict[str, Any], busy: float | None
) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    observe(monkeypatch, query=query)
    assert {task["busy"] for task in live_dataflow(viewer_of(world.carla), record.pk)["tasks"].values()} == {busy}
