"""Submitting a dataflow: what is stored, what is refused, and the plan that follows."""

from __future__ import annotations

import json

import pytest

from dashboard.approvals.lifecycle import CANCELLED, COMPUTING, PENDING, UNPLANNABLE
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    cancel_proposal,
    prepare_proposal,
    recompute_proposal,
    submit_dataflow,
)
from dashboard.audit.models import AuditEntry
from dashboard.catalog.document_checks import DocumentTooLarge, check_document
from dashboard.catalog.models import DataflowRecord, DataflowVersion
from dashboard.catalog.services import NameTaken
from dashboard.core.http_errors import http_status
from dashboard.operations.services import register_node
from dashboard.plans.models import PlanRecord
from dashboard.plans.selectors import plan_of
from scheduler.model.errors import InvalidDataflow, PermissionDenied
from tests.dashboard.building import World, approved, document, enacted, planned, removal_planned, running


def test_a_submission_stores_the_dataflow_and_asks_for_a_plan(world: World, sent, django_capture_on_commit_callbacks):
    text = document("traffic")
    with django_capture_on_commit_callbacks(execute=True):
        proposal = submit_dataflow(actor=world.carla, team=world.city, text=text)
    record = DataflowRecord.objects.get()
    assert (record.name, record.team, record.author, record.status, record.tasks) == (
        "traffic", world.city, world.carla, "submitted", 4)
    version = record.versions.get()
    assert (version.number, version.text, version.format) == (1, text, "json")
    assert proposal.status == COMPUTING
    assert sent == [("weir.prepare_proposal", {"proposal_id": str(proposal.pk)})]


def test_the_plan_of_the_first_dataflow_starts_everything(world: World):
    proposal = planned(world.carla, world.city, document("traffic"))
    plan = plan_of(proposal.plan)
    assert proposal.status == PENDING
    assert proposal.dataflow.status == "planned"
    assert (len(plan.started), len(plan.reused), plan.generation) == (4, 0, 1)
    assert proposal.plan.digest == plan.digest != ""
    assert set(proposal.teams.all()) == {world.city}


def test_a_second_dataflow_reuses_what_it_shares_and_asks_both_teams(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    plan = plan_of(proposal.plan)
    assert (len(plan.started), len(plan.reused)) == (2, 2)
    assert set(proposal.teams.all()) == {world.city, world.mobility}


@pytest.mark.parametrize("text", [
    "", "{", "[]", "null", "3", "name: x", json.dumps({"name": "x", "tasks": [], "streams": []}), "\ud800",
    document("x", streams=[{"from": "nowhere", "to": "parse"}]), document("a\0b"), document("a\ud800b"),
    document("x").replace('"urban_sensing"', '"urban_sensin"'), document("n" * 5000), "a: &a [*a]",
    document("x", visibility="secret"), document("x", rates={"sense": 1e999}),
    document("x", rates={"sense": float("nan")}),
])
def test_a_document_with_problems_stores_nothing(world: World, text: str):
    before = AuditEntry.objects.count()
    with pytest.raises(InvalidDataflow) as caught:
        submit_dataflow(actor=world.carla, team=world.city, text=text)
    assert caught.value.problems
    assert all(problem.message and problem.remedy for problem in caught.value.problems)
    counts = [model.objects.count() for model in (DataflowRecord, DataflowVersion, PlanRecord, Proposal)]
    assert counts == [0, 0, 0, 0]
    assert AuditEntry.objects.count() == before


def test_a_document_over_one_mebibyte_is_refused_before_it_is_read(world: World):
    with pytest.raises(DocumentTooLarge) as caught:
        submit_dataflow(actor=world.carla, team=world.city, text="é" * (512 * 1024) + "!")
    assert http_status(caught.value) == 413
    assert caught.value.facts["size_bytes"] == 1024 * 1024 + 1


def test_checking_a_document_stores_nothing_and_says_what_it_holds(world: World):
    checked = check_document(document("traffic"))
    assert (checked.dataflow.name, checked.problems) == ("traffic", ())
    assert check_document("{").dataflow is None
    assert not DataflowRecord.objects.exists()


@pytest.mark.parametrize(("who", "allowed"), [
    ("vera", False), ("outsider", False), ("mo", False), ("carla", True), ("ana", True), ("dev", True), ("root", True),
])
def test_engineers_of_the_team_and_administrators_submit(world: World, who: str, allowed: bool):
    def submit():
        return submit_dataflow(actor=world.users[who], team=world.city, text=document("traffic"))
    if allowed:
        assert submit().author == world.users[who]
    else:
        with pytest.raises(PermissionDenied):
            submit()
        assert not DataflowRecord.objects.exists()


def test_the_name_of_a_dataflow_in_use_is_taken_within_its_team_only(world: World):
    planned(world.carla, world.city, document("traffic"))
    with pytest.raises(NameTaken):
        submit_dataflow(actor=world.ana, team=world.city, text=document("traffic", window=5))
    other = submit_dataflow(actor=world.mo, team=world.mobility, text=document("traffic", window=5))
    assert other.dataflow.team == world.mobility


def test_a_dataflow_at_rest_takes_a_new_version(world: World):
    first = planned(world.carla, world.city, document("traffic"))
    cancel_proposal(actor=world.carla, proposal_id=first.pk)
    second = planned(world.carla, world.city, document("traffic", window=5))
    record = second.dataflow
    assert (record.pk, record.version, record.status) == (first.dataflow_id, 2, "planned")
    assert [version.number for version in record.versions.all()] == [2, 1]
    configs = [task.config for task in plan_of(second.plan).started]
    assert any(config.get("window") == 5 for config in configs)


def test_a_removed_dataflow_can_come_back(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    enacted(approved(removal_planned(world.carla, record), world.ana))
    again = running(world.carla, world.city, document("traffic"), world.ana)
    assert (again.pk, again.status, again.version) == (record.pk, "running", 2)


def test_without_a_slot_no_plan_can_be_made_and_the_proposal_says_why(world: World):
    register_node(name="n1", slots=0)
    proposal = planned(world.carla, world.city, document("traffic"))
    assert (proposal.status, proposal.plan.status, proposal.dataflow.status) == (UNPLANNABLE, "failed", "failed")
    assert proposal.plan.error["code"] == "no_slots"
    register_node(name="n1", slots=1)
    recompute_proposal(actor=world.carla, proposal_id=proposal.pk)
    again = prepare_proposal(proposal_id=proposal.pk)
    assert (again.status, again.dataflow.status) == (PENDING, "planned")


def test_a_new_version_gives_up_a_proposal_without_a_plan(world: World):
    register_node(name="n1", slots=0)
    old = planned(world.carla, world.city, document("traffic"))
    register_node(name="n1", slots=1)
    new = planned(world.carla, world.city, document("traffic", window=3))
    old.refresh_from_db()
    assert (old.status, new.status) == (CANCELLED, PENDING)


def test_a_defect_of_the_planner_ends_as_an_error_on_the_proposal(world: World, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError
    monkeypatch.setattr("dashboard.plans.site_plan_kinds.submission_kind.plan_submission", broken)
    proposal = planned(world.carla, world.city, document("traffic"))
    assert (proposal.status, proposal.plan.error["code"]) == (UNPLANNABLE, "planning_failed")


def test_preparing_twice_changes_nothing(world: World):
    proposal = planned(world.carla, world.city, document("traffic"))
    entries = AuditEntry.objects.count()
    again = prepare_proposal(proposal_id=proposal.pk)
    assert (again.plan.digest, AuditEntry.objects.count()) == (proposal.plan.digest, entries)


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_plan_is_for_the_generation_that_stands_when_it_is_stored(world: World, monkeypatch, times: int):
    """The estate moves on while the plan is computed, ``times`` times."""
    from dashboard.approvals.services import submission

    compute, moves = submission.plan_and_reads, iter(range(times))

    def slow(record, estate):
        plan = compute(record, estate)
        if next(moves, None) is not None and not _inside_lock():
            register_node(name=f"other-{next(names)}", slots=1)
        return plan

    names = iter(range(100))
    monkeypatch.setattr(submission, "plan_and_reads", slow)
    proposal = planned(world.carla, world.city, document("traffic"))
    from dashboard.operations.estate_store.estate_loader import load_estate
    assert proposal.plan.generation == load_estate().generation > 1


def _inside_lock() -> bool:
    from dashboard.audit.trail import inside_command
    return inside_command()


@pytest.mark.django_db
def test_a_task_types_own_check_is_a_problem_with_its_place():
    text = """\
name: Upside down
tasks:
  - {id: city, type: urban_sensing}
  - {id: parse, type: senml_parse}
  - {id: clean, type: range_filter, config: {ranges: {temperature: [40, 20]}}}
  - {id: out, type: output, config: {name: out}}
streams: [{from: city, to: parse}, {from: parse, to: clean}, {from: clean, to: out}]
"""
    checked = check_document(text)
    assert checked.dataflow is None
    assert [(problem.line, problem.task_id) for problem in checked.problems] == [(5, "clean")]
    assert "temperature" in checked.problems[0].message
