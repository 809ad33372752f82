"""Pausing, resuming, defragmenting and the choice of joining, from proposal to enacted."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.demands import TeamIsFrozen
from dashboard.approvals.lifecycle import (
    DONE,
    EXECUTING,
    PENDING,
    ROLLED_BACK,
    ROLLING_BACK,
    STALE,
    UNPLANNABLE,
)
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    choose_joining,
    defragment_dataflow,
    pause_dataflow,
    prepare_proposal,
    recompute_proposal,
    remove_dataflow,
    resume_dataflow,
    roll_back_proposal,
    set_rules,
    submit_dataflow,
)
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import FragmentRow
from dashboard.plans.joining_options import InvalidBeginning
from dashboard.plans.selectors import plan_of
from scheduler.approving import Freeze, Rules
from scheduler.model.errors import InvalidTransition, NotFound, PermissionDenied
from tests.dashboard.building import (
    World,
    approved,
    document,
    enacted,
    held_to_estate,
    planned,
    removal_planned,
    running,
)
from tests.dashboard.rearranging import paused, prepared, status
from workers.engine.observed import Flows, StreamFlow, TaskFlow


@pytest.fixture
def fragmented(world: World, settings) -> DataflowRecord:
    """A dataflow in two queries, because the one whose chain was continued is gone."""
    settings.DEFRAGMENT_RATIO = 0.0
    first = running(world.carla, world.city, document("traffic"), world.ana)
    jams = running(world.carla, world.city, document("jams", window=20), world.ana)
    enacted(approved(removal_planned(world.carla, first), world.ana))
    return jams


# Pausing --------------------------------------------------------------------------------------------------------------


def test_a_dataflow_is_paused_and_resumed(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    before = load_estate()
    proposal = prepared(pause_dataflow(actor=world.carla, dataflow_id=record.pk))
    assert [team.slug for team in proposal.teams.all()] == ["city"]
    proposal = approved(proposal, world.ana)
    assert (proposal.status, status(record)) == (EXECUTING, "pausing")
    assert enacted(proposal).status == DONE and status(record) == "paused"
    resting = load_estate()
    assert resting.submitted[str(record.pk)].paused and all(part.paused for part in resting.fragments.values())
    assert resting.tasks == before.tasks
    back = approved(prepared(resume_dataflow(actor=world.carla, dataflow_id=record.pk)), world.ana)
    assert status(record) == "running" and enacted(back).status == DONE
    assert load_estate().fragments == before.fragments
    verbs = set(AuditEntry.objects.values_list("verb", flat=True))
    assert {"dataflow.propose_pause", "dataflow.propose_resume"} <= verbs


def test_nobody_else_is_asked_for_what_nobody_else_notices(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    other = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    proposal = prepared(pause_dataflow(actor=world.carla, dataflow_id=record.pk))
    assert [team.slug for team in proposal.teams.all()] == ["city"]
    enacted(approved(proposal, world.ana))
    estate = load_estate()
    assert {part.active for part in estate.fragments.values()} == {2}, "what the other one needs works on"
    proposal = prepared(resume_dataflow(actor=world.carla, dataflow_id=record.pk))
    assert [team.slug for team in proposal.teams.all()] == ["city"]
    assert status(other) == "running"


def test_asking_twice_is_one_proposal_and_what_cannot_be_is_refused(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    first = pause_dataflow(actor=world.carla, dataflow_id=record.pk)
    assert pause_dataflow(actor=world.ana, dataflow_id=record.pk) == first
    with pytest.raises(InvalidTransition):
        resume_dataflow(actor=world.carla, dataflow_id=record.pk)
    with pytest.raises(PermissionDenied):
        pause_dataflow(actor=world.vera, dataflow_id=record.pk)
    private = running(world.carla, world.city, document("secret", visibility="private"), world.ana)
    for command in (pause_dataflow, resume_dataflow, defragment_dataflow):
        with pytest.raises(NotFound):
            command(actor=world.mo, dataflow_id=private.pk)


def test_a_pause_and_a_resumption_are_rolled_back(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    before = load_estate().fragments
    proposal = approved(prepared(pause_dataflow(actor=world.carla, dataflow_id=record.pk)), world.ana)
    enacted(roll_back_proposal(actor=world.ana, proposal_id=proposal.pk))
    assert status(record) == "running" and load_estate().fragments == before
    paused(world, record)
    proposal = approved(prepared(resume_dataflow(actor=world.carla, dataflow_id=record.pk)), world.ana)
    enacted(roll_back_proposal(actor=world.ana, proposal_id=proposal.pk))
    assert status(record) == "paused" and load_estate().submitted[str(record.pk)].paused


def test_a_paused_dataflow_is_removed_and_leaves_nothing(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    paused(world, record)
    enacted(approved(prepared(remove_dataflow(actor=world.carla, dataflow_id=record.pk)), world.ana))
    estate = load_estate()
    assert (status(record), estate.tasks, estate.fragments) == ("removed", {}, {})


def test_what_is_asked_of_a_paused_dataflow_wakes_it_only_as_far_as_needed(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    paused(world, record)
    proposal = approved(planned(world.mo, world.mobility, document("jams", window=20)), world.ben, world.ana)
    assert len(plan_of(proposal.plan).resumed) == 2
    enacted(proposal)
    assert status(record) == "paused"


# Joining --------------------------------------------------------------------------------------------------------------


def fresh(proposal: Proposal) -> int:
    return len(plan_of(prepared(proposal).plan).fresh)


def test_whoever_submits_chooses_to_join_or_to_start_fresh(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    text = document("mine", window=10)
    proposal = submit_dataflow(actor=world.mo, team=world.mobility, text=text, fresh=True)
    assert fresh(proposal) == 1 and proposal.plan.options == {"fresh": True}
    changed = choose_joining(actor=world.mo, proposal_id=proposal.pk, fresh=False, begin="oldest")
    assert changed.status == "computing" and not changed.teams.exists()
    changed = prepared(changed)
    plan = plan_of(changed.plan)
    assert (changed.status, plan.fresh, plan.otherwise.tasks_started) == (PENDING, (), 2)
    assert {begin for part in plan.fragments_after.values() for begin in part.joins.values()} == {"oldest"}
    with pytest.raises(PermissionDenied):
        choose_joining(actor=world.carla, proposal_id=proposal.pk, fresh=True)


def test_the_choice_is_kept_when_a_plan_is_computed_again_and_when_a_removal_is_rolled_back(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    proposal = submit_dataflow(actor=world.mo, team=world.mobility, text=document("mine"), fresh=True)
    record = enacted(approved(prepared(proposal), world.ben, world.ana)).dataflow
    chosen = load_estate().submitted[str(record.pk)].running
    gone = approved(prepared(remove_dataflow(actor=world.mo, dataflow_id=record.pk)), world.ben)
    roll_back_proposal(actor=world.ben, proposal_id=gone.pk)
    assert load_estate().submitted[str(record.pk)].running == chosen


@pytest.mark.parametrize("begin", ["soon", "2999-01-01T00:00:00", "12"])
def test_what_is_no_moment_is_refused_before_anything_is_stored(world: World, begin):
    with pytest.raises(InvalidBeginning) as raised:
        submit_dataflow(actor=world.mo, team=world.mobility, text=document("mine"), begin=begin)
    assert raised.value.remedy and not DataflowRecord.objects.exists()


def test_a_decided_proposal_keeps_its_choice(world: World):
    proposal = approved(planned(world.carla, world.city, document("traffic")), world.ana)
    with pytest.raises(InvalidTransition):
        choose_joining(actor=world.carla, proposal_id=proposal.pk, fresh=True)


# Defragmentation ------------------------------------------------------------------------------------------------------


def test_a_fragmented_dataflow_is_fused(world: World, fragmented: DataflowRecord):
    assert len(load_estate().fragments) == 2
    proposal = prepared(defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk))
    assert "saves" in plan_of(proposal.plan).why
    proposal = approved(proposal, world.ana)
    assert status(fragmented) == "running" and len(load_estate().fragments) == 1
    assert enacted(proposal).status == DONE
    again = prepared(defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk))
    assert again.status == UNPLANNABLE and again.plan.error["code"] == "nothing_to_gain"


def test_asked_again_later_a_step_that_was_not_worth_it_is_weighed_anew(
    world: World, fragmented: DataflowRecord, settings
):
    settings.DEFRAGMENT_RATIO = 1e9
    early = prepared(defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk))
    assert early.status == UNPLANNABLE
    settings.DEFRAGMENT_RATIO = 0.0
    later = prepared(defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk))
    assert (later.pk, later.status) == (early.pk, PENDING)
    same = defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk)
    assert (same.pk, same.plan_id) == (later.pk, later.plan_id), "what is in review stays as it is"


def test_a_fusion_that_is_under_way_is_cut_again(world: World, fragmented: DataflowRecord):
    before = load_estate()
    proposal = approved(prepared(defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk)), world.ana)
    undone = roll_back_proposal(actor=world.ana, proposal_id=proposal.pk)
    assert undone.status == ROLLING_BACK
    after = load_estate()
    assert sorted(part.kept_tasks for part in after.fragments.values()) == sorted(
        part.kept_tasks for part in before.fragments.values())
    assert not set(after.fragments) & set(before.fragments)
    assert enacted(undone).status == ROLLED_BACK and status(fragmented) == "running"


def test_a_fusion_that_is_done_is_cut_again_whatever_came_since(world: World, fragmented: DataflowRecord):
    before = load_estate()
    proposal = enacted(approved(prepared(defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk)), world.ana))
    assert proposal.status == DONE
    new = planned(world.mo, world.mobility, document("more", window=30))
    new = approved(approved(new, world.ben), world.ana)
    with pytest.raises(InvalidTransition, match="being enacted"):
        roll_back_proposal(actor=world.ana, proposal_id=proposal.pk)
    assert enacted(new).status == DONE
    undone = roll_back_proposal(actor=world.ana, proposal_id=proposal.pk)
    after = load_estate()
    cut = {part.kept_tasks for part in after.fragments.values()}
    assert {part.kept_tasks for part in before.fragments.values()} <= cut and len(cut) == 3
    assert enacted(undone).status == ROLLED_BACK and status(fragmented) == "running"


def test_what_is_done_is_not_taken_back_in_a_freeze(world: World, fragmented: DataflowRecord):
    proposal = enacted(approved(prepared(defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk)), world.ana))
    now_ms, estate = round(timezone.now().timestamp() * 1000), load_estate()
    freeze = Rules(freezes=(Freeze(now_ms - 1000, now_ms + 3_600_000, "holidays"),))
    set_rules(actor=world.abe, team=world.city, rules=freeze)
    with pytest.raises(TeamIsFrozen, match="holidays"):
        roll_back_proposal(actor=world.ana, proposal_id=proposal.pk)
    assert load_estate() == estate
    set_rules(actor=world.abe, team=world.city, rules=Rules())
    assert roll_back_proposal(actor=world.ana, proposal_id=proposal.pk).status == ROLLING_BACK


def test_a_fusion_that_was_changed_since_is_not_cut_again(world: World, fragmented: DataflowRecord):
    proposal = enacted(approved(prepared(defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk)), world.ana))
    paused(world, fragmented)
    estate = load_estate()
    with pytest.raises(InvalidTransition) as raised:
        roll_back_proposal(actor=world.ana, proposal_id=proposal.pk)
    assert raised.value.remedy and load_estate() == estate


def test_what_is_done_and_no_fusion_is_undone_by_its_opposite_alone(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    with pytest.raises(InvalidTransition) as raised:
        roll_back_proposal(actor=world.ana, proposal_id=Proposal.objects.get(dataflow=record).pk)
    assert "Remove" in raised.value.remedy


def test_a_step_is_weighed_by_what_is_measured_and_how_long_it_has_run(
    world: World, fragmented: DataflowRecord, settings, monkeypatch
):
    settings.DEFRAGMENT_RATIO = 2.0
    young = prepared(defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk))
    assert young.status == UNPLANNABLE and "not enough" in young.plan.error["message"]
    FragmentRow.objects.update(started_at=timezone.now() - timedelta(hours=2))
    running = load_estate().submitted[str(fragmented.pk)].running
    flows = Flows(
        tasks={running["sense"]: TaskFlow(40.0, 1, None, None), running["parse"]: TaskFlow(40.0, 1, None, None)},
        streams={(running["parse"], running["average"]): StreamFlow(40.0, channel_p50_ms=30.0, wait_p50_ms=304.0)})
    monkeypatch.setattr(jobs, "read_part", lambda *_: flows)
    proposal = Proposal.objects.open().get()
    recompute_proposal(actor=world.carla, proposal_id=proposal.pk)
    why = plan_of(prepared(proposal).plan).why
    assert "334 ms sooner" in why and "120 events are late" in why and "Over the 2 h" in why


def test_it_waits_until_what_is_under_way_is_done(world: World, fragmented: DataflowRecord):
    proposal = prepared(defragment_dataflow(actor=world.carla, dataflow_id=fragmented.pk))
    other = approved(planned(world.mo, world.mobility, document("apart", rates={"sense": 5})), world.ben)
    assert held_to_estate(proposal).status == STALE, "the estate has moved on"
    recompute_proposal(actor=world.carla, proposal_id=proposal.pk)
    proposal = prepared(proposal)
    with pytest.raises(InvalidTransition) as raised:
        approved(proposal, world.ana)
    assert "being enacted" in raised.value.message
    enacted(other)
    assert approved(proposal, world.ana).status == EXECUTING


def test_other_teams_whose_streams_pause_for_it_are_asked(world: World, settings):
    settings.DEFRAGMENT_RATIO = 0.0
    first = running(world.carla, world.city, document("traffic"), world.ana)
    jams = running(world.carla, world.city, document("jams", window=20), world.ana)
    running(world.mo, world.mobility, document("third", window=30), world.ben, world.ana)
    enacted(approved(removal_planned(world.carla, first), world.ana))
    proposal = prepared(defragment_dataflow(actor=world.carla, dataflow_id=jams.pk))
    assert {team.slug for team in proposal.teams.all()} == {"city", "mobility"}


# Commands and the API ------------------------------------------------------------------------------------------------


def test_commands_propose_by_name_or_id(world: World, capsys):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    call_command("pause", "traffic", "--as", "carla")
    proposal = Proposal.objects.get(plan__kind="pause")
    assert str(proposal.pk) in capsys.readouterr().out
    enacted(approved(prepared(proposal), world.ana))
    call_command("resume", str(record.pk), "--as", "carla")
    assert Proposal.objects.filter(plan__kind="resume").exists()
    for command, name in [("pause", "not there"), ("defragment", "traffic")]:
        with pytest.raises(CommandError) as raised:
            call_command(command, name, "--as", "carla")
        assert str(raised.value)


def test_submit_takes_the_choice_from_the_command_line(world: World, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(document("mine"))
    call_command("submit", str(file), "--as", "carla", "--fresh", "--begin", "oldest")
    assert Proposal.objects.get().plan.options == {"fresh": True, "begin": "oldest"}


def test_the_api_does_what_the_pages_do(world: World, fragmented: DataflowRecord):
    client = Client()
    client.force_login(world.carla)
    answer = client.get(f"/api/dataflows/{fragmented.pk}/fragmentation").json()
    assert (answer["queries"], answer["fewest"], answer["spare_queries"], answer["dead_tasks"]) == (2, 1, 1, 2)
    assert [row["id"] for row in client.get("/api/fragmentation").json()] == [str(fragmented.pk)]
    made = client.post(f"/api/dataflows/{fragmented.pk}/defragment")
    assert made.status_code == 200 and made.json()["kind"] == "defragment"
    assert client.post(f"/api/dataflows/{fragmented.pk}/pause").json()["kind"] == "pause"
    assert client.post(f"/api/dataflows/{fragmented.pk}/resume").status_code == 409
    admin = Client()
    admin.force_login(world.dev)
    chosen = admin.post("/api/teams/city/defragmentation", {"choice": "acts"}, content_type="application/json")
    assert chosen.json() == {"team": "city", "defragmentation": "acts"}
    sent = {"text": document("mine", window=20), "team": "city", "fresh": True}
    made = client.post("/api/dataflows", sent, content_type="application/json").json()["proposal"]
    prepare_proposal(proposal_id=made["id"])
    joining = client.get(f"/api/proposals/{made['id']}").json()["difference"]["joining"]
    assert joining["fresh"] and [task["task"] for task in joining["tasks"]] == ["average"]
    changed = client.post(
        f"/api/proposals/{made['id']}/joining", {"fresh": False}, content_type="application/json").json()
    assert changed["options"] == {} and changed["status"] == "computing"
    prepare_proposal(proposal_id=made["id"])
    joining = client.get(f"/api/proposals/{made['id']}").json()["difference"]["joining"]
    assert not joining["fresh"] and all(task["since"] for task in joining["tasks"])


def test_nothing_private_shows_in_another_teams_overview(world: World):
    private = running(world.carla, world.city, document("secret", visibility="private"), world.ana)
    client = Client()
    client.force_login(world.mo)
    assert client.get("/api/fragmentation").json() == []
    assert client.get(f"/api/dataflows/{private.pk}/fragmentation").status_code == 404
    assert "secret" not in client.get("/fragmentation/").text
