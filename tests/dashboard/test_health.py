"""What is said of what is wrong: by slot, node, query, channel, source, disk, worker and broker, with a remedy."""

from __future__ import annotations

import json
from collections import namedtuple
from typing import Any

import pytest
from django.test import Client

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.diagnosis import health
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_reader import live_dataflow, live_estate
from dashboard.operations.live_view.estate_view import SharedViews, view_for
from dashboard.operations.live_view.query_states import query_state
from dashboard.operations.models import FragmentRow
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.reports import QueryReport, Reports, SlotReport
from tests.cases import each
from tests.dashboard.building import World, document, running
from workers.engine.observed import Flows, TaskFlow
from workers.library.registry import PluginProblem

AT_MS = 1_000_000
RUNS = QueryReport(state="running", batch=3)
UP = SlotReport(state="running")


@pytest.mark.parametrize(("query", "slot", "facts", "state"), [
    (RUNS, UP, {}, "running"),
    (RUNS, SlotReport(state="stalled"), {}, "stalled"),
    (RUNS, SlotReport(state="starting"), {}, "starting"),
    (RUNS, SlotReport(state="starting", restarts=1), {}, "recovering"),
    (RUNS, SlotReport(state="backoff", restarts=3), {}, "recovering"),
    (QueryReport(state="starting"), UP, {}, "starting"),
    (QueryReport(state="stopped"), UP, {}, "starting"),
    (QueryReport(state="starting", restarts=1), UP, {}, "recovering"),
    (QueryReport(state="starting"), SlotReport(state="running", restarts=1, since_ms=AT_MS - 5_000), {}, "recovering"),
    (QueryReport(state="starting"), SlotReport(state="running", restarts=1, since_ms=0), {}, "starting"),
    (QueryReport(state="running"), UP, {"gets_events": True}, "starting"),
    (QueryReport(state="running"), UP, {"gets_events": False}, "running"),
    (QueryReport(state="running", restarts=1, real_time=True), UP, {"gets_events": True}, "recovering"),
    (QueryReport(state="running", restarts=1, real_time=True, rate_per_s=5.0), UP, {"gets_events": True}, "running"),
    (QueryReport(state="running", since_ms=AT_MS - 9_000), UP, {"is_source": True}, "starting"),
    (QueryReport(state="running", since_ms=AT_MS - 90_000, idle_ms=80_000), UP, {"is_source": True}, "silent_source"),
    (QueryReport(state="running", batch=3, idle_ms=80_000), UP, {}, "running"),
    (QueryReport(state="running", batch=3, throttled_by="f1-0.0"), UP, {}, "throttled"),
    (QueryReport(state="running", batch=3, batch_for_ms=30_000), UP, {}, "stalled"),
    (QueryReport(state="running", batch=3, batch_ms=16_000, batch_for_ms=30_000), UP, {}, "running"),
    (QueryReport(state="running", batch=3, batch_ms=14_000, batch_for_ms=30_000), UP, {}, "stalled"),
    (QueryReport(state="running", batch=3, batch_ms=60_000, batch_for_ms=30_000, real_time=True), UP, {}, "stalled"),
    (QueryReport(state="running", batch_for_ms=30_000), SlotReport(state="running", since_ms=AT_MS - 90_000), {},
     "starting"),
    (QueryReport(state="running", batch_for_ms=30_000),
     SlotReport(state="running", restarts=1, since_ms=AT_MS - 90_000), {}, "recovering"),
    (QueryReport(state="running", batch_for_ms=30_000), SlotReport(state="running", since_ms=AT_MS - 190_000), {},
     "stalled"),
    (QueryReport(state="backoff", error="no"), UP, {}, "backoff"),
    (QueryReport(state="running", error="no", failures=2), UP, {"gets_events": True}, "backoff"),
    (QueryReport(state="running", error="no", failures=2, batch=3), UP, {}, "running"),
    (QueryReport(state="running", error="no", failures=1, restarts=1), UP, {"gets_events": True}, "recovering"),
    (QueryReport(state="waiting"), UP, {}, "waiting"),
])
def test_a_state_follows_from_what_flows(
    query: QueryReport, slot: SlotReport, facts: dict[str, bool], state: str
) -> None:
    facts = {"is_source": False, "gets_events": False} | facts
    assert query_state(query, slot, at_ms=AT_MS, **facts) == state


@pytest.fixture
def record(world: World) -> DataflowRecord:
    return running(world.carla, world.city, document("traffic"), world.ana)


def observe(monkeypatch: pytest.MonkeyPatch, *, slot: dict[str, Any] | None = None, query: dict[str, Any] | None = None,
            node: dict[str, Any] | None = None, age_ms: int = 0, **reading: Any) -> None:
    """Node n1 reports that all of traffic runs on its first slot, but for these changes."""
    names = FragmentRow.objects.values_list("pk", flat=True)
    queries = {name: {"state": "running", "batch": 1} | (query or {}) for name in names}
    up = {"state": "running", "fragments": queries}
    slots = {"0": up | (slot or {}), "1": up}
    reports = Reports(Reports.of({"n1": {"at_ms": AT_MS, "slots": slots} | (node or {})}), ages_ms={"n1": age_ms})
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reports, **reading))


FROM_MQTT = (
    {"id": "topic", "type": "mqtt", "config": {"server": "mqtt.example.org", "topics": ["a"]}},
    {"id": "out", "type": "output", "config": {"name": "out"}})
TO_MQTT = (
    {"id": "sense", "type": "urban_sensing"},
    {"id": "out", "type": "to_mqtt", "config": {"server": "mqtt.example.org", "topic": "a"}})


def connected(
    world: World, monkeypatch: pytest.MonkeyPatch, tasks: tuple[dict[str, Any], dict[str, Any]], **facts: str
) -> tuple[DataflowRecord, str]:
    """A dataflow of two tasks that runs, and the running task that has to do with a server outside."""
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "mqtt.example.org")
    first, last = (task["id"] for task in tasks)
    record = running(world.carla, world.city, json.dumps({
        "name": "vehicles", "tasks": tasks, "streams": [{"from": first, "to": last}], **facts}), world.ana)
    [task] = [task.id for task in load_estate().tasks.values() if "mqtt" in task.type]
    return record, task


def finding_of(world: World, record: DataflowRecord) -> tuple[dict[str, Any], str]:
    """The only finding of a viewer of the team, and the dataflow's state."""
    viewer = viewer_of(world.carla)
    estate = live_estate(viewer)
    (finding,) = estate["health"].values()
    return finding, estate["dataflows"][str(record.pk)]["state"]


def test_nothing_is_said_of_what_is_well(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe(monkeypatch)
    estate = live_estate(viewer_of(world.carla))
    assert estate["health"] == {}
    assert estate["dataflows"][str(record.pk)]["state"] == "running"


@each("changes, part, state, severity, of_dataflow", [
    ({"slot": {"state": "starting", "restarts": 1, "error": "Its process was killed by SIGKILL.", "fragments": {}}},
     "slot", "recovering", "warn", "recovering"),
    ({"slot": {"state": "stalled", "silent_ms": 2_500}}, "slot", "stalled", "bad", "stalled"),
    ({"slot": {"state": "backoff", "restarts": 4, "retry_at_ms": 5, "fragments": {}}},
     "slot", "backoff", "bad", "recovering"),
    ({"age_ms": 3_100}, "node", "silent", "bad", "silent"),
    ({"query": {"state": "backoff", "error": "no such host", "retry_at_ms": 7}}, "query", "backoff", "bad", "backoff"),
    ({"query": {"throttled_by": "f1-0.0"}}, "channel", "throttled", "warn", "throttled"),
    ({"query": {"batch_for_ms": 60_000}}, "query", "stalled", "bad", "stalled"),
    ({"query": {"idle_ms": 600_000}}, "source", "silent_source", "note", "silent_source"),
    ({"worker": False}, "worker", "away", "bad", "running"),
])
def test_what_is_wrong_is_said_with_cause_and_remedy(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], part: str,
    state: str, severity: str, of_dataflow: str
) -> None:
    observe(monkeypatch, **changes)
    finding, dataflow_state = finding_of(world, record)
    assert (finding["part"], finding["state"], finding["severity"]) == (part, state, severity)
    assert finding["cause"] and finding["remedy"]
    assert dataflow_state == of_dataflow
    concerned = [user["name"] for user in finding["dataflows"]]
    assert concerned == ([] if part == "worker" else ["traffic"])
    assert (finding["part"] == "worker") or set(live_dataflow(viewer_of(world.carla), record.pk)["health"]) == {
        f"{part}/{finding['name']}"}


def test_since_is_when_it_began_and_not_when_its_query_did(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    for changes, since_ms in (
        ({"idle_ms": 70_000}, AT_MS - 70_000), ({"batch_for_ms": 20_000}, AT_MS - 20_000),
        ({"throttled_by": "f1-0.0"}, None), ({"state": "backoff", "error": "no"}, AT_MS - 900_000),
    ):
        observe(monkeypatch, query=changes | {"since_ms": AT_MS - 900_000})
        assert finding_of(world, record)[0]["since_ms"] == since_ms, changes


def test_queries_that_come_back_after_a_restart_are_counted_down(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    for window in range(4, 10):
        running(world.carla, world.city, document(f"speeds{window}", window=window), world.ana)
    names = [fragment.id for fragment in load_estate().fragments.values() if fragment.slot == "n1/0"]
    causes_told = []
    for back in range(len(names) + 1):
        queries = {name: {"state": "running", "batch": 1} if number < back else {"state": "starting"}
                   for number, name in enumerate(names)}
        observe(monkeypatch, slot={"restarts": 1, "since_ms": AT_MS - 5_000, "fragments": queries})
        causes_told.append([finding["cause"] for finding in live_estate(viewer_of(world.carla))["health"].values()])
    count = len(names)
    assert count >= 3 and [causes[0].split(" queries")[0] for causes in causes_told[:-2]] == [
        f"{missing} of {count}" for missing in range(count, 1, -1)]
    assert "is coming back" in causes_told[-2][0]
    assert [len(causes) for causes in causes_told] == [1] * count + [0]


def test_a_full_disk_is_foreseen_and_named(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch, settings
) -> None:
    usage = namedtuple("usage", "total used free")
    settings.LOCAL_NODE, settings.DISK_FREE_MB = "elsewhere", 1000
    for free_mb, state, severity in ((900, "low", "warn"), (10, "full", "bad")):
        observe(monkeypatch, node={"disk_free_mb": free_mb})
        finding, _ = finding_of(world, record)
        assert (finding["part"], finding["name"], finding["state"], finding["severity"]) == (
            "disk", "n1", state, severity)
    observe(monkeypatch, node={"disk_free_mb": 900}, query={"state_kb": 9 << 10})
    for who, is_told in (("carla", True), ("root", True), ("mo", False)):  # mo's team has no query there
        [row] = [row for row in health.findings(view_for(viewer_of(world.users[who]))) if row.part == "disk"]
        assert ("largest states of your queries there: " in row.cause and " of traffic" in row.cause) is is_told
    observe(monkeypatch)
    monkeypatch.setattr(health.shutil, "disk_usage", lambda _: usage(1 << 40, 0, 5 << 20))
    finding, _ = finding_of(world, record)
    assert (finding["name"], finding["state"]) == ("site", "full")


def test_a_slow_reader_is_named(world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    running(world.carla, world.city, document("speeds", window=9), world.ana)
    estate = load_estate()
    reader = next(fragment for fragment in estate.fragments.values() if estate.tasks[fragment.tasks[0]].parents)
    writer, position = estate.places[estate.tasks[reader.tasks[0]].parents[0]]
    observe(monkeypatch, query={"throttled_by": f"{writer}.{position}"})
    cause = live_estate(viewer_of(world.carla))["health"][f"channel/{writer}"]["cause"]
    assert cause.startswith("average → out of speeds")
    monkeypatch.undo()
    for nowhere in ("gone-0.7", f"{writer}.99", "x"):
        observe(monkeypatch, query={"throttled_by": nowhere})
        assert live_estate(viewer_of(world.carla))["health"][f"channel/{writer}"]["cause"].startswith("A reader")


@pytest.mark.parametrize(("refused", "severity"), [("", "warn"), ("full", "bad"), ("No space left on device", "bad")])
def test_a_reader_that_goes_on_from_disk_is_told_and_whom_it_holds_back(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch, refused: str, severity: str
) -> None:
    slow = running(world.carla, world.city, document("speeds", window=9), world.ana)
    estate = load_estate()
    reader = next(fragment for fragment in estate.fragments.values() if estate.tasks[fragment.tasks[0]].parents)
    channel = estate.channel_of(estate.tasks[reader.tasks[0]].parents[0])
    spill = {"channel": channel, "mb": 3.5, "since_ms": 7, "refused": refused}
    observe(monkeypatch, node={"spills": {reader.id: spill}})
    finding = live_estate(viewer_of(world.carla))["health"][f"spill/{reader.id}"]
    assert (finding["state"], finding["severity"], finding["since_ms"]) == ("behind", severity, 7)
    concerned = {user["name"] for user in finding["dataflows"]}
    assert concerned == ({"speeds", "traffic"} if refused else {"speeds"})
    assert f"spill/{reader.id}" in live_dataflow(viewer_of(world.carla), slow.pk)["health"]


@pytest.mark.parametrize(("state", "severity"), [
    ("away", "bad"), ("retrying", "bad"), ("throttled", "warn"), ("running", None), ("starting", None)])
def test_a_live_source_that_is_not_read_is_told_to_whom_it_concerns(
    world: World, monkeypatch: pytest.MonkeyPatch, state: str, severity: str | None
) -> None:
    record, task = connected(world, monkeypatch, FROM_MQTT, visibility="private")
    source = {"state": state, "since_ms": 7, "error": "mqtt.example.org is silent.", "retry_at_ms": 9,
              "events": 4, "dead": 2}
    observe(monkeypatch, node={"connectors": {"state": "running", "sources": {task: source}}})
    live = live_dataflow(viewer_of(world.carla), record.pk)
    assert live["sources"]["topic"]["state"] == state and live["sources"]["topic"]["dead"] == 2
    finding = live["health"].get(f"source/{task}")
    assert (finding and finding["severity"]) == severity
    if severity == "bad":
        assert "mqtt.example.org is silent." in finding["cause"] and finding["retry_at_ms"] == 9
    assert "mqtt.example.org" not in repr(live_estate(viewer_of(world.outsider)))


def test_a_live_source_has_the_rate_that_its_dataflow_has_everywhere(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, task = connected(world, monkeypatch, FROM_MQTT)
    observe(monkeypatch, measured=True, flows=Flows({task: TaskFlow(9.96, 100, 12.0, 30.0)}, {}), node={"connectors": {
        "state": "running", "sources": {task: {"state": "running", "since_ms": 7, "rate_per_s": 11.5, "events": 4}}}})
    live = live_dataflow(viewer_of(world.carla), record.pk)
    assert live["sources"]["topic"]["rate_per_s"] == live["tasks"]["topic"]["rate_per_s"] == 10.0
    assert live["totals"]["events_in_per_s"] == 10.0


@pytest.mark.parametrize(("text", "kind"), [(FROM_MQTT, "source"), (TO_MQTT, "sink")])
def test_another_team_learns_that_another_system_is_away_and_not_which_host(
    world: World, monkeypatch: pytest.MonkeyPatch, text: str, kind: str
) -> None:
    record, task = connected(world, monkeypatch, text)
    observe(monkeypatch, node={"connectors": {"state": "running", f"{kind}s": {
        task: {"state": "away", "since_ms": 7, "error": "mqtt.example.org is silent.", "retry_at_ms": 9}}}})
    look = SharedViews().view_for  # one look for both, which share what does not depend on whose dataflow it is
    assert "mqtt.example.org is silent." in repr(live_estate(viewer_of(world.carla), look=look)["health"])
    outsider = viewer_of(world.outsider)
    for live in (live_estate(outsider, look=look), live_dataflow(outsider, record.pk, look=look)):
        assert record.name in repr(live) and "mqtt.example.org" not in repr(live)
        assert live["health"][f"{kind}/{task}"]["state"] == "away"


@pytest.mark.parametrize(("state", "severity"), [("running", None), ("away", "bad"), ("retrying", "bad")])
def test_a_sink_that_is_not_written_is_told_to_whom_it_concerns(
    world: World, monkeypatch: pytest.MonkeyPatch, state: str, severity: str | None
) -> None:
    record, task = connected(world, monkeypatch, TO_MQTT, visibility="private")
    sink = {"state": state, "since_ms": 7, "error": "The MQTT server is silent.", "retry_at_ms": 9, "events": 4,
            "refused": 2, "waiting": 5, "waiting_since_ms": 6}
    observe(monkeypatch, node={"connectors": {"state": "running", "sinks": {task: sink}}})
    live = live_dataflow(viewer_of(world.carla), record.pk)
    assert live["sinks"]["out"]["state"] == state and live["sinks"]["out"]["waiting"] == 5
    finding = live["health"].get(f"sink/{task}")
    assert (finding and finding["severity"]) == severity
    if severity == "bad":
        assert "The MQTT server is silent." in finding["cause"] and finding["retry_at_ms"] == 9
    assert "silent" not in repr(live_estate(viewer_of(world.outsider)))


def test_a_private_dataflow_is_in_nobody_elses_findings(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    for changes in ({"slot": {"state": "starting", "restarts": 1}}, {"query": {"throttled_by": "f2-0.0"}}):
        observe(monkeypatch, **changes)
        assert "hush" not in repr(live_estate(viewer_of(world.outsider))["health"])
        assert "hush" in repr(live_estate(viewer_of(world.carla))["health"])


def test_a_reader_whose_stream_flows_is_starting_until_its_first_batch(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(world.carla, world.city, document("speeds", window=9), world.ana)
    estate = load_estate()
    reader = next(fragment for fragment in estate.fragments.values() if estate.tasks[fragment.tasks[0]].parents)
    (parent,) = estate.tasks[reader.tasks[0]].parents
    for rate, expected in ((5.0, "starting"), (0.0, "running")):
        observe(monkeypatch, query={"batch": None, "since_ms": 0},
                flows=Flows(tasks={parent: TaskFlow(rate, 9, None, None)}), measured=True)
        view = view_for(viewer_of(world.carla))
        assert view.bundle_report(reader.queries[0]).state == expected


def test_probes_answer_anybody_and_say_what_is_away(db, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    assert client.get("/healthz").json() == {"status": "ok"}
    answer = client.get("/readyz")  # the tests have no broker
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True, "checks": {
            "database": "ok", "disk": "ok", "broker": "away", "worker": "unknown", "estate": "unknown"}}
    monkeypatch.setattr(health.shutil, "disk_usage", lambda _: namedtuple("usage", "free")(1 << 20))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["ready"], answer.json()["checks"]["disk"]) == (503, False, "full")
    assert client.post("/readyz").status_code == 405


def test_a_package_of_task_types_that_cannot_be_read_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PluginProblem("alarms", "plant-alarms", "it raises RuntimeError: boom")
    monkeypatch.setattr(jobs, "plugin_problems", lambda: (problem,))
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())
    [finding] = [finding for finding in health.findings(view_for(viewer_of(world.carla))) if finding.part == "package"]
    assert (finding.name, finding.severity) == ("alarms", "warn")
    assert "plant-alarms" in finding.cause and "boom" in finding.cause and "start Weir again" in finding.remedy


def test_a_broker_without_its_replica_is_told_and_serves(world, monkeypatch) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    observe(monkeypatch, broker_alone=True)
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["broker"]) == (200, "alone")
    assert "new events are lost" in {finding.state: finding for finding in health.health(
        view_for(viewer_of(world.carla)))}["away"].cause


@pytest.mark.parametrize(("unwalled", "walls"), [([], "ok"), (["user"], "missing"), (["files", "broker"], "missing")])
def test_a_node_without_walls_is_a_remark_and_no_reason_not_to_serve(db, monkeypatch, unwalled, walls) -> None:
    observe(monkeypatch, node={"unwalled": unwalled})
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["checks"]["walls"]) == (200, walls)
