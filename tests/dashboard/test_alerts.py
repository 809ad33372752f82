"""Rules held to what is measured, round by round: alerts, notices, marks; killed in mid-round; who may do what."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard import jobs
from dashboard.alerts import evaluating, notices, readers, selectors, services
from dashboard.alerts.models import Alert, NoticeGroup
from dashboard.alerts.readers import READERS
from dashboard.catalog.models import DataflowRecord
from dashboard.core.http_errors import BadInput
from dashboard.history.history_store import DatabaseHistory
from dashboard.history.models import AnnotationRow
from dashboard.operations.diagnosis.health import health
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.chart_marks import marks_of
from dashboard.operations.live_view.estate_history import Range, history_of
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.findings import BAD, Finding
from dashboard.outbox.models import Delivery, Endpoint
from dashboard.outbox.notice_choices import NoticeChoice
from dashboard.outbox.services import set_choices
from dashboard.teams.permissions import viewer_of
from scheduler.alerting.grouping import WAIT_S
from scheduler.alerting.rule_kinds import RULE_KINDS
from scheduler.elasticity.copied_queries import TOO_FEW_NODES
from scheduler.history.series import ALARM, Annotation, Series
from scheduler.model.errors import NotFound, PermissionDenied
from tests.dashboard.alerting import NOW_S, AlertingEstate, alert_of
from tests.dashboard.building import World, document, running
from workers.engine.observed import Flows, TaskFlow


@pytest.fixture
def traffic(world: World) -> DataflowRecord:
    return running(world.carla, world.city, document("traffic"), world.ana)


@pytest.fixture
def estate(monkeypatch: pytest.MonkeyPatch) -> AlertingEstate:
    return AlertingEstate(monkeypatch)


def raising(error: Exception) -> Any:
    def raises(*_: object) -> None:
        raise error

    return raises


def test_every_kind_has_a_reader() -> None:
    assert set(READERS) == set(RULE_KINDS)


def test_a_late_dataflow_is_told_once_and_is_over_once(
    world: World, traffic: DataflowRecord, estate: AlertingEstate
) -> None:
    world.carla.email = "carla@example.org"
    world.carla.save()
    set_choices(actor=world.carla, choices=[NoticeChoice("warning", True, False)], email="carla@example.org")
    late, well, between = ({str(traffic.pk): ms} for ms in (60_000.0, 500.0, 27_000.0))
    for _ in range(6):
        assert [alert.phase for alert in estate.round(late)] == ["pending"]
    [alert] = estate.round(late)
    assert (alert.phase, alert.kind, alert.team, alert.dataflow) == ("firing", "latency", world.city, traffic)
    assert "traffic" in alert.text and Delivery.objects.count() == 0  # what else fires with it is awaited
    estate.round(late, seconds=WAIT_S)
    [mail] = Delivery.objects.all()
    assert (mail.channel, mail.to) == ("email", "carla@example.org") and alert.text in mail.payload["text"]
    for _ in range(4):
        estate.round(between, seconds=40)  # the band: nothing changes
    assert [alert.phase for alert in Alert.objects.all()] == ["firing"]
    for _ in range(3):
        [alert] = estate.round(well, seconds=40)
    assert (alert.phase, alert.why) == ("resolved", "well")
    estate.round(well)
    assert Delivery.objects.count() == 2 and NoticeGroup.objects.get().closed
    marks = AnnotationRow.objects.filter(kind="dataflow", subject=str(traffic.pk), what__in=["alarm", "over"])
    assert [mark.what for mark in marks.filter(text__startswith="Latency")] == ["alarm", "over"]


def test_a_round_that_is_killed_leaves_nothing_and_is_done_again(
    world: World, traffic: DataflowRecord, estate: AlertingEstate, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = {str(traffic.pk): 30_000.0}
    for _ in range(6):
        estate.round(late)

    def killed(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(evaluating, "tell", killed)
        with pytest.raises(KeyboardInterrupt):
            estate.round(late)
    assert [alert.phase for alert in Alert.objects.all()] == ["pending"] and not NoticeGroup.objects.exists()
    evaluating.evaluate_round(now_s=estate.now_s)
    assert evaluating.evaluate_round(now_s=estate.now_s) == 0  # and by a second worker
    assert [alert.phase for alert in Alert.objects.all()] == ["firing"]
    assert NoticeGroup.objects.count() == 1


def test_a_full_disk_and_restarts_are_read(
    world: World, traffic: DataflowRecord, estate: AlertingEstate, settings: Any
) -> None:
    settings.LOCAL_NODE = "n0"
    query = next(iter(load_estate().fragments))
    DatabaseHistory().annotate([
        Annotation(NOW_S - 10 * number, "fragment_failed", "query", query, "boom") for number in range(4)])
    estate.disk_free_mb = 20.0
    for _ in range(7):
        alerts = estate.round()
    assert {(alert.kind, alert.phase) for alert in alerts} == {("restarting", "firing"), ("disk", "firing")}
    assert "4 times" in next(alert.text for alert in alerts if alert.kind == "restarting")


def test_a_driver_that_ends_again_and_again_is_told_to_those_who_run_there(
    world: World, traffic: DataflowRecord, estate: AlertingEstate
) -> None:
    fragment = next(iter(load_estate().fragments.values()))
    elsewhere = next(slot.name for slot in load_estate().slots if slot.name != fragment.slot)
    DatabaseHistory().annotate([
        Annotation(NOW_S - 10 * number, "slot_died", "slot", slot, "Its JVM ended.")
        for number in range(3) for slot in (fragment.slot, elsewhere)])
    [alert] = estate.round()
    assert (alert.kind, alert.phase, alert.element, alert.cause) == (
        "restarting", "firing", fragment.slot, f"slot:{fragment.slot}")
    assert "3 times" in alert.text and "Its JVM ended." in alert.text


def test_events_that_come_too_late_are_told_by_task(
    world: World, traffic: DataflowRecord, estate: AlertingEstate
) -> None:
    task, other, *_ = load_estate().tasks
    estate.flows = Flows(tasks={key: TaskFlow(5.0, 100, 20.0, 30.0, late=9 * (key == task)) for key in (task, other)})
    history = DatabaseHistory()
    for second in range(60):
        history.append(estate.now_s - 400 + second, {Series("task", task, "late_per_s"): 2.0})
    history.flush()
    [alert] = estate.round()
    assert (alert.kind, alert.phase, alert.element, alert.dataflow) == ("late_events", "firing", task, traffic)
    assert alert.text.startswith("120 events came too late for ")
    estate.round(seconds=300)
    assert [alert.phase for alert in estate.round(seconds=310)] == ["resolved"]


def test_the_disk_of_the_sites_own_node_is_told_once(
    world: World, estate: AlertingEstate, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LOCAL_NODE = "n1"
    estate.disk_free_mb = 20.0
    monkeypatch.setattr(readers.shutil, "disk_usage", lambda _: SimpleNamespace(free=20 << 20))
    for _ in range(7):
        alerts = estate.round()
    assert [(alert.kind, alert.element) for alert in alerts] == [("disk", "site")]


def test_a_sink_that_cannot_be_written_is_told(
    world: World, traffic: DataflowRecord, estate: AlertingEstate, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = {"id": str(traffic.pk), "name": "traffic"}
    away = Finding("sink", "t1", "away", BAD, "out of traffic cannot be written.", "It is tried again.",
                   dataflows=[user])
    monkeypatch.setattr(readers, "findings", lambda view: [away])
    for _ in range(4):
        alerts = estate.round()
    assert [(alert.kind, alert.phase, alert.cause) for alert in alerts] == [("failing", "firing", "sink:t1")]


def test_where_all_slots_have_too_much_to_do_their_number_and_price_are_told(
    world: World, traffic: DataflowRecord, estate: AlertingEstate, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CORE_HOUR_PRICE, settings.CURRENCY = 0.5, "EUR"
    monkeypatch.setattr(jobs, "event_bytes", lambda channels: dict.fromkeys(channels, 50.0))
    monkeypatch.setattr(jobs, "waiting_events", lambda *_: {})
    running(world.carla, world.city, document("own").replace(
        '"type": "urban_sensing"', '"type": "urban_sensing", "config": {"seed": 5}'), world.ana)
    queries = [fragment.id for fragment in load_estate().fragments.values()]
    assert len({fragment.slot for fragment in load_estate().fragments.values()}) == 2

    def minute(cores: float) -> list[Alert]:
        """A round a minute later, before which each query took so many cores."""
        history = DatabaseHistory()
        for second in range(estate.now_s + 30, estate.now_s + 60):
            history.append(second, {Series("query", query, "cpu"): cores for query in queries})
        history.flush()
        return [alert for alert in estate.round(seconds=60) if alert.kind == "too_few_slots"]

    for _ in range(5):
        assert [alert.phase for alert in minute(0.95)] == ["pending"]
    [alert] = minute(0.95)
    assert (alert.phase, alert.team, alert.severity) == ("firing", None, "warning")
    assert "0.2 cores are lacking: 1 more slot, at 0.50 EUR an hour, would be enough" in alert.text
    assert "Start an agent" in alert.remedy
    monkeypatch.setattr(jobs, "event_bytes", raising(jobs.BrokerAway("away")))
    assert [alert.phase for alert in minute(0.3)] == ["firing"], "nothing is known"
    monkeypatch.setattr(jobs, "event_bytes", lambda channels: {})
    for _ in range(5):
        assert [alert.phase for alert in minute(0.3)] == ["firing"]
    assert [alert.phase for alert in minute(0.3)] == ["resolved"]


def test_state_that_is_copied_too_seldom_is_told_by_node_until_it_is_copied(
    world: World, traffic: DataflowRecord, estate: AlertingEstate
) -> None:
    estate.facts = {"survives": 0, "copies": 1, "not_copied": "no other node has room for it"}
    for _ in range(5):
        assert [alert.phase for alert in estate.round(seconds=60)] == ["pending"]
    [alert] = estate.round(seconds=60)
    assert (alert.kind, alert.phase, alert.team, alert.element) == ("too_few_copies", "firing", None, "n1")
    assert "If n1 is lost now" in alert.text and "WEIR_COPIES_MB" in alert.remedy
    estate.facts |= {"not_copied": TOO_FEW_NODES}
    wrong = health(view_for(viewer_of(world.dev)))
    assert [(finding.part, "weir agent" in finding.remedy) for finding in wrong if "copies" in finding.cause] == [
        ("copies", True)], "an alert beside it would say what was to be done before"
    estate.facts = {"survives": 1, "copies": 1}
    assert [alert.phase for alert in estate.round(seconds=30)] == ["firing"]
    assert [alert.phase for alert in estate.round(seconds=60)] == ["resolved"]


def test_where_nothing_is_heard_nothing_changes(
    world: World, traffic: DataflowRecord, estate: AlertingEstate, monkeypatch: pytest.MonkeyPatch
) -> None:
    estate.slot = "stalled"
    for _ in range(7):
        before = estate.round()
    monkeypatch.setattr(estate, "reading", lambda: jobs.LiveReading(available=False, reason="away"))
    for _ in range(20):
        after = estate.round()
    of_broker = [alert for alert in after if alert.element == "broker"]
    assert {(a.key, a.phase) for a in after if a not in of_broker} == {(a.key, a.phase) for a in before}
    assert [alert.phase for alert in of_broker] == ["firing"]


def test_a_private_dataflow_is_told_to_its_team_alone(world: World, estate: AlertingEstate) -> None:
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    estate.slot = "stalled"
    for _ in range(7):
        estate.round()
    for name, seen in (("carla", True), ("mo", False), ("outsider", False), ("root", True)):
        texts = " ".join(alert.text for alert in selectors.visible(viewer_of(world.users[name])))
        assert ("hush" in texts) is seen and "n1/0" in texts, name


def test_marks_of_a_slot_tell_of_a_private_dataflow_to_its_team_alone(world: World, estate: AlertingEstate) -> None:
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    DatabaseHistory().annotate([
        Annotation(NOW_S, ALARM, "slot", slot.name, "Full: hush has no room.", "city")
        for slot in load_estate().slots])
    for name, seen in (("carla", True), ("vera", True), ("mo", False), ("outsider", False), ("root", True)):
        user = world.users[name]
        texts = " ".join(
            note.text for slot in load_estate().slots for note in history_of(
                viewer_of(user), "slot", slot.name, Range(NOW_S - 3600, NOW_S + 3600)).annotations)
        marks = " ".join(
            f"{mark}" for slot in load_estate().slots for mark in marks_of(
                viewer_of(user), "slot", slot.name, begin_s=NOW_S - 3600, end_s=NOW_S + 3600))
        assert ("hush" in texts) is ("hush" in marks) is seen, name


def test_a_rule_of_ones_own_wins_over_the_teams_and_one_that_is_off_watches_nothing(
    world: World, traffic: DataflowRecord, estate: AlertingEstate
) -> None:
    late = {str(traffic.pk): 3_000.0}
    services.set_rule(actor=world.dev, team=world.city, kind="latency", dataflow_id=str(traffic.pk),
                      chosen={"threshold": 2_000, "clear_threshold": 1_000, "for_s": 0, "severity": "critical"})
    services.set_rule(actor=world.dev, team=world.city, kind="failing", chosen={"enabled": False})
    estate.slot = "stalled"
    for _ in range(7):
        alerts = estate.round(late)
    assert [(a.rule_id, a.severity) for a in alerts if a.team] == [(f"dataflow:{traffic.pk}/latency", "critical")]
    services.reset_rule(actor=world.dev, team=world.city, kind="latency", dataflow_id=str(traffic.pk))
    estate.round(late)
    assert Alert.objects.get(kind="latency").why == "off"


def test_rules_that_can_never_clear_are_refused(world: World) -> None:
    for chosen in ({"threshold": 5, "clear_threshold": 9}, {"for_s": -1}, {"severity": "dire"},
                   {"threshold": float("nan")}):
        with pytest.raises(BadInput):
            services.set_rule(actor=world.dev, team=world.city, kind="latency", chosen=chosen)
    with pytest.raises(PermissionDenied):
        services.set_rule(actor=world.ana, team=world.city, kind="latency", chosen={})
    with pytest.raises(NotFound):
        services.set_rule(actor=world.dev, team=world.city, kind="disk", chosen={})


def test_who_acknowledges_or_mutes_makes_it_quiet(world: World) -> None:
    viewer = viewer_of(world.vera)
    alert, other = alert_of(world.city), alert_of(world.city, key="b")
    assert selectors.counts(viewer)["warning"] == 2
    services.acknowledge(actor=world.carla, alert_id=alert.pk)
    mute = services.mute(
        actor=world.carla, alert_id=other.pk, scope="both", until=timezone.now() + timedelta(hours=1))
    assert selectors.counts(viewer)["warning"] == 0
    now_s = int(timezone.now().timestamp())
    assert notices.is_quiet(other, notices.current_mutes(now_s), now_s)
    assert not notices.is_muted(other, notices.current_mutes(now_s + 3_601), now_s + 3_601)
    services.unmute(actor=world.carla, mute_id=mute.pk)
    assert selectors.counts(viewer)["warning"] == 1
    for actor, error in ((world.vera, PermissionDenied), (world.mo, NotFound)):
        with pytest.raises(error):
            services.acknowledge(actor=actor, alert_id=other.pk)


def test_each_is_told_as_chosen(world: World) -> None:
    for name in ("carla", "ana", "vera"):
        world.users[name].email = f"{name}@example.org"
        world.users[name].save()
    set_choices(actor=world.ana, choices=[NoticeChoice("critical", False, True)], email="ana@example.org")
    set_choices(actor=world.vera, choices=[NoticeChoice("critical", False, False)], email="vera@example.org")
    for user in (world.ana, world.vera):
        Endpoint.objects.create(user=user, name=user.username, url="http://x/", least="", sealed="s")
    Endpoint.objects.create(team=world.city, name="chat", url="http://x/", least="warning", sealed="s")
    Endpoint.objects.create(team=world.mobility, name="others", url="http://x/", least="info", sealed="s")
    group = NoticeGroup.objects.create(cause="c", team=world.city, opened_s=0)
    alert_of(world.city, severity="critical", group=group)
    notices.tell(NOW_S)
    notices.tell(NOW_S)
    sent = {delivery.endpoint.name if delivery.endpoint else delivery.to for delivery in Delivery.objects.all()}
    assert sent == {"carla@example.org", "ana", "chat"} and Delivery.objects.count() == 3


def test_the_inbox_counts_filters_and_says_when_there_is_nothing(world: World) -> None:
    client = Client()
    client.force_login(world.vera, backend="dashboard.teams.logins.ThrottledBackend")
    assert 'data-note="no-alert"' in client.get("/alerts/").text
    alert_of(world.city, key="a")
    alert_of(world.city, key="b", phase="resolved", resolved_s=NOW_S)
    alert_of(world.mobility, key="c")
    assert client.get("/alerts/count.json").json()["count"] == 1
    assert client.get("/alerts/").text.count("data-alert=") == 1
    assert client.get("/alerts/?show=all").text.count("data-alert=") == 2
    assert 'data-note="no-match"' in client.get("/alerts/?severity=critical").text
    assert readers.RECENT_S > evaluating.ROUND_S  # or a round would miss what was measured between two


def test_an_alert_leads_to_where_its_cause_is_seen(world: World, traffic: DataflowRecord) -> None:
    client = Client()
    client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    estate = load_estate()
    fragment = next(iter(estate.fragments.values()))
    child = next(task for task, running_task in estate.tasks.items() if running_task.parents)
    parent = estate.tasks[child].parents[0]
    slot = estate.slots[0].name
    node = slot.partition("/")[0]
    dataflow = str(traffic.pk)
    expected = {
        ("dataflow", dataflow, f"query:{fragment.id}", "failing"): f"/estate/queries/{fragment.id}",
        ("dataflow", dataflow, f"slot:{slot}", "failing"): f"/estate/slots/{slot}",
        ("slot", slot, f"unreachable:{node}", "unreachable"): f"/estate/slots/{slot}",
        ("node", node, f"unreachable:{node}", "unreachable"): f"/estate/nodes/{node}",
        ("node", node, f"disk:{node}", "disk"): f"/estate/nodes/{node}",
        ("node", node, f"copies:{node}", "too_few_copies"): f"/estate/nodes/{node}",
        ("node", "site", "disk:site", "disk"): None,
        ("source", fragment.id, f"source:{fragment.id}", "silent_source"): f"/estate/queries/{fragment.id}",
        ("source", parent, f"source:{parent}", "silent_source"): f"/estate/tasks/{parent}",
        ("task", child, f"task:{child}", "late_events"): f"/estate/tasks/{child}",
        ("stream", f"{parent}>{child}", "backlog", "backlog"): f"/estate/streams/{parent}/{child}",
        ("dataflow", dataflow, "promise", "broken_promise"): f"/dataflows/{dataflow}/schedule/outcome",
        ("estate", "slots", "too_few_slots", "too_few_slots"): "/estate/deployment",
        ("dataflow", dataflow, "latency", "latency"): None}
    for (element_kind, element, cause, kind), address in expected.items():
        Alert.objects.all().delete()
        alert_of(world.city, element_kind=element_kind, element=element, cause=cause, kind=kind, dataflow=traffic)
        links = [part.split('"')[0] for part in client.get("/alerts/").text.split('href="') if "data-cause>" in
                 part.partition("</a>")[0]]
        assert [link.rstrip("/") for link in links] == ([address] if address else []), cause
        if address and kind != "broken_promise":  # it has no schedule here
            assert client.get(links[0]).status_code == 200, links
