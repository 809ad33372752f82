"""The recorder: what is observed of the estate becomes history, once a second, in one process at a time."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import redis
from django.test import Client

from dashboard import jobs
from dashboard.history.history_store import DatabaseHistory
from dashboard.history.models import AnnotationRow
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.estate_history import InvalidRange, Range, history_of
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.findings import Finding
from dashboard.operations.live_view.recording import (
    _node,
    annotations_of_events,
    annotations_of_findings,
    values_of,
)
from dashboard.operations.selectors import dataflow_history, estate_history
from dashboard.tasks import recording
from dashboard.tasks.recording import BACK, RAREST_S, SHARE, TURN, LookPace, Recorder, RecorderThread
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import NodeReport, Reports
from scheduler.history.memory_history import MemoryHistory
from scheduler.history.series import ALARM, KINDS, METRICS, NODE, OVER, SECOND, Annotation, Series
from scheduler.model.errors import NotFound, WeirError
from tests.cases import each
from tests.dashboard.building import World, document, running
from tests.dashboard.test_workers import meter, report
from tests.pages.markup import Markup
from workers.engine.observed import TaskFlow

NOW_S = 1_800_000_000


@pytest.fixture
def observed(broker: redis.Redis, broker_url: str, settings) -> redis.Redis:
    settings.REDIS_URL = broker_url
    jobs._window.cache_clear()
    return broker


@pytest.fixture
def hush(world: World, observed: redis.Redis) -> Iterator[dict[str, str]]:
    """A shared and a private dataflow that run, and are observed; their ids by name."""
    shared = running(world.carla, world.city, document("traffic"), world.ana)
    private = running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    report(observed, rate_per_s=50.0, cpu=0.1, memory=0.02, phases_ms={"planning": 9, "dreaming": 1})
    yield {"traffic": str(shared.pk), "hush": str(private.pk)}


def recorded(broker: redis.Redis, recorder: Recorder, *, at_s: int = NOW_S, seconds: int = 2) -> None:
    """Tick with two readings that make a rate, so many times."""
    meter(broker, 100)
    recorder.tick(at_s - 1)
    time.sleep(0.4)  # nearer readings make no rate
    meter(broker, 150)
    for second in range(seconds):
        recorder.tick(at_s + second)
    recorder.stop()


@pytest.mark.broker
def test_a_second_has_values_of_every_kind(hush: dict[str, str], observed: redis.Redis) -> None:
    history = MemoryHistory()
    recorded(observed, Recorder(lambda: history))
    estate = load_estate()
    lines = [line for points in history._points.values() for line in points]
    assert {line.kind for line in lines} == set(KINDS)
    for line in lines:
        assert line.kind in METRICS[line.metric].kinds, line
    subjects = {
        "dataflow": set(estate.submitted), "task": set(estate.tasks), "query": set(estate.fragments),
        "slot": {slot.name for slot in estate.slots}, "node": {"n1"}, "estate": {"", "city"},
        "stream": {f"{parent}>{task.id}" for task in estate.tasks.values() for parent in task.parents}}
    for kind, names in subjects.items():
        assert {line.subject for line in lines if line.kind == kind} == names
    points = history.read(lines, SECOND, begin_s=NOW_S, end_s=NOW_S + 1)
    rate = points[Series("dataflow", hush["traffic"], "events_in_per_s")].values[0]
    assert 1 < rate <= 125
    assert points[Series("slot", "n1/0", "cpu")].values[0] == pytest.approx(0.25)
    p50, p95, p99 = (points[Series("dataflow", hush["traffic"], f"latency_{name}_ms")].values[0]
                     for name in ("p50", "p95", "p99"))
    assert 0 < p50 <= p95 <= p99
    assert all(points[Series("query", query, "batch_planning_ms")].values[0] == 9 for query in estate.fragments)
    assert points[Series("estate", "city", "running_tasks")].values[0] == 4
    latency = [points[Series("dataflow", key, "latency_p99_ms")].values[0] for key in hush.values()]
    assert {points[Series("estate", scope, "latency_p99_ms")].values[0] for scope in ("", "city")} == set(latency)
    shares = {key: points[Series("dataflow", key, "cpu")].values[0] for key in hush.values()}
    assert sum(shares.values()) == pytest.approx(0.1 * len(estate.fragments))
    assert points[Series("dataflow", hush["hush"], "memory_mb")].values[0] == pytest.approx(
        0.02 * 1024 * len(estate.fragments) / 2)
    assert points[Series("estate", "", "cpu")].values[0] == pytest.approx(0.5)  # of two slots
    assert all(points[Series("query", query, "watermark_lag_ms")].values[0] > 0 for query in estate.fragments)


def test_what_has_not_run_yet_has_no_rate_rather_than_one_of_zero(world: World, monkeypatch) -> None:
    key = str(running(world.carla, world.city, document("traffic"), world.ana).pk)
    series = [Series("dataflow", key, "events_in_per_s"), Series("estate", "", "events_in_per_s")]
    tasks = load_estate().submitted[key].running
    for flows, expected in (({}, [None, None]), ({tasks["sense"]: TaskFlow(0.0, 0, None, None)}, [0.0, 0.0])):
        reading = jobs.LiveReading(measured=True, flows=replace(jobs.LiveReading().flows, tasks=flows))
        monkeypatch.setattr(jobs, "read_live", lambda *_, reading=reading: reading)
        values = values_of(view_for(viewer_of(world.root)))
        assert [values.get(line) for line in series] == expected


@pytest.mark.broker
def test_blocks_that_wait_in_a_channel_are_a_backlog(hush: dict[str, str], observed: redis.Redis) -> None:
    estate = load_estate()
    crossing = [
        (parent, task.id) for task in estate.tasks.values() for parent in task.parents
        if estate.places[task.id][1] == 0]
    held = {parent: 3 + rank for rank, parent in enumerate(sorted({parent for parent, _ in crossing}))}
    for parent, blocks in held.items():
        for number in range(blocks):
            observed.xadd(f"weir:ch:{estate.channel_of(parent)}", {"n": 1}, id=f"{number + 1}-0")
    history = MemoryHistory()
    recorded(observed, Recorder(lambda: history))
    lines = [Series("stream", f"{parent}>{child}", "backlog_blocks") for parent, child in crossing]
    most: dict[Series, float] = {}  # of what reads several streams, the one that holds most
    for parent, child in crossing:
        of = [("query", estate.places[child][0]), *(("dataflow", user) for user in estate.users[child])]
        for kind, subject in of:
            line = Series(kind, subject, "backlog_blocks")
            most[line] = max(most.get(line, 0), held[parent])
    points = history.read([*lines, *most], SECOND, begin_s=NOW_S, end_s=NOW_S + 1)
    assert [points[line].values[0] for line in lines] == [held[parent] for parent, _ in crossing]
    assert {line: points[line].values[0] for line in most} == most


@pytest.mark.broker
def test_one_process_at_a_time_records_and_the_next_goes_on(hush: dict[str, str], observed: redis.Redis) -> None:
    first, second = Recorder(), Recorder()
    assert first.tick(NOW_S) > 0
    assert second.tick(NOW_S) == 0
    observed.delete(f"weir:turn:{TURN}")  # it lapsed: the first was stopped for long
    assert second.tick(NOW_S + 9) > 0
    assert first.tick(NOW_S + 9) == 0  # which writes what it had
    second.stop()
    assert first.tick(NOW_S + 12) > 0
    first.stop()
    line = Series("slot", "n1/0", "cpu")
    values = DatabaseHistory().read([line], SECOND, begin_s=NOW_S, end_s=NOW_S + 13)[line].values
    assert [second for second in range(13) if not math.isnan(values[second])] == [0, 9, 12]


@pytest.mark.broker
@pytest.mark.django_db
def test_a_broker_that_is_away_costs_its_seconds_and_no_more(
    settings, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "close_old_connections", lambda: None)  # the test's own goes on
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    thread = RecorderThread(Recorder())
    thread._guarded(lambda: thread._recorder.tick(NOW_S))
    settings.REDIS_URL = broker_url
    jobs._window.cache_clear()
    assert thread._recorder.tick(NOW_S + 1) == 0  # nothing runs
    thread._recorder.stop()


@pytest.mark.broker
def test_what_nodes_told_and_what_was_wrong_are_annotations(hush: dict[str, str], observed: redis.Redis) -> None:
    query = next(iter(load_estate().fragments))
    observed.xadd("weir:events", {name: json.dumps(value) for name, value in {
        "kind": "fragment_failed", "node": "n1", "at_ms": NOW_S * 1000, "fragment": query, "error": "ValueError",
        "retry_at_ms": None}.items()})
    recorder = Recorder()
    recorder.tick(NOW_S)
    observed.delete("weir:observed:n1")
    jobs._window.cache_clear()  # a reading is shared for a moment
    recorder.tick(NOW_S + 5)
    recorder.tick(NOW_S + 10)
    report(observed)
    jobs._window.cache_clear()
    recorder.tick(NOW_S + 15)
    recorder.stop()
    failed = AnnotationRow.objects.filter(kind="query", what="fragment_failed").get()
    assert (failed.at_s, failed.subject, failed.text) == (NOW_S, query, "ValueError")
    of_node = AnnotationRow.objects.filter(kind="node", subject="n1").values_list("at_s", "what")
    assert list(of_node) == [(NOW_S + 5, ALARM), (NOW_S + 15, OVER)]


@pytest.mark.broker
def test_an_event_that_cannot_be_kept_keeps_no_other_out(hush: dict[str, str], observed: redis.Redis) -> None:
    query = next(iter(load_estate().fragments))
    for node, event in (
        ("n1", {"kind": "left", "at_ms": NOW_S * 1000}), ("n1", {"kind": "left", "at_ms": 10 ** 30}),
        ("n1", {"kind": "handed_over", "fragment": query, "at_ms": NOW_S * 1000}),
        ("n2", {"kind": "left", "at_ms": NOW_S * 1000}),
    ):
        observed.xadd("weir:events", {
            name: json.dumps(value) for name, value in {"node": node, **event}.items()})
    recorder = Recorder()
    recorder.tick(NOW_S)
    recorder.tick(NOW_S + 5)
    recorder.stop()
    assert list(AnnotationRow.objects.filter(what="left").order_by("subject").values_list("subject", flat=True)) == [
        "n1", "n2"]


def test_plans_that_are_done_are_annotations_of_dataflow_and_queries(world: World) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    notes = AnnotationRow.objects.filter(what="submit")
    assert {(note.kind, note.subject) for note in notes} == {
        ("dataflow", str(record.pk)), *(("query", fragment) for fragment in load_estate().fragments)}
    assert notes[0].text == "Proposal of traffic: done."


@pytest.mark.parametrize(("calibrated", "now", "expected"), [
    (10.0, 8.0, 0.8), (10.0, None, None), (None, 8.0, None), (10.0, 1e300, None), (1e-300, 1e300, None),
    (10.0, -8.0, None), (10.0, 1e-9, None), (10.0, math.nan, None)])
def test_a_speed_that_no_core_has_is_not_kept(
    calibrated: float | None, now: float | None, expected: float | None
) -> None:
    values = dict(_node("n1", NodeReport("n1", speed=calibrated, speed_now=now)))
    assert values[Series(NODE, "n1", "core_speed")] == expected


def test_events_are_of_the_narrowest_part_that_they_name() -> None:
    assert annotations_of_events([
        {"kind": "slot_died", "node": "n1", "slot": "0", "at_ms": 1_999}, {"kind": "x", "task": "t", "at_ms": 0},
        {"kind": "left", "node": "n1", "at_ms": 5_000}, {"kind": "nobody", "at_ms": 0},
        {"kind": "handed_over", "fragment": "f2-0", "from_": ["f1-0"], "gap_ms": 84, "stood_by": True, "at_ms": 7_000},
    ]) == [Annotation(1, "slot_died", "slot", "n1/0"), Annotation(0, "x", "task", "t"),
           Annotation(5, "left", "node", "n1"),
           Annotation(7, "handed_over", "query", "f2-0", "It stood still for a batch and 84 ms.")]


def test_an_alarm_begins_once_and_ends_once() -> None:
    finding = Finding("slot", "n1/0", "stalled", "bad", "It does not answer.", "Wait.", dataflows=[{"id": "d"}])
    wrong = {finding.key: finding}
    assert annotations_of_findings({}, wrong, at_s=5) == [
        Annotation(5, ALARM, "slot", "n1/0", "It does not answer."),
        Annotation(5, ALARM, "dataflow", "d", "It does not answer.")]
    assert annotations_of_findings(wrong, wrong, at_s=6) == []
    assert [note.what for note in annotations_of_findings(wrong, {}, at_s=7)] == [OVER, OVER]


# Reading it -----------------------------------------------------------------------------------------------------------


@pytest.mark.broker
def test_pages_read_what_was_recorded(world: World, hush: dict[str, str], observed: redis.Redis) -> None:
    now_s = int(time.time())
    recorded(observed, Recorder(), at_s=now_s)
    history = dataflow_history(viewer_of(world.vera), hush["traffic"])
    assert history["events_in_per_s"][-1] > 0 and len(history["at"]) == len(history["latency_p99_ms"]) >= 1
    of_vera, foreign = (estate_history(viewer_of(world.users[who])) for who in ("vera", "mo"))
    assert (of_vera["running_tasks"][-1], foreign["running_tasks"][-1]) == (8.0, 4.0)


@pytest.mark.broker
@each("kind", ["dataflow", "task", "stream", "query"])
def test_what_is_private_is_for_its_team_alone(
    world: World, hush: dict[str, str], observed: redis.Redis, kind: str
) -> None:
    recorded(observed, Recorder())
    estate = load_estate()
    tasks = estate.submitted[hush["hush"]].running
    subject = {
        "dataflow": hush["hush"], "task": tasks["parse"], "stream": f"{tasks['sense']}>{tasks['parse']}",
        "query": estate.places[tasks["parse"]][0]}[kind]
    span = Range(NOW_S, NOW_S + 2, SECOND)
    for who in ("vera", "dev", "root"):
        assert history_of(viewer_of(world.users[who]), kind, subject, span).values, who
    for who in ("mo", "ben", "outsider"):
        with pytest.raises(NotFound):
            history_of(viewer_of(world.users[who]), kind, subject, span)


@pytest.mark.broker
def test_the_route_answers_in_columns(world: World, hush: dict[str, str], observed: redis.Redis) -> None:
    recorded(observed, Recorder())
    client = Client()
    client.force_login(world.vera, backend="dashboard.teams.logins.ThrottledBackend")

    def ask(**query: object) -> dict:
        response = client.get("/api/history", {
            "kind": "dataflow", "subject": hush["traffic"], "from": _iso(NOW_S), "to": _iso(NOW_S + 4), "grain": "1s",
            **query})
        return response.json() | {"status": response.status_code}

    answer = ask(metric=["events_in_per_s", "latency_p95_ms"])
    assert (answer["grain"], answer["step_s"], len(answer["at"])) == ("1s", 1, 4)
    assert answer["units"] == {"events_in_per_s": "/s", "latency_p95_ms": "ms"}
    assert [value is not None for value in answer["values"]["events_in_per_s"]] == [True, True, False, False]
    assert ask(points=2)["step_s"] == 2
    assert ask(**{"from": "yesterday"})["code"] == "invalid_range"
    assert ask(**{"from": "9999-12-31T00:00:00", "to": "9999-12-31T23:59:59-23:59"})["code"] == "invalid_range"
    assert ask(**{"to": _iso(NOW_S - 10)})["code"] == "invalid_range"
    assert ask(metric="magic")["code"] == "invalid_range"
    assert ask(subject="nothing")["status"] == 404
    assert ask(kind="slot", subject="n1/0")["values"]["cpu"][0] == pytest.approx(0.25)
    assert ask(kind="estate", subject="")["values"]["running_tasks"][0] == 8.0


def test_no_range_is_longer_than_anything_is_kept(world: World) -> None:
    with pytest.raises(WeirError):
        history_of(viewer_of(world.vera), "estate", "", Range(0, 2_000_000_000))


def test_nobody_reads_a_month_of_seconds(world: World) -> None:
    """Each series would take ten megabytes, whether something was measured then or not."""
    with pytest.raises(InvalidRange, match="more than 259,200 points"):
        history_of(viewer_of(world.vera), "estate", "", Range(NOW_S, NOW_S + 30 * 24 * 3600, SECOND))


def _iso(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def test_looks_are_rarer_where_they_are_dear_and_each_second_where_guards_want_them() -> None:
    pace = LookPace()
    for _ in range(100):
        pace.note(0.9 * SHARE)
    assert pace.every_s == 1
    pace.note(SHARE)  # a single one that is dearer changes nothing
    assert pace.every_s == 1
    for _ in range(100):
        pace.note(1.2 * SHARE)
    assert pace.every_s == RAREST_S
    for _ in range(100):
        pace.note((BACK + 0.1) * SHARE)
    assert pace.every_s == RAREST_S, "it does not go back and forth"
    pace.note(SHARE, each_second=True)
    assert pace.every_s == 1
    for _ in range(100):
        pace.note(0.5 * BACK * SHARE)
    assert pace.every_s == 1


@pytest.mark.broker
def test_seconds_between_two_rare_looks_have_the_values_of_the_later(
    hush: dict[str, str], observed: redis.Redis
) -> None:
    history = MemoryHistory()
    recorder = Recorder(lambda: history)
    for at_s, every_s in ((NOW_S - 5, 1), (NOW_S, 5), (NOW_S + 3, 1)):  # errors cost their seconds: a gap is a gap
        recorder.tick(at_s, every_s=every_s)
    recorder.stop()
    cpu = Series("slot", "n1/0", "cpu")
    points = history.read([cpu], SECOND, begin_s=NOW_S - 5, end_s=NOW_S + 4)[cpu]
    assert [points.at(second) for second in range(NOW_S - 5, NOW_S + 4)] == [0.25] * 6 + [None, None, 0.25]


def test_how_a_querys_checkpoint_stands_is_kept_over_time(world: World, client: Client, monkeypatch) -> None:
    """Its age as of the node's report; and nothing of what is not known, as of a query without state."""
    record = running(world.carla, world.city, document("traffic"), world.ana)
    of_query = {
        "state": "running", "committed_at_ms": 7_500, "state_kb": 2_048, "restarts": 3, "failures": 2,
        "phases_ms": {"logging": 4, "committing": 6}}
    queries = [bundle for fragment in load_estate().fragments.values() for bundle in fragment.queries]

    def values(document: dict) -> list[list]:
        slots: dict[str, dict] = {}
        for bundle in queries:
            slots.setdefault(bundle.slot.rpartition("/")[2], {"state": "running", "fragments": {}})[
                "fragments"][bundle.id] = document
        reports = Reports.of({"n1": {"at_ms": 10_000, "slots": slots}})
        monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reports))
        measured = values_of(view_for(viewer_of(world.root)))
        metrics = ("checkpoint_age_ms", "state_mb", "batch_committing_ms", "batch_logging_ms", "restarts")
        return [[measured.get(Series("query", bundle.id, metric)) for metric in metrics] for bundle in queries]

    assert values(of_query) == [[2_500, 2.0, 6, 4, 3]] * len(queries)
    client.force_login(world.carla)
    page = client.get(f"/dataflows/{record.pk}/").text
    assert Markup(page).values("data-query") == [bundle.id for bundle in queries]
    assert "2048 kB" in page.replace("\u202f", "").replace(",", "") and "failed 2 times" in page
    assert values({"state": "running"}) == [[None, None, None, None, 0]] * len(queries)
    assert client.get(f"/dataflows/{record.pk}/").status_code == 200
