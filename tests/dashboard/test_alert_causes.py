"""Alerts that people read: the cause and not its symptoms, and no alarm for a source that is merely quiet."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.apps import apps
from django.utils import timezone

from dashboard.alerts import notices, readers, selectors, services
from dashboard.alerts.models import Alert, EvaluatorClock, RuleRow
from dashboard.alerts.selectors import AlertFilter
from dashboard.catalog.models import DataflowRecord
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.findings import BAD, Finding
from dashboard.outbox.models import Delivery
from dashboard.teams.permissions import viewer_of
from scheduler.history.series import Series
from tests.dashboard.alerting import NOW_S, AlertingEstate, alert_of
from tests.dashboard.building import World, document, running
from tests.dashboard.checks import earlier_migration


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


def test_a_slot_that_dies_is_one_alert_of_each_team_for_all_that_ran_there(
    world: World, traffic: DataflowRecord, estate: AlertingEstate
) -> None:
    records = [traffic, *(
        running(world.carla, world.city, document(name, window=window), world.ana)
        for window, name in enumerate(("cars", "bikes", "trams"), start=20))]
    running(world.mo, world.mobility, document("buses", window=30), world.dev)
    world.carla.email = "carla@example.org"
    world.carla.save()
    estate.slot = "stalled"
    for _ in range(7):
        alerts = estate.round()
    assert sorted((alert.kind, alert.team.slug if alert.team else "", alert.element) for alert in alerts) == [
        ("failing", "city", "n1/0"), ("failing", "mobility", "n1/0"), ("unreachable", "", "n1/0")]
    of_city = next(alert for alert in alerts if alert.team == world.city)
    assert of_city.text.startswith("4 dataflows do not run as they should (bikes, cars, traffic and 1 more): ")
    assert set(of_city.dataflow_ids) == {str(record.pk) for record in records}
    for record in records:
        assert list(selectors.search(viewer_of(world.carla), AlertFilter(dataflow=str(record.pk)))) == [of_city]
    [mail] = Delivery.objects.filter(user=world.carla)
    assert "4 dataflows" in mail.subject


def test_an_alert_says_whom_its_cause_concerns_by_now_and_is_quiet_where_all_of_these_are_muted(
    world: World, traffic: DataflowRecord, estate: AlertingEstate, monkeypatch: pytest.MonkeyPatch
) -> None:
    cars = running(world.carla, world.city, document("cars", window=20), world.ana)
    users = [{"id": str(record.pk), "name": record.name} for record in (traffic, cars)]

    def concerned(of: list[dict[str, str]]) -> Alert:
        away = Finding("slot", "n1/0", "stalled", BAD, "The driver of n1/0 does not answer.", "Wait.", dataflows=of)
        monkeypatch.setattr(readers, "findings", lambda view: [away])
        return [[alert for alert in estate.round() if alert.kind == "failing"] for _ in range(5)][-1][-1]

    def is_muted(alert: Alert) -> bool:
        now_s = int(timezone.now().timestamp())
        return notices.is_muted(alert, notices.current_mutes(now_s), now_s)

    alone = concerned(users[:1])
    assert alone.phase == "firing" and alone.text.startswith("traffic does not run as it should: The driver of n1/0")
    both = concerned(users)
    assert both.pk == alone.pk and both.text.startswith("2 dataflows do not run as they should (cars, traffic): ")
    until = timezone.now() + timedelta(hours=1)
    for record, quiet in ((traffic, False), (cars, True)):
        late = alert_of(world.city, key=str(record.pk))
        services.mute(actor=world.carla, alert_id=late.pk, scope="element", until=until)
        assert is_muted(both) is quiet
    assert concerned(users[1:]).dataflow == cars and Alert.objects.filter(kind="failing").count() == 1


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
    earlier_migration("alerts", "0002_silence_in_seconds").in_seconds(apps, None)
    rows = RuleRow.objects.order_by("scope").values_list("threshold", "clear_threshold")
    assert list(rows) == [(600, 60), (1_200, 1)]
