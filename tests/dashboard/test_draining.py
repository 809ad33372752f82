"""Draining a node: nothing new is placed there, what can move leaves it, and what stays is told with its reason."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard import jobs
from dashboard.approvals.drains import drain_of
from dashboard.approvals.services import (
    draining,
    prepare_proposal,
)
from dashboard.audit.models import AuditEntry
from dashboard.catalog.lifecycle import REMOVING
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate, stored_estate
from dashboard.operations.estate_store.file_secrets import file_secrets
from dashboard.operations.estate_store.offered_slots import offered_slots
from dashboard.operations.services import NothingElsewhere, drain_node, register_node, undrain_node
from dashboard.teams.models import Secret
from scheduler.contracts.reports import Reports
from scheduler.model.errors import NotFound, PermissionDenied
from scheduler.model.fragment import RunningTask
from tests.dashboard.building import World, document, running
from tests.dashboard.draining import done, drained, on, turn
from tests.dashboard.node_parts import load_part_of
from workers.engine.desired_publishing import desired_of


@pytest.fixture(autouse=True)
def nothing_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())


def test_what_can_move_leaves_a_drained_node_one_after_the_other(world: World, sent) -> None:
    for number in range(2):
        running(world.carla, world.city, document(f"line-{number}").replace(
            '"type": "urban_sensing"', f'"type": "urban_sensing", "config": {{"seed": {number}}}'), world.ana)
    before = on("n1")
    assert before and turn() is None, "no node is drained"
    register_node(name="n2", slots=2)
    drain_node(name="n1")
    state = drain_of("n1")
    assert state.draining and {query.id for query in state.queries} == before and not state.staying
    assert {slot.node_id for slot in offered_slots()} == {"n2"}
    assert not stored_estate().slot_loads(["n1/0"]), "nothing is moved there either"
    first = turn()
    prepare_proposal(proposal_id=first.pk)
    assert turn() is None, "not while another plan is enacted"
    moved = done(first)
    assert moved.author_id is None and moved.plan.options["why"] and not moved.teams.exists()
    drained(world)
    assert not on("n1") and len(on("n2")) == len(before)
    wanted = desired_of(load_part_of("n1"), "n1", jobs.task_types())
    assert {heir.id for heir in wanted.remote_heirs["n2"]} == on("n2"), "it is told who goes on with what it had"
    assert not wanted.wanted and all(heir.tasks for heir in wanted.remote_heirs["n2"])
    undrain_node(name="n1")
    assert not drain_of("n1").draining
    assert {slot.node_id for slot in offered_slots()} == {"n1", "n2"}


def test_an_agent_can_be_stopped_once_it_has_nothing_more_to_do(world: World, sent, monkeypatch) -> None:
    """Where a query has another place it may still be ending, or handed over: whoever stops its agent then stops it."""
    running(world.carla, world.city, document("line"), world.ana)
    (query,) = on("n1")
    register_node(name="n2", slots=2)
    drain_node(name="n1")
    drained(world)
    client = Client()
    client.force_login(world.root)

    def seen(report: dict | None) -> tuple[int | None, bool, str, str]:
        reports = Reports.of({} if report is None else {"n1": {"node": "n1", **report}})
        monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reports))
        answer, out = client.get("/api/nodes/n1/drain").json(), StringIO()
        call_command("node", "list", stdout=out)
        page = client.get("/estate/nodes/n1").content.decode()
        assert ("can be stopped" in page) == ("can be stopped" in out.getvalue()) == answer["is_empty"]
        return answer["leaving"], answer["is_empty"], page, out.getvalue()

    slots = {"0": {"state": "running", "fragments": {query: {"state": "draining"}}}}
    for report in ({"slots": slots}, {"slots": {}, "handing_over": [query]}, {"slots": slots, "handing_over": [query]}):
        leaving, is_empty, page, words = seen(report)
        assert (leaving, is_empty) == (1, False) and "1 query is still handed over" in page
        assert "1 query still handed over" in words
    assert seen(None)[:2] == (None, False) and "Its agent does not report" in seen(None)[2]
    assert seen({"slots": {"0": {"state": "running", "fragments": {}}}})[:2] == (0, True)


def test_any_dataflow_that_works_in_a_query_can_ask_for_its_move(world: World, sent, monkeypatch) -> None:
    first, second = (running(world.carla, world.city, document(name), world.ana) for name in ("line", "same"))
    register_node(name="n2", slots=2)
    drain_node(name="n1")
    DataflowRecord.objects.filter(pk=first.pk).update(status=REMOVING)
    estate = load_estate()
    heads = {fragment.tasks[0] for fragment in estate.fragments.values() if len(fragment.tasks) > 1}
    submitted = estate.submitted[str(second.pk)]
    later = replace(submitted, running={task: name for task, name in submitted.running.items() if name not in heads})
    assert heads and later.running and later != submitted
    monkeypatch.setattr(draining, "current_estate", lambda: replace(
        estate, submitted={**estate.submitted, str(second.pk): later}))
    assert turn().dataflow == second


def test_what_stays_is_named_with_its_reason(world: World, sent) -> None:
    dataflow = json.loads(document("files"))
    dataflow["tasks"][-1] |= {"type": "parquet_files", "config": {"folder": "columns"}}
    running(world.carla, world.city, json.dumps(dataflow), world.ana)
    register_node(name="n2", slots=1)
    out = StringIO()
    with pytest.raises(CommandError, match="parquet_files writes files on n1"):
        call_command("node", "drain", "n1", stdout=out)
    assert "Nothing new is placed on n1" in out.getvalue()
    stay = {query.id for query in drain_of("n1").staying}
    drained(world)
    assert on("n1") == stay
    out = StringIO()
    call_command("node", "list", stdout=out)
    assert "drained" in out.getvalue()
    client = Client()
    client.force_login(world.root)
    page = client.get("/estate/nodes/n1").content.decode()
    assert "These cannot go" in page and "writes files on n1" in page
    client.post("/estate/nodes/n1/drain", {"back": "1"})
    assert not drain_of("n1").draining


def test_a_live_source_leaves_a_drained_node_and_what_keeps_its_place_there_does_not(
    world: World, sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "kafka.example.org:9092,mqtt.example.org:1883")
    monkeypatch.setenv("WEIR_SPARK_SOURCES", "rate-micro-batch")
    topic = {"type": "kafka", "config": {"servers": ["kafka.example.org:9092"], "topics": ["orders"]}}
    ticks = {"type": "spark_source", "config": {
        "source": "rate-micro-batch", "options": {"rowsPerBatch": "10"}, "columns": ["value:string"]}}
    sink = {"type": "to_mqtt", "config": {"server": "mqtt.example.org:1883", "topic": "orders"}}
    for name, source in (("orders", topic), ("ticks", ticks)):
        tasks = [{"id": "in", **source}, {"id": "out", **sink}]
        running(world.carla, world.city, json.dumps(
            {"name": name, "tasks": tasks, "streams": [{"from": "in", "to": "out"}]}), world.ana)
    register_node(name="n2", slots=1)
    drain_node(name="n1")
    [stays] = drain_of("n1").staying
    assert stays.why_not == "spark_source keeps how far it has read on n1"
    drained(world)
    assert on("n1") == {stays.id} and len(on("n2")) == 3
    wanted = desired_of(load_part_of("n1"), "n1", jobs.task_types())
    assert {"kafka", "to_mqtt"} == {heir.tasks[0].type for heir in wanted.remote_heirs["n2"]}


def test_a_secret_that_stands_for_a_file_binds_what_reads_it(world: World) -> None:
    for name, value in (("stations", "sqlite:stations.db"), ("live", "postgresql://me@db/stations")):
        Secret.objects.create(team=world.city, name=name, sealed=jobs.seal(value), set_by=world.dev)
    tasks = [
        RunningTask(name, "sql_lookup", {"database": {"secret": name, "team": team}}, ())
        for name in ("stations", "live", "unknown") for team in (world.city.slug, world.mobility.slug)]
    assert file_secrets(tasks) == {(world.city.slug, "stations")}
    Secret.objects.filter(name="stations").update(sealed="sealed with another key")
    assert not file_secrets(tasks)


def test_a_node_is_not_drained_where_nothing_else_is(world: World, sent) -> None:
    with pytest.raises(NothingElsewhere) as raised:
        drain_node(name="n1")
    assert raised.value.remedy and not drain_of("n1").draining
    with pytest.raises(NotFound):
        drain_node(name="n9")
    register_node(name="n2", slots=1)
    with pytest.raises(PermissionDenied):
        drain_node(name="n1", actor=world.ana)


def test_a_node_is_drained_over_the_api_and_used_again(world: World, sent) -> None:
    record = running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    root, ana, mo = (Client() for _ in range(3))
    for client, user in ((root, world.root), (ana, world.ana), (mo, world.mo)):
        client.force_login(user)
    refused = root.post("/api/nodes/n1/drain")
    assert refused.status_code == 409 and refused.json()["code"] == "nothing_elsewhere" and refused.json()["remedy"]
    register_node(name="n2", slots=1)
    for client in (ana, mo):
        assert client.post("/api/nodes/n1/drain").status_code == 403
    answer = root.post("/api/nodes/n1/drain")
    assert answer.status_code == 200, answer.content
    assert answer.json()["draining"] and {query["id"] for query in answer.json()["queries"]} == on("n1")
    assert not any(query["why_not"] for query in answer.json()["queries"])
    assert {slot.node_id for slot in offered_slots()} == {"n2"}
    entries = AuditEntry.objects.filter(verb="node.drain")
    assert [(entry.actor, entry.subject_id) for entry in entries] == [(world.root, "n1")]
    assert root.post("/api/nodes/n1/drain").json() == answer.json() and entries.count() == 1, "once is enough"
    drain = mo.get("/api/nodes/n1/drain").json()
    assert drain["draining"] and drain["queries"] == [] and drain["others"] == len(on("n1"))
    assert str(record.pk) not in str(drain)
    drained(world)
    assert root.get("/api/nodes/n1/drain").json() == {
        "node": "n1", "draining": True, "queries": [], "others": 0, "leaving": None, "is_empty": False}
    assert ana.post("/api/nodes/n1/undrain").status_code == 403
    assert root.post("/api/nodes/n1/undrain").json()["draining"] is False
    assert {slot.node_id for slot in offered_slots()} == {"n1", "n2"}
    for method, path in (("get", "drain"), ("post", "drain"), ("post", "undrain")):
        missing = getattr(root, method)(f"/api/nodes/n9/{path}")
        assert missing.status_code == 404 and missing.json()["remedy"]
