"""Named savepoints on the site: taken of what runs, followed, begun from, and deleted."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from dashboard import jobs, queue
from dashboard.approvals.savepoints_told import savepoints_told
from dashboard.approvals.services import (
    cancel_proposal,
    change_dataflow,
    choose_joining,
    delete_savepoint,
    prepare_proposal,
    submit_dataflow,
    take_savepoint,
)
from dashboard.approvals.services.savepoint_commands import SavepointNameTaken
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.services import drain_node, register_node
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.joining_options import InvalidBeginning
from dashboard.plans.selectors import plan_of
from dashboard.savepoint_records.models import SavepointRow
from dashboard.savepoint_records.savepoint_following import CERTAIN_MS, follow_savepoints
from dashboard.savepoint_records.selectors import NoSuchSavepoint, asked_of_node
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import set_secret
from scheduler.contracts.desired import DesiredState
from scheduler.contracts.reports import Reports
from scheduler.exact_savepoints import NoExactSavepoint, SavepointDiffers
from scheduler.model.errors import InvalidTransition, NotFound, PermissionDenied
from scheduler.model.names import NameNotPlain
from scheduler.pairs import MODEL_BASED
from tests.dashboard.building import (
    World,
    approved,
    document,
    dynamic,
    enacted,
    held_to_estate,
    planned,
    removal_planned,
    running,
)
from tests.dashboard.node_parts import load_part_of
from tests.dashboard.rearranging import paused
from workers.engine.desired_publishing import desired_of

pytestmark = pytest.mark.django_db
SAVED_AT_MS = 1_790_000_000_000


@pytest.fixture
def traffic(world: World) -> DataflowRecord:
    return running(world.carla, world.city, document("traffic"), world.ana)


def taken(world: World, record: DataflowRecord, name: str = "monday") -> SavepointRow:
    return take_savepoint(actor=world.carla, dataflow_id=record.pk, name=name)


def told_to(node: str = "n1") -> DesiredState:
    """What a node is told, as it is published."""
    of_node = asked_of_node(node)
    return desired_of(
        load_part_of(node), node, jobs.task_types(), saving=of_node.saving,
        kept_savepoints=of_node.kept_ids)


def reported(*rows: SavepointRow, at_ms: int = SAVED_AT_MS + 1, node: str = "n1") -> Reports:
    """The node tells that it has the parts of these savepoints, and no others."""
    parts = {row.pk: {"fragment": row.fragment, "size_bytes": 4096, "at_ms": SAVED_AT_MS, "next_event": 17}
             for row in rows}
    return Reports.of({node: {"at_ms": at_ms, "savepoints": parts}})


def whole(world: World, record: DataflowRecord, name: str = "monday") -> SavepointRow:
    row = taken(world, record, name)
    assert follow_savepoints(reported(*SavepointRow.objects.all())) == 1
    row.refresh_from_db()
    return row


def gone(world: World, record: DataflowRecord) -> None:
    enacted(approved(removal_planned(world.carla, record), world.ana))


# -- taking ----------------------------------------------------------------------------------------------------------


def test_the_query_of_a_dataflow_is_told_to_leave_its_states_until_they_are_there(world, traffic, sent):
    sent.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.db.transaction.on_commit", lambda work, **_: work())
        row = taken(world, traffic)
    assert (queue.REPUBLISH_DESIRED, {}) in sent
    [fragment] = load_estate().fragments
    assert (row.state, row.fragment, row.node, row.version) == ("taking", fragment, "n1", 1)
    assert sorted(row.tasks) == ["average", "sense"], "what keeps state, and the source for its position"
    before = told_to()
    assert before.wanted[fragment].savepoints == (row.pk,) and before.kept_savepoints == (row.pk,)
    assert follow_savepoints(Reports.of({"n1": {}})) == follow_savepoints(reported()) == 0, "nothing is there yet"
    assert follow_savepoints(reported(row)) == 1 and follow_savepoints(reported(row)) == 0
    [savepoint] = savepoints_told(viewer_of(world.vera), traffic.pk).savepoints
    assert (savepoint.state, savepoint.size_bytes, savepoint.next_event) == ("whole", 4096, 17)
    assert savepoint.saved_at.timestamp() * 1000 == SAVED_AT_MS
    after = told_to()
    assert after.wanted[fragment].savepoints == () and after.kept_savepoints == (row.pk,)
    assert after.order > before.order, "another one would be of another moment"
    assert [entry.verb for entry in AuditEntry.objects.filter(subject_id=row.pk).order_by("pk")] == [
        "savepoint.take", "savepoint.follow"]


def test_only_who_may_submit_takes_and_deletes(world, traffic):
    for actor, error in ((world.vera, PermissionDenied), (world.mo, PermissionDenied)):
        with pytest.raises(error):
            take_savepoint(actor=actor, dataflow_id=traffic.pk, name="monday")
    row = taken(world, traffic)
    for actor in (world.vera, world.mo):
        with pytest.raises(PermissionDenied):
            delete_savepoint(actor=actor, dataflow_id=traffic.pk, savepoint_id=row.pk)


def test_names_are_plain_and_of_one_savepoint_of_the_team(world, traffic):
    taken(world, traffic)
    with pytest.raises(SavepointNameTaken):
        taken(world, traffic, " monday ")
    for name in ("", "a\nb", "x" * 81):
        with pytest.raises(NameNotPlain):
            taken(world, traffic, name)


def test_states_of_two_queries_are_refused(world):
    running(world.mo, world.mobility, document("speeds", window=9), world.ben)
    second = running(world.carla, world.city, document("traffic"), world.ana, world.ben)
    with pytest.raises(NoExactSavepoint, match=r"in 2 queries \(sense; average\), whose"):
        taken(world, second)
    assert "2 queries" in savepoints_told(viewer_of(world.carla), second.pk).hindrance


def test_who_shares_the_query_with_others_may_take_one(world, traffic):
    other = running(world.mo, world.mobility, document("jams"), world.ben, world.ana)
    row = take_savepoint(actor=world.mo, dataflow_id=other.pk, name="monday")
    assert sorted(row.tasks) == ["average", "sense"]


def test_alternates_live_sources_and_pauses_are_refused(world, traffic):
    ways = running(world.carla, world.city, dynamic("ways"), world.ana)
    with pytest.raises(NoExactSavepoint, match="work has alternates"):
        taken(world, ways)
    live = json.loads(document("live"))
    live["tasks"][:2] = [{
        "id": "sense", "type": "http_ingest", "config": {
            "name": "meters", "token": {"secret": "meters"}, "columns": [
                "sensor_id:string", "obs:string", "value:double"]}}]
    live["streams"] = [{"from": "sense", "to": "average"}, {"from": "average", "to": "out"}]
    del live["rates"]
    set_secret(actor=world.dev, team=world.city, name="meters", value="a-token-of-meters")
    record = running(world.carla, world.city, json.dumps(live), world.ana)
    with pytest.raises(NoExactSavepoint, match="sense is a live source"):
        taken(world, record)
    enacted(paused(world, traffic))
    with pytest.raises(InvalidTransition):
        taken(world, traffic)


# -- what becomes of them --------------------------------------------------------------------------------------------


def test_one_whose_query_ends_before_fails_and_says_why(world, traffic):
    row = taken(world, traffic)
    gone(world, traffic)
    assert follow_savepoints(Reports()) == 1
    row.refresh_from_db()
    assert row.state == "failed" and "ended before it left its states" in row.cause
    assert follow_savepoints(reported(row)) == 1, "it had left them, and its node was not heard"
    row.refresh_from_db()
    assert (row.state, row.cause) == ("whole", "")


def test_one_that_its_node_has_lost_fails_once_that_is_certain(world, traffic):
    row = whole(world, traffic)
    assert follow_savepoints(reported(at_ms=SAVED_AT_MS + 1)) == 0, "it may have been made before the file was there"
    assert follow_savepoints(Reports.of({"n1": {"at_ms": SAVED_AT_MS + 2 * CERTAIN_MS}})) == 0, "it was not told"
    assert follow_savepoints(reported(at_ms=SAVED_AT_MS + 2 * CERTAIN_MS)) == 1
    row.refresh_from_db()
    assert row.state == "failed" and "n1 has lost" in row.cause
    with pytest.raises(NoSuchSavepoint, match="failed"):
        submit_dataflow(actor=world.carla, team=world.city, text=document("again"), begin_from="monday")


def test_one_that_is_deleted_is_kept_nowhere(world, traffic):
    row = whole(world, traffic)
    before = told_to()
    delete_savepoint(actor=world.carla, dataflow_id=traffic.pk, savepoint_id=row.pk)
    assert told_to().kept_savepoints == () and told_to().order > before.order
    assert AuditEntry.objects.get(verb="savepoint.delete").details["name"] == "monday"
    with pytest.raises(NotFound):
        delete_savepoint(actor=world.carla, dataflow_id=traffic.pk, savepoint_id=row.pk)


# -- beginning -------------------------------------------------------------------------------------------------------


def test_a_dataflow_begins_from_one_on_its_node_and_shares_no_past(world, traffic):
    row = whole(world, traffic)
    register_node(name="n0", slots=4)  # has less to do, and comes first
    others = running(world.mo, world.mobility, document("jams"), world.ben, world.ana)
    gone(world, traffic)
    proposal = planned(world.carla, world.city, document("traffic"), begin_from="monday")
    plan = plan_of(proposal.plan)
    assert not plan.reused and len(plan.started) == 4, "jams has the same tasks, and another past"
    [fragment] = plan.fragments_after.values()
    assert fragment.slot.startswith("n1/")
    assert "savepoint monday" in plan.notes[0] and "event 17" in plan.notes[0] and "on node n1" in plan.notes[0]
    running(world.carla, world.city, document("noise", window=3), world.ana, world.ben)  # another generation
    proposal = held_to_estate(proposal)
    assert proposal.status == "pending"
    record = enacted(approved(proposal, world.ana)).dataflow
    estate = load_estate()
    ids = estate.submitted[str(record.pk)].running
    assert not set(ids.values()) & set(estate.submitted[str(others.pk)].running.values())
    [wanted] = [fragment for fragment in told_to().wanted.values() if ids["sense"] in {t.id for t in fragment.tasks}]
    assert {task: (place.savepoint, place.fragment, place.task) for task, place in wanted.restores.items()} == {
        ids[task]: (row.pk, row.fragment, row.tasks[task][0]) for task in ("sense", "average")}
    # Who comes later, alike, joins the one of its own past.
    late = planned(world.mo, world.mobility, document("late"))
    assert set(plan_of(late.plan).reused) <= set(estate.submitted[str(others.pk)].running.values())


def test_another_version_goes_on_from_what_was_restored(world, traffic):
    whole(world, traffic)
    gone(world, traffic)
    record = enacted(approved(planned(world.carla, world.city, document("traffic"), begin_from="monday"), world.ana))
    before = load_estate().submitted[str(record.dataflow_id)].running
    changed = json.loads(document("traffic"))
    changed["tasks"][3]["config"]["name"] = "other-out"
    proposal = prepare_proposal(proposal_id=change_dataflow(
        actor=world.carla, dataflow_id=record.dataflow_id, text=json.dumps(changed)).pk)
    plan = plan_of(proposal.plan)
    assert {before[task] for task in ("sense", "parse", "average")} <= set(plan.reused)


@pytest.mark.parametrize(("change", "why"), [
    (lambda text: text["tasks"][2]["config"].update(window=7), "average has another window than then"),
    (lambda text: text["tasks"][2].update(type="second_order_moment", config={}),
     "average is second_order_moment, and was block_average"),
    (lambda text: text["rates"].update(sense=20), "sense has another rate_per_s than then"),
    (lambda text: text["tasks"].extend([
        {"id": "more", "type": "second_order_moment"}, {"id": "out2", "type": "output", "config": {"name": "o2"}}])
     or text["streams"].extend([{"from": "parse", "to": "more"}, {"from": "more", "to": "out2"}]),
     "more is not in the savepoint"),
    (lambda text: text["tasks"].pop(2) and text["streams"].__setitem__(
        slice(1, 3), [{"from": "parse", "to": "out"}]), "average is in the savepoint, and the dataflow has no such"),
], ids=["config", "type", "rate", "more", "less"])
def test_other_tasks_are_refused_one_by_one_and_nothing_is_stored(world, traffic, change, why):
    whole(world, traffic)
    text = json.loads(document("again"))
    change(text)
    with pytest.raises(SavepointDiffers, match=why):
        submit_dataflow(actor=world.carla, team=world.city, text=json.dumps(text), begin_from="monday")
    assert not DataflowRecord.objects.filter(name="again").exists()


def test_stateless_tasks_may_be_others(world, traffic):
    whole(world, traffic)
    text = json.loads(document("again"))
    text["tasks"][3]["config"]["name"] = "elsewhere"
    assert planned(world.carla, world.city, json.dumps(text), begin_from="monday").status == "pending"


def test_one_of_another_team_or_that_is_not_whole_is_refused(world, traffic):
    taken(world, traffic)
    with pytest.raises(NoSuchSavepoint, match="being taken still"):
        submit_dataflow(actor=world.carla, team=world.city, text=document("again"), begin_from="monday")
    with pytest.raises(NoSuchSavepoint, match="has no savepoint"):
        submit_dataflow(actor=world.mo, team=world.mobility, text=document("again"), begin_from="monday")


def test_other_ways_to_begin_do_not_go_with_it(world, traffic):
    whole(world, traffic)
    schedule = ScheduleChoice.of(pair=MODEL_BASED, rate_per_s=None)
    for more in ({"fresh": True}, {"begin": "oldest"}, {"schedule": schedule}):
        with pytest.raises(InvalidBeginning, match="savepoint"):
            submit_dataflow(actor=world.carla, team=world.city, text=document("again"), begin_from="monday", **more)
    proposal = planned(world.carla, world.city, document("again"), begin_from="monday")
    with pytest.raises(InvalidBeginning, match="savepoint"):
        choose_joining(actor=world.carla, proposal_id=proposal.pk, fresh=True)


def test_a_node_without_slots_and_a_savepoint_that_is_needed_are_named(world, traffic):
    row = whole(world, traffic)
    proposal = planned(world.carla, world.city, document("again"), begin_from="monday")
    with pytest.raises(InvalidTransition, match="again begins from savepoint monday"):
        delete_savepoint(actor=world.carla, dataflow_id=traffic.pk, savepoint_id=row.pk)
    cancel_proposal(actor=world.carla, proposal_id=proposal.pk)
    register_node(name="n2", slots=2)
    drain_node(name="n1", actor=world.root)
    refused = planned(world.carla, world.city, document("more"), begin_from="monday")
    assert refused.status == "unplannable" and "Node n1" in refused.plan.error["message"]
    cancel_proposal(actor=world.carla, proposal_id=refused.pk)
    delete_savepoint(actor=world.carla, dataflow_id=traffic.pk, savepoint_id=row.pk)


# -- doors -----------------------------------------------------------------------------------------------------------


def test_the_api_takes_lists_begins_and_deletes(world, traffic):
    client = Client()
    client.force_login(world.carla)
    address = f"/api/dataflows/{traffic.pk}/savepoints"
    response = client.post(address, {"name": "monday", "note": "before the fair"}, content_type="application/json")
    assert response.status_code == 202
    [row] = SavepointRow.objects.all()
    follow_savepoints(reported(row))
    answer = client.get(address).json()
    [savepoint] = answer["savepoints"]
    assert (savepoint["name"], savepoint["note"], savepoint["state"], savepoint["by"], savepoint["query"]) == (
        "monday", "before the fair", "whole", "carla", row.fragment)
    assert (answer["taken"], answer["most"], answer["hindrance"]) == (1, 20, "")
    submitted = client.post("/api/dataflows", {
        "text": document("again"), "team": "city", "begin_from": "monday"}, content_type="application/json")
    assert submitted.status_code == 201, submitted.content
    cancel_proposal(actor=world.carla, proposal_id=submitted.json()["proposal"]["id"])
    version = client.post(f"/api/dataflows/{traffic.pk}/versions", {
        "text": document("traffic"), "begin_from": "monday"}, content_type="application/json")
    assert version.status_code == 201, version.content
    cancel_proposal(actor=world.carla, proposal_id=version.json()["proposal"]["id"])
    assert client.delete(f"{address}/{row.pk}").json()["savepoints"] == []
    assert client.delete(f"{address}/{row.pk}").status_code == 404


def test_a_terminal_takes_lists_begins_and_deletes(world, traffic, tmp_path):
    def weir(*words: str) -> str:
        out = StringIO()
        call_command(*words, "--as", "carla", stdout=out)
        return out.getvalue()

    assert "monday of traffic is being taken" in weir("savepoints", "traffic", "--take", "monday", "--note", "x")
    follow_savepoints(reported(*SavepointRow.objects.all()))
    assert "monday  whole  version 1  on n1" in weir("savepoints", "traffic")
    (tmp_path / "again.json").write_text(document("again"))
    assert "submitted" in weir("submit", str(tmp_path / "again.json"), "--from-savepoint", "monday")
    (tmp_path / "same.json").write_text(document("traffic"))
    answer = weir("submit", str(tmp_path / "same.json"), "--change", "--from-savepoint", "monday")
    assert "Version 2 of traffic is proposed" in answer and "average begins with its state of then" in answer
    proposals = [*DataflowRecord.objects.get(name="again").proposals.all(), traffic.proposals.get(plan__version=2)]
    for proposal in proposals:
        cancel_proposal(actor=world.carla, proposal_id=proposal.pk)
    assert "is deleted" in weir("savepoints", "traffic", "--delete", "monday")
    assert "has no savepoints" in weir("savepoints", "traffic")


def test_a_page_takes_lists_begins_and_deletes(world, traffic):
    client = Client()
    client.force_login(world.carla)
    address = f"/dataflows/{traffic.pk}/savepoints"
    assert b"No savepoint yet." in client.get(address).content
    client.post(f"{address}/take", {"name": "monday & co", "note": "before the fair"})
    [row] = SavepointRow.objects.all()
    assert "being taken" in client.get(address).content.decode()
    follow_savepoints(reported(row))
    page = client.get(address).content.decode()
    assert "monday &amp; co" in page and "before the fair" in page and "event 17" in page
    assert f"of={traffic.pk}&amp;from=monday%20%26%20co" in page
    editor = client.get(f"/dataflows/new?again={traffic.pk}&from=monday%20%26%20co").content.decode()
    assert '<option value="monday &amp; co" data-team="city" selected>' in editor
    form = {"team": "city", "text": document("again"), "format": "json", "from": "monday & co"}
    submitted = client.post("/dataflows/new", form | {"text": document("again", window=7)})
    assert submitted.status_code == 409 and "average has another window" in submitted.content.decode()
    assert client.post("/dataflows/new", form).status_code == 302
    proposal = DataflowRecord.objects.get(name="again").proposals.get()
    assert proposal.plan.options == {"begin_from": row.pk}
    client.post(f"{address}/{row.pk}/delete")
    assert SavepointRow.objects.filter(pk=row.pk).exists(), "the submission waits to begin from it"
    cancel_proposal(actor=world.carla, proposal_id=proposal.pk)
    client.post(f"{address}/{row.pk}/delete")
    assert not SavepointRow.objects.exists()


def test_who_may_only_look_sees_no_forms(world, traffic):
    whole(world, traffic)
    client = Client()
    client.force_login(world.vera)
    page = client.get(f"/dataflows/{traffic.pk}/savepoints").content.decode()
    assert "monday" in page and "Take one" not in page and ">Delete</button>" not in page
