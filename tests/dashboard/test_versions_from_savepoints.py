"""New versions that begin from a named savepoint: proposed, taken back, and shown beside the editor."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.approvals.services import (
    change_dataflow,
    choose_joining,
    delete_savepoint,
    prepare_proposal,
    roll_back_proposal,
)
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.plans.joining_options import InvalidBeginning, last_options
from dashboard.plans.selectors import plan_of
from scheduler.exact_savepoints import SavepointDiffers
from scheduler.model.errors import InvalidTransition
from tests.dashboard.building import World, approved, document, running
from tests.dashboard.test_savepoints import told_to, whole

pytestmark = pytest.mark.django_db


@pytest.fixture
def traffic(world: World) -> DataflowRecord:
    return running(world.carla, world.city, document("traffic"), world.ana)


def test_a_version_of_what_runs_begins_from_one_and_is_taken_back_without_it(world, traffic):
    row = whole(world, traffic)
    former = load_estate().submitted[str(traffic.pk)].running
    with pytest.raises(SavepointDiffers, match="average has another window"):
        change_dataflow(actor=world.carla, dataflow_id=traffic.pk, text=document("traffic", window=7),
                        begin_from="monday")
    proposal = prepare_proposal(proposal_id=change_dataflow(
        actor=world.carla, dataflow_id=traffic.pk, text=document("traffic"), begin_from="monday").pk)
    assert proposal.status == "pending" and proposal.plan.version == 2, "the document is the one that runs"
    with pytest.raises(InvalidTransition, match="A proposal of traffic begins from savepoint monday"):
        delete_savepoint(actor=world.carla, dataflow_id=traffic.pk, savepoint_id=row.pk)
    with pytest.raises(InvalidBeginning, match="savepoint"):
        choose_joining(actor=world.carla, proposal_id=proposal.pk, fresh=True)
    plan = plan_of(proposal.plan)
    assert not plan.reused and {task.id for task in plan.stopped} == set(former.values())
    assert "average begins with its state of then" in plan.notes[0] and "sense goes on with event 17" in plan.notes[0]
    proposal = approved(proposal, world.ana)
    [wanted] = [fragment for fragment in told_to().wanted.values() if fragment.restores]
    assert {place.task for place in wanted.restores.values()} == {row.tasks[task][0] for task in ("sense", "average")}
    assert not set(former.values()) & set(load_estate().tasks)
    rolled = roll_back_proposal(actor=world.ana, proposal_id=proposal.pk)
    assert rolled.rollback_plan.options == {"anew": True, "former": 2}
    assert load_estate().submitted[str(traffic.pk)].running == former, "as it was, from nothing: none of what it began"
    assert last_options(rolled.dataflow) == {}, "so a removal that is taken back submits it as it was"
    assert all(not fragment.restores for fragment in told_to().wanted.values())


def test_the_editor_says_of_each_task_how_it_would_begin(world, traffic):
    whole(world, traffic)
    client = Client()
    client.force_login(world.carla)

    def previewed(text: str, **more: str) -> dict:
        form = {"team": "city", "text": text, "format": "json", "from": "monday"} | more
        return client.post("/dataflows/preview", form, headers={"accept": "application/json"}).json()

    of = {"of": str(traffic.pk)}
    shown = previewed(document("traffic"), **of)["html"]
    for words in ("goes on with event 17", "begins with its state of then", "keeps no state", "stop"):
        assert words in shown
    refused = previewed(document("traffic", window=7), **of)
    assert 'data-begins="refused"' in refused["html"] and "has another window than then" in refused["html"]
    assert len(refused["graph"]["tasks"]) == 4, "the graph as the text has it"
    assert "has no savepoint" in previewed(document("traffic"), **of, **{"from": "tuesday"})["message"]
    assert "average</span>" in previewed(document("again"))["html"], "so of a submission"
