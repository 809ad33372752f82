"""A dataflow that runs is changed: a new version is one plan, it counts once it is approved, and gives way again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import call_command

from dashboard.approvals.difference import difference
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    cancel_proposal,
    change_dataflow,
    pause_dataflow,
    prepare_proposal,
    propose_version,
    roll_back_proposal,
)
from dashboard.approvals.services.version_proposals import OtherDataflow
from dashboard.catalog.selectors import graph_of
from dashboard.catalog.services import NameTaken
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.estate_reader import StoredEstate, current_generation
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import InvalidTransition, NothingToGain, PermissionDenied
from tests.dashboard.building import World, approved, document, enacted, planned, running
from tests.scheduler.invariants import check_fragments, check_outlets

pytestmark = pytest.mark.django_db


def two_armed(name: str, *, window: int = 10, **extra: Any) -> str:
    """Two arms behind a parser: a count that no version changes, and an average whose window differs."""
    whole = json.loads(document(name, window=window, **extra))
    whole["tasks"] += [{"id": "distinct", "type": "distinct_count"}, {
        "id": "counts", "type": "output", "config": {"name": f"{name}-counts"}}]
    whole["streams"] += [{"from": "parse", "to": "distinct"}, {"from": "distinct", "to": "counts"}]
    return json.dumps(whole)


def changed(world: World, record: Any, text: str) -> Proposal:
    """A new version, its plan before the reviewers."""
    return prepare_proposal(proposal_id=change_dataflow(actor=world.carla, dataflow_id=record.pk, text=text).pk)


def test_a_new_version_is_one_plan_and_counts_once_it_is_approved(world: World) -> None:
    record = running(world.carla, world.city, two_armed("air"), world.ana)
    before = load_estate()
    proposal = changed(world, record, two_armed("air", window=20))
    record.refresh_from_db()
    assert (proposal.status, record.version, proposal.plan.version) == ("pending", 1, 2)
    assert load_estate() == before, "nothing changes before it is approved"
    diff = difference(viewer_of(world.carla), proposal)
    statuses = {(task["name"], task["status"]) for task in diff["tasks"]}
    assert statuses == {
        ("sense", "reused"), ("parse", "reused"), ("distinct", "reused"), ("counts", "reused"),
        ("average", "started"), ("out", "started"), ("average", "stopped"), ("out", "stopped")}
    assert diff["version"] == {"number": 2, "former": 1, "with_state": ["distinct"], "left": [], "alternates": {}}
    assert "average" in diff["notes"][0], "its state ends"
    proposal = enacted(approved(proposal, world.ana))
    record.refresh_from_db()
    after = load_estate()
    assert (proposal.status, record.version, record.status) == ("done", 2, "running")
    for task in ("sense", "parse", "distinct", "counts"):
        running_id = before.submitted[str(record.pk)].running[task]
        assert after.submitted[str(record.pk)].running[task] == running_id
        assert (after.places[running_id], after.channel_of(running_id)) == (
            before.places[running_id], before.channel_of(running_id)), "it goes on where it was"
    check_fragments(after)
    check_outlets(after)


def test_a_version_may_only_say_that_a_task_has_a_query_of_its_own(world: World) -> None:
    whole = json.loads(two_armed("air"))
    record = running(world.carla, world.city, json.dumps(whole), world.ana)
    whole["tasks"][1]["chain"] = "never"
    enacted(approved(changed(world, record, json.dumps(whole)), world.ana))
    parse = load_estate().submitted[str(record.pk)].running["parse"]
    assert load_estate().unchained == {parse}
    assert StoredEstate(current_generation()).users_of(parse).unchained
    assert graph_of(record.__class__.objects.get(pk=record.pk))["tasks"][1]["chain"] == "never"
    del whole["tasks"][1]["chain"]
    whole["tasks"][2]["config"]["window"] = 30
    enacted(approved(changed(world, record, json.dumps(whole)), world.ana))
    assert not load_estate().unchained
    assert not StoredEstate(current_generation()).users_of(parse).unchained


def test_the_former_version_comes_back_by_a_roll_back_or_a_proposal(world: World) -> None:
    record = running(world.carla, world.city, two_armed("air"), world.ana)
    first = dict(load_estate().submitted[str(record.pk)].running)
    proposal = approved(changed(world, record, two_armed("air", window=20)), world.ana)
    roll_back_proposal(actor=world.ana, proposal_id=proposal.pk)
    proposal.refresh_from_db()
    proposal = enacted(proposal)
    record.refresh_from_db()
    assert (proposal.status, record.version) == ("rolled_back", 1)
    assert load_estate().submitted[str(record.pk)].running == first
    again = prepare_proposal(proposal_id=propose_version(actor=world.carla, dataflow_id=record.pk, number=2).pk)
    enacted(approved(again, world.ana))
    back = prepare_proposal(proposal_id=propose_version(actor=world.carla, dataflow_id=record.pk, number=1).pk)
    assert plan_of(back.plan).replaced.running != first
    enacted(approved(back, world.ana))
    record.refresh_from_db()
    assert record.version == 1 and load_estate().submitted[str(record.pk)].running == first
    third = changed(world, record, two_armed("air", window=30))
    assert third.plan.version == 3, "versions that do not run keep their numbers"


def test_who_shares_what_is_joined_or_left_is_asked_and_told_what_it_costs(world: World) -> None:
    running(world.mo, world.mobility, document("roads", window=20), world.ben)
    record = running(world.carla, world.city, document("air", window=10), world.ana, world.ben)
    proposal = changed(world, record, document("air", window=20))
    assert {team.slug for team in proposal.teams.all()} == {"city", "mobility"}
    assert [change.team for change in plan_of(proposal.plan).bill_changes] == ["mobility"]
    proposal = approved(proposal, world.ana)
    assert proposal.status == "pending", "the other team is still to approve"
    enacted(approved(proposal, world.ben))
    users = load_estate().users
    shared = load_estate().submitted[str(record.pk)].running["average"]
    assert len(users[shared]) == 2


def test_what_is_no_version_of_it_is_refused(world: World) -> None:
    record = running(world.carla, world.city, two_armed("air"), world.ana)
    for text in (two_armed("water"), two_armed("air", visibility="private")):
        with pytest.raises(OtherDataflow):
            change_dataflow(actor=world.carla, dataflow_id=record.pk, text=text)
    with pytest.raises(NothingToGain):
        change_dataflow(actor=world.carla, dataflow_id=record.pk, text=two_armed("air"))
    with pytest.raises(PermissionDenied):
        change_dataflow(actor=world.mo, dataflow_id=record.pk, text=two_armed("air", window=20))
    with pytest.raises(NameTaken) as taken:
        planned(world.carla, world.city, two_armed("air", window=20))
    assert "new version" in taken.value.remedy
    assert record.versions.count() == 1, "nothing is stored of them"
    enacted(approved(prepare_proposal(
        proposal_id=pause_dataflow(actor=world.carla, dataflow_id=record.pk).pk), world.ana))
    with pytest.raises(InvalidTransition):
        change_dataflow(actor=world.carla, dataflow_id=record.pk, text=two_armed("air", window=20))


def test_a_newer_change_takes_the_place_of_one_that_is_not_decided(world: World) -> None:
    record = running(world.carla, world.city, two_armed("air"), world.ana)
    first = changed(world, record, two_armed("air", window=20))
    second = changed(world, record, two_armed("air", window=30))
    first.refresh_from_db()
    assert (first.status, second.status, second.plan.version) == ("cancelled", "pending", 3)
    cancel_proposal(actor=world.carla, proposal_id=second.pk)
    record.refresh_from_db()
    assert (record.status, record.version) == ("running", 1)


def test_the_command_proposes_a_new_version(world: World, tmp_path, capsys) -> None:
    record = running(world.carla, world.city, two_armed("air"), world.ana)
    path = tmp_path / "air.json"
    path.write_text(two_armed("air", window=40))
    call_command("submit", str(path), "--as", "carla", "--team", "city", "--change")
    assert Proposal.objects.get(plan__kind="change").dataflow == record
