"""Alerts that people read: the cause and not its symptoms, and no alarm for a source that is merely quiet."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps

from dashboard.alerts import readers, services
from dashboard.alerts.models import Alert, EvaluatorClock, RuleRow
from dashboard.catalog.models import DataflowRecord
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.findings import BAD, Finding
from scheduler.history.series import Series
from tests.dashboard.alerting import NOW_S, AlertingEstate
from tests.dashboard.building import World, document, running


@pytest.fixture
def traffic(world: World) -> DataflowRecord:
    return running(world.carla, world.city, document("traffic"), world.ana)


@pytest.fixture
def estate(monkeypatch: pytest.MonkeyPatch) -> AlertingEstate:
    return AlertingEstate(monkeypatch)


def test_a_source_that_cannot_be_read_fails_and_what_follows_from_that_is_not_told(
    world: World, traffic: DataflowRecord, estate: AlertingEstate, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Finding("source", "t1", "retrying", BAD, "sense of traffic cannot be read. DataError.", "Mend the row.",
                   dataflows=[{"id": str(traffic.pk), "name": "traffic"}])
    monkeypatch.setattr(readers, "findings", lambda view: [away])
    for _ in range(9):
        alerts = estate.round({str(traffic.pk): 60_000.0})
    [alert] = alerts
    assert (alert.kind, alert.phase, alert.cause) == ("failing", "firing", "source:t1") and "DataError" in alert.text
    monkeypatch.setattr(readers, "findings", lambda view: [])
    for _ in range(9):
        estate.round({str(traffic.pk): 60_000.0})
    assert {(alert.kind, alert.phase) for alert in Alert.objects.all()} == {
        ("failing", "resolved"), ("latency", "firing")}


def test_a_quiet_source_is_no_alarm_unless_a_rule_asks_and_then_by_what_it_usually_does(
    world: World, traffic: DataflowRecord, estate: AlertingEstate
) -> None:
    [source] = [name for name, task in load_estate().tasks.items() if not task.parents]

    history, begin_s = DatabaseHistory(), NOW_S - NOW_S % 60
    for minute in range(300):  # an event every ten minutes for three hours, then none
        history.append(begin_s + 60 * minute, {
            Series("task", source, "rate_per_s"): 1.0 if minute % 10 == 0 and minute < 180 else 0.0})
        history.flush()

    def quiet(minutes: int) -> list[Alert]:
        """Two minutes of rounds, so long after the last event."""
        estate.now_s = begin_s + 60 * (171 + minutes)
        return [estate.round() for _ in range(13)][-1]

    assert quiet(60) == []
    services.set_rule(actor=world.dev, team=world.city, kind="silent_source", chosen={"threshold": 900})
    EvaluatorClock.objects.update(evaluated_s=0)
    assert quiet(20) == []
    [alert] = quiet(60)
    assert (alert.kind, alert.phase) == ("silent_source", "firing") and "longer than ever" in alert.text


def test_rules_of_silent_sources_from_before_they_had_seconds_are_kept(world: World) -> None:
    old = {"kind": "silent_source", "clear_threshold": 1, "for_s": 120, "clear_for_s": 60, "severity": "warning"}
    for scope, threshold in (("team:city", 1), ("team:mobility", 1_200)):
        RuleRow.objects.create(scope=scope, threshold=threshold, **old)
    import_module("dashboard.alerts.migrations.0002_silence_in_seconds").in_seconds(apps, None)
    rows = RuleRow.objects.order_by("scope").values_list("threshold", "clear_threshold")
    assert list(rows) == [(600, 60), (1_200, 1)]
