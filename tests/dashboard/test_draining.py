"""Draining a node: nothing new is placed there, what can move leaves it, and what stays is told with its reason."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from dashboard import jobs
from dashboard.approvals import drains
from dashboard.approvals.drains import TAKEN_BACK_S, drain_of
from dashboard.approvals.lifecycle import DONE, EXECUTING, FAILED, ROLLING_BACK, STALE
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    cancel_proposal,
    draining,
    empty_nodes,
    move_query,
    prepare_proposal,
    record_progress,
)
from dashboard.approvals.services.enacting import PATIENCE_S, Observed
from dashboard.audit.models import AuditEntry
from dashboard.catalog.lifecycle import REMOVING, RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate import load_estate, load_part_of, stored_estate
from dashboard.operations.file_secrets import file_secrets
from dashboard.operations.models import EstateState, FragmentRow, NodeRow, SlotRow
from dashboard.operations.offered_slots import SILENT_AFTER, offered_slots
from dashboard.operations.services import NothingElsewhere, drain_node, register_node, undrain_node
from dashboard.operations.telemetry import EVERYTHING
from dashboard.plans.selectors import plan_of
from dashboard.teams.models import Secret, User
from dashboard.teams.permissions import viewer_of
from scheduler import moving
from scheduler.contracts.reports import Reports
from scheduler.model.errors import InvalidTransition, NotFound, PermissionDenied
from scheduler.model.fragment import RunningTask, node_of
from tests.dashboard.building import World, approved, document, enacted, planned, running
from workers.engine.desired import desired_of


@pytest.fixture(autouse=True)
def nothing_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())


def on(node: str) -> set[str]:
    return {name for name, fragment in load_estate().fragments.items() if node_of(fragment.slot) == node}


def turn(**later: float) -> Proposal | None:
    """Weir sees to nodes that are drained, so much later."""
    return empty_nodes(at=timezone.now() + timedelta(**later))


def done(proposal: Proposal) -> Proposal:
    """As if the nodes had reported it to be in force."""
    proposal.refresh_from_db()
    assert proposal.status == EXECUTING, proposal.plan.error
    Proposal.objects.filter(pk=proposal.pk).update(status=DONE)
    return proposal


def drained(world: World) -> list[Proposal]:
    """Every move that Weir makes until there is none left to make."""
    proposals = []
    while (proposal := turn()) is not None:
        prepare_proposal(proposal_id=proposal.pk)
        proposals.append(done(proposal))
        assert len(proposals) < 20
    return proposals


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
    assert seen(None)[:2] == (None, False) and "Nothing is heard of its agent" in seen(None)[2]
    assert seen({"slots": {"0": {"state": "running", "fragments": {}}}})[:2] == (0, True)


def test_any_dataflow_that_works_in_a_query_can_ask_for_its_move(world: World, sent, monkeypatch) -> None:
    first, second = (running(world.carla, world.city, document(name), world.ana) for name in ("line", "same"))
    register_node(name="n2", slots=2)
    drain_node(name="n1")
    DataflowRecord.objects.filter(pk=first.pk).update(status=REMOVING)
    estate = load_estate()
    heads = {fragment.tasks[0] for fragment in estate.fragments.values() if len(fragment.tasks) > 1}
    own = estate.submitted[str(second.pk)]
    later = replace(own, running={task: name for task, name in own.running.items() if name not in heads})
    assert heads and later.running and later != own
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


# What holds a query ---------------------------------------------------------------------------------------------------


@pytest.fixture
def line(world: World, sent) -> DataflowRecord:
    """A dataflow of one query on n1, which has to be drained; n2 has room."""
    record = running(world.carla, world.city, document("line"), world.ana)
    register_node(name="n2", slots=1)
    drain_node(name="n1")
    return record


def waits(user: User | None = None) -> tuple[str, str | None]:
    """What holds the query on n1, and the proposal that it is about; the page and the command tell the same."""
    [query] = drain_of("n1", viewer_of(user) if user else EVERYTHING).queries
    out, client = StringIO(), Client()
    call_command("node", "drain", "n1", stdout=out)
    assert not query.held or query.id in out.getvalue()
    client.force_login(User.objects.get(username="root"))
    page = client.get("/estate/nodes/n1").content.decode()
    assert bool(query.held) == ('data-part="waiting"' in page)
    answer = client.get("/api/nodes/n1/drain").json()["queries"][0]
    if user is None:
        assert (answer["held"], answer["proposal"]) == (query.held, query.proposal)
        assert not query.proposal or (f"/proposals/{query.proposal}/" in page and query.proposal in out.getvalue())
    return query.held, query.proposal


def test_a_proposal_of_people_to_move_the_query_holds_it_and_is_named(world: World, line: DataflowRecord) -> None:
    [query] = on("n1")
    undrain_node(name="n1")
    proposal = move_query(actor=world.carla, dataflow_id=line.pk, query=query, slot="n1/1")
    drain_node(name="n1")
    assert turn() is None
    held, named = waits()
    assert "A proposal to move it is open" in held and named == str(proposal.pk)
    cancel_proposal(actor=world.carla, proposal_id=proposal.pk)
    assert waits() == ("", None)
    drained(world)
    assert not on("n1")


def test_another_proposal_of_the_same_dataflow_holds_nothing(world: World, sent) -> None:
    text = json.loads(document("halves"))
    text["tasks"] = [task | {"chain": "never"} for task in text["tasks"]]
    record = running(world.carla, world.city, json.dumps(text), world.ana)
    first, *others = sorted(on("n1"))
    slot = load_estate().fragments[first].slot
    away = "n1/1" if slot == "n1/0" else "n1/0"
    proposal = move_query(actor=world.carla, dataflow_id=record.pk, query=first, slot=away)
    register_node(name="n2", slots=2)
    drain_node(name="n1")
    drained(world)
    assert others and on("n1") == {first}
    assert waits() == (drain_of("n1").waiting[0].held, str(proposal.pk))


def test_a_plan_that_cannot_be_made_is_tried_again_with_pauses_that_grow(
    world: World, line: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise InvalidTransition("f1-0 cannot be moved: not today.", remedy="Wait.")

    with monkeypatch.context() as patched:
        patched.setattr(moving, "plan_move", refuses)
        first = turn()
        assert "is being planned" in waits()[0]
        prepare_proposal(proposal_id=first.pk)
        held, named = waits()
        assert "not today" in held and named == str(first.pk)
        for attempt, pause in ((2, 10), (3, 20), (4, 40)):
            assert turn(seconds=pause - 5) is None, "not at once"
            again = turn(seconds=pause + 1)
            assert again.pk == first.pk and again.plan.options["attempt"] == attempt
            prepare_proposal(proposal_id=first.pk)
    assert turn(seconds=60) is None and turn(seconds=81).pk == first.pk
    prepare_proposal(proposal_id=first.pk)
    done(first)
    assert not on("n1")


def failing(proposal: Proposal, cause: str) -> Proposal:
    """The heir does not start for longer than anybody waits for."""
    begun = timezone.now()
    for seconds in (0, PATIENCE_S + 1):
        plan = plan_of(proposal.plan)
        proposal = record_progress(proposal_id=proposal.pk, at=begun + timedelta(seconds=seconds), observed=Observed(
            proposal.plan_id, done=(), failing={step.fragment: cause for step in plan.steps}))
    assert proposal.status == FAILED
    return proposal


def test_a_move_whose_heir_cannot_start_is_taken_back_and_others_go_meanwhile(
    world: World, line: DataflowRecord
) -> None:
    undrain_node(name="n1")
    running(world.carla, world.city, document("second").replace(
        '"type": "urban_sensing"', '"type": "urban_sensing", "config": {"seed": 5}'), world.ana)
    for name in on("n2"):
        FragmentRow.objects.filter(pk=name).update(slot="n1/1")
    EstateState.objects.update(changed=timezone.now())
    drain_node(name="n1")
    assert len(on("n1")) == 2
    first = turn()
    tasks = load_estate().fragments[first.plan.options["query"]].tasks
    prepare_proposal(proposal_id=first.pk)
    failing(Proposal.objects.get(pk=first.pk), "No module named 'theirs'")
    held, named = waits()
    assert "does not come to its end" in held and "theirs" in held and named == str(first.pk)

    assert turn() is None, "it is taken back first"
    first.refresh_from_db()
    assert first.status == ROLLING_BACK and first.rollback_plan.options["why"] == "No module named 'theirs'"
    assert "being taken back" in drain_of("n1").waiting[0].held
    enacted(first)
    second = turn()
    assert second.pk != first.pk, "the other query goes"
    prepare_proposal(proposal_id=second.pk)
    done(second)
    assert [load_estate().fragments[name].tasks for name in on("n1")] == [tasks]
    held, named = waits()
    assert "taken back" in held and "theirs" in held and named == str(first.pk) and turn() is None

    register_node(name="n3", slots=1)
    assert turn(seconds=TAKEN_BACK_S - 20) is None
    third = turn(seconds=TAKEN_BACK_S + 5)
    assert third.plan.options["slot"] == "n3/0", "where it was not tried yet"
    prepare_proposal(proposal_id=third.pk)
    done(third)
    assert not on("n1")


def test_a_move_to_a_node_that_fell_silent_is_not_taken_back(world: World, line: DataflowRecord) -> None:
    first = turn()
    prepare_proposal(proposal_id=first.pk)
    NodeRow.objects.filter(name="n1").update(seen=timezone.now())
    NodeRow.objects.filter(name="n2").update(seen=timezone.now() - 2 * SILENT_AFTER)
    failing(Proposal.objects.get(pk=first.pk), "nothing is heard of n2")
    assert turn() is None and Proposal.objects.get(pk=first.pk).status == FAILED


def test_what_people_move_is_not_taken_back_by_a_drain(world: World, line: DataflowRecord) -> None:
    [query] = on("n1")
    proposal = move_query(actor=world.carla, dataflow_id=line.pk, query=query, slot="n2/0")
    failing(approved(prepare_proposal(proposal_id=proposal.pk), world.ana), "boom")
    assert turn() is None and Proposal.objects.get(pk=proposal.pk).status == FAILED


def test_nothing_leaves_a_silent_node(world: World, line: DataflowRecord) -> None:
    NodeRow.objects.filter(name="n2").update(seen=timezone.now())
    NodeRow.objects.filter(name="n1").update(seen=timezone.now() - 2 * SILENT_AFTER)
    assert turn() is None and "Nothing is heard of n1" in waits()[0]
    [query] = on("n1")
    proposal = move_query(actor=world.carla, dataflow_id=line.pk, query=query, slot="n2/0")
    assert "nothing is heard of n1" in prepare_proposal(proposal_id=proposal.pk).plan.error["message"]


def test_a_move_is_not_begun_once_the_node_that_it_leaves_is_silent(world: World, line: DataflowRecord) -> None:
    [query] = on("n1")
    undrain_node(name="n1")
    proposal = prepare_proposal(
        proposal_id=move_query(actor=world.carla, dataflow_id=line.pk, query=query, slot="n2/0").pk)
    NodeRow.objects.filter(name="n2").update(seen=timezone.now())
    NodeRow.objects.filter(name="n1").update(seen=timezone.now() - 2 * SILENT_AFTER)
    assert approved(proposal, world.ana).status == STALE
    proposal.plan.refresh_from_db()
    assert "Nothing is heard of n1 any more, off which" in proposal.plan.error["message"]


def test_what_else_holds_a_query(world: World, line: DataflowRecord) -> None:
    SlotRow.objects.filter(node="n2").update(reserved_for="a measurement")
    assert "No other node has a slot" in waits()[0] and turn() is None
    SlotRow.objects.filter(node="n2").update(reserved_for="")
    DataflowRecord.objects.update(status=REMOVING)
    assert "None of the dataflows" in waits()[0] and turn() is None
    DataflowRecord.objects.update(status=RUNNING)
    other = approved(planned(world.carla, world.city, document("hush", visibility="private", window=4)), world.ana)
    held, named = waits()
    assert "Another plan is being enacted" in held and named == str(other.pk)
    assert waits(world.mo) == (held, None), "not to those who may not know of it"


@given(st.integers(1, 200), st.integers(1, 100), st.integers(1, 5000))
def test_pauses_double_up_to_the_longest(attempts: int, first_s: int, most_s: int) -> None:
    now, then = (drains.pause_s(count, first_s=first_s, most_s=most_s) for count in (attempts, attempts + 1))
    assert then == min(2 * now, most_s) or now == most_s == then
    assert drains.pause_s(1, first_s=first_s, most_s=most_s) == min(first_s, most_s)


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
    known = mo.get("/api/nodes/n1/drain").json()
    assert known["draining"] and known["queries"] == [] and known["others"] == len(on("n1"))
    assert str(record.pk) not in str(known)
    drained(world)
    assert root.get("/api/nodes/n1/drain").json() == {
        "node": "n1", "draining": True, "queries": [], "others": 0, "leaving": None, "is_empty": False}
    assert ana.post("/api/nodes/n1/undrain").status_code == 403
    assert root.post("/api/nodes/n1/undrain").json()["draining"] is False
    assert {slot.node_id for slot in offered_slots()} == {"n1", "n2"}
    for method, path in (("get", "drain"), ("post", "drain"), ("post", "undrain")):
        missing = getattr(root, method)(f"/api/nodes/n9/{path}")
        assert missing.status_code == 404 and missing.json()["remedy"]
