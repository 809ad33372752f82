"""Containment on the site: off unless a team turns it on, and shown apart."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from dashboard.approvals.difference import difference
from dashboard.approvals.services import prepare_proposal, switch_alternate
from dashboard.audit.models import AuditEntry
from dashboard.operations.live_view.dynamic_reader import dynamic_tasks
from dashboard.operations.models import RunningTaskRow
from dashboard.plans.alternate_figures import with_figures
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import set_containment
from scheduler.model.errors import PermissionDenied

from .building import WAYS, approved, dynamic, enacted, planned, removal_planned, running

pytestmark = pytest.mark.django_db


def filtering(name, low, high):
    return json.dumps({
        "name": name,
        "tasks": [
            {"id": "sense", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
            {"id": "warm", "type": "range_filter", "config": {"ranges": {"temperature": [low, high]}}},
            {"id": "out", "type": "output", "config": {"name": f"{name}-out"}},
        ],
        "streams": [
            {"from": "sense", "to": "parse"}, {"from": "parse", "to": "warm"}, {"from": "warm", "to": "out"}],
    })


@pytest.fixture
def wide(world):
    return running(world.carla, world.city, filtering("wide", 0, 40), world.ana)


def test_it_is_off_until_an_admin_turns_it_on(world, wide):
    proposal = planned(world.carla, world.city, filtering("first", 10, 30))
    assert plan_of(proposal.plan).refined == ()
    with pytest.raises(PermissionDenied):
        set_containment(actor=world.carla, team=world.city, on=True)
    set_containment(actor=world.dev, team=world.city, on=True)
    assert AuditEntry.objects.get(verb="team.set_containment").details == {
        "name": "City", "before": False, "after": True}
    proposal = planned(world.carla, world.city, filtering("second", 11, 30))
    assert [refinement.task for refinement in plan_of(proposal.plan).refined] == ["warm"]
    assert plan_of(planned(world.mo, world.mobility, filtering("third", 12, 30)).plan).refined == ()


def test_the_plan_shows_it_apart_and_the_wider_task_stays(world, wide):
    set_containment(actor=world.dev, team=world.city, on=True)
    proposal = planned(world.carla, world.city, filtering("narrow", 10, 30))
    shown = difference(viewer_of(world.carla), proposal)
    [refined] = shown["refined"]
    assert refined["task"] == "warm" and refined["wider"]["type"] == "range_filter"
    assert [user["name"] for user in refined["wider"]["used_by"]] == ["wide"]
    running = plan_of(proposal.plan).dataflow.running["warm"]
    assert [stream["source"] for stream in shown["streams"] if stream["target"] == running] == [refined["wider"]["id"]]
    client = Client()
    client.force_login(world.carla)
    page = client.get(f"/proposals/{proposal.pk}/").content.decode()
    assert "Refined from wider tasks" in page

    narrow = enacted(approved(proposal, world.ana)).dataflow
    client.get(f"/dataflows/{narrow.pk}/")
    enacted(approved(removal_planned(world.carla, wide), world.ana))
    gone = difference(viewer_of(world.carla), removal_planned(world.carla, narrow))
    assert {task["name"]: task["status"] for task in gone["tasks"]}["warm~wider"] == "stopped"
    assert len(gone["streams"]) == len(gone["tasks"]) - 1
    assert RunningTaskRow.objects.filter(pk=refined["wider"]["id"]).exists()
    enacted(approved(removal_planned(world.carla, narrow), world.ana))
    assert not RunningTaskRow.objects.exists()


def test_an_alternate_and_a_static_task_work_once_for_both(world):
    whole = json.loads(dynamic("static"))
    del whole["tasks"][2]["alternates"]
    whole["tasks"][2] |= {"type": WAYS[0]["type"], "config": WAYS[0]["config"]}
    running(world.carla, world.city, json.dumps(whole), world.ana)
    alone = plan_of(planned(world.carla, world.city, dynamic("alone")).plan)
    set_containment(actor=world.dev, team=world.city, on=True)
    proposal = planned(world.carla, world.city, dynamic("mine"))
    assert plan_of(proposal.plan).price.cores_delta < alone.price.cores_delta
    viewer = viewer_of(world.carla)
    [refined] = difference(viewer, proposal)["refined"]
    assert (refined["task"], refined["equal_alternates"]) == ("work", ["all"])
    client = Client()
    client.force_login(world.carla)
    assert "it works once for them and for all;" in client.get(f"/proposals/{proposal.pk}/").content.decode()

    mine = enacted(approved(proposal, world.ana)).dataflow
    [element] = with_figures(viewer, mine.pk, dynamic_tasks(viewer, mine.pk))
    figures = {figure.name: figure for figure in element.figures}
    assert element.on == "all" and figures["all"].event_s < figures["few"].event_s
    page = client.get(f"/dataflows/{mine.pk}/dynamic").content.decode()
    assert "few" in page and "latency_ms &gt; 2000" in page
    switched = prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=mine.pk, task="work", alternate="few").pk)
    enacted(approved(switched, world.ana))
    assert dynamic_tasks(viewer, mine.pk)[0].on == "few"


def test_the_choice_is_made_on_the_page_and_over_the_api(world):
    client = Client()
    client.force_login(world.dev)
    assert "Containment is <strong>on</strong>" in client.post(
        "/teams/city/containment", {"on": "1"}, follow=True).content.decode()
    answer = client.post("/api/teams/city/containment", {"on": False}, content_type="application/json")
    assert answer.json() == {"team": "city", "containment": False}
    client.force_login(world.carla)
    assert client.post(
        "/api/teams/city/containment", {"on": True}, content_type="application/json").status_code == 403
