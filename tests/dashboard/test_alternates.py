"""Tasks with alternates on the site: submitted, switched by plans, shown on pages and in the API."""

from __future__ import annotations

import json
from io import StringIO

import pytest
import redis
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    cancel_proposal,
    change_dataflow,
    prepare_proposal,
    roll_back_proposal,
    switch_alternate,
)
from dashboard.approvals.services.source_switches import propose_switches
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.estate_store.fragment_settings import set_intervals
from dashboard.plans.selectors import plan_of
from dashboard.tasks import execution
from scheduler.contracts.switches import AlternateSwitch
from scheduler.guards.policy_sources import WantedSwitch
from scheduler.model.errors import InvalidDataflow
from scheduler.model.settings_of_fragments import FragmentSettings
from tests.dashboard.building import WAYS, World, approved, dynamic, enacted, planned, running
from tests.dashboard.policies import two
from workers.engine.channels import keys


def switched(world: World, record: DataflowRecord, alternate: str) -> Proposal:
    return prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate=alternate).pk)


@pytest.mark.django_db
def test_another_alternate_is_on_once_that_is_approved(world: World) -> None:
    record = running(world.carla, world.city, dynamic("air"), world.ana)
    estate = load_estate()
    task = estate.submitted[str(record.pk)].running["work"]
    fragment = estate.places[task][0]
    proposal = switched(world, record, "few")
    assert proposal.status == "pending" and proposal.plan.kind == "set"
    set_intervals({fragment: 70})
    enacted(approved(proposal, world.ana))
    assert load_estate().settings == {fragment: FragmentSettings(70, alternates={task: "few"})}
    wrong = switched(world, record, "fwe")
    assert wrong.status == "unplannable" and "Did you mean few?" in str(wrong.plan.error)


@pytest.mark.django_db
def test_a_switch_is_rolled_back(world: World) -> None:
    record = running(world.carla, world.city, dynamic("air"), world.ana)
    task = load_estate().submitted[str(record.pk)].running["work"]
    proposal = enacted(approved(switched(world, record, "few"), world.ana))
    roll_back_proposal(actor=world.ana, proposal_id=proposal.pk)
    [settings] = load_estate().settings.values()
    assert settings.alternates == {task: "all"}


@pytest.mark.django_db
def test_equal_dynamic_tasks_of_two_teams_are_one_and_switch_together(world: World, client: Client) -> None:
    record = running(world.carla, world.city, dynamic("air"), world.ana)
    other = running(world.mo, world.mobility, dynamic("roads", [*reversed(WAYS)]), world.ben, world.ana)
    submitted = load_estate().submitted
    assert submitted[str(record.pk)].running["work"] == submitted[str(other.pk)].running["work"]
    proposal = switched(world, record, "few")
    assert plan_of(proposal.plan).touched_teams == ("mobility",)
    client.force_login(world.mo)
    page = client.get(f"/proposals/{proposal.pk}/").content.decode()
    assert "Switch work to its alternate few" in page and "None of its queries restarts." in page


@pytest.mark.django_db
def test_pages_and_api_say_which_is_on_and_switch_it(world: World, client: Client, noted: AlternateSwitch) -> None:
    record = running(world.carla, world.city, dynamic("air"), world.ana)
    client.force_login(world.carla)
    page = client.get(f"/dataflows/{record.pk}/").content.decode()
    assert 'data-alternate="work/few"' in page and "latency_ms &gt; 2000" in page
    [task] = client.get(f"/api/dataflows/{record.pk}/alternates").json()
    assert (task["task"], task["on"]) == ("work", "all")
    assert [(way["name"], way["value"], way["guard"]) for way in task["alternates"]] == [
        ("all", 1.0, ""), ("few", 0.5, "latency_ms > 2000")]
    assert task["switches"] == [{
        "alternate": "all", "query": "f1-0", "batch": 0, "seq": 0, "at_ms": 7, "warming": ""}]
    answer = client.post(
        f"/api/dataflows/{record.pk}/alternates", {"task": "work", "alternate": "few"}, content_type="application/json")
    assert answer.status_code == 200 and answer.json()["kind"] == "set"
    again = client.post(reverse("hold_alternate", args=[record.pk, "work"]), {"alternate": "few"})
    assert again.status_code == 302 and str(Proposal.objects.get(plan__kind="set").pk) in again["Location"]
    graph = client.get(f"/dataflows/{record.pk}/graph.json").json()
    [drawn] = [task for task in graph["tasks"] if task["id"] == "work"]
    assert [way["name"] for way in drawn["ways"]] == ["all", "few"]


@pytest.mark.django_db
def test_the_command_tells_and_proposes(world: World, noted: AlternateSwitch) -> None:
    record = running(world.carla, world.city, dynamic("air"), world.ana)
    out = StringIO()
    call_command("switch", str(record.pk), stdout=out)
    assert "* all: sql, worth 1" in out.getvalue() and "from number 0 on: all" in out.getvalue()
    call_command("switch", str(record.pk), "work", "few", stdout=out)
    assert f"/proposals/{Proposal.objects.get(plan__kind='set').pk}/" in out.getvalue()


@pytest.mark.django_db
def test_alternates_that_differ_are_refused_with_their_place(world: World) -> None:
    ways = [WAYS[0], {**WAYS[1], "config": {"query": "SELECT *, 'few' AS mode FROM input"}}]
    with pytest.raises(InvalidDataflow) as refused:
        planned(world.carla, world.city, dynamic("air", ways))
    [problem] = refused.value.problems
    assert (problem.code, problem.path) == ("alternates_differ", "/tasks/2/alternates/1/name")
    assert "made" in problem.message


def path_of(least: int) -> dict:
    """An alternate of two tasks."""
    return {
        "name": "all", "value": 2,
        "tasks": [{"id": "high", "type": "sql", "config": {"query": f"SELECT * FROM input WHERE value > {least}"}},
                  {"id": "mark", "type": "sql", "config": {"query": "SELECT *, 'all' AS made FROM input"}}],
        "streams": [{"from": "input", "to": "high"}, {"from": "high", "to": "mark"}, {"from": "mark", "to": "output"}]}


@pytest.mark.django_db
def test_a_path_is_shown_switched_and_compared(world: World, client: Client, noted: AlternateSwitch) -> None:
    record = running(world.carla, world.city, dynamic("air", [path_of(1), WAYS[1]]), world.ana)
    client.force_login(world.carla)
    assert "sql → sql" in client.get(f"/dataflows/{record.pk}/").content.decode()
    out = StringIO()
    call_command("switch", str(record.pk), stdout=out)
    assert "* all: sql → sql, worth 1" in out.getvalue()
    [task] = client.get(f"/api/dataflows/{record.pk}/alternates").json()
    assert [step["type"] for step in task["alternates"][0]["config"]["tasks"]] == ["sql", "sql"]
    changed = prepare_proposal(proposal_id=change_dataflow(
        actor=world.carla, dataflow_id=record.pk, text=dynamic("air", [path_of(2), WAYS[1]])).pk)
    change = "Alternate all: task high, query"
    [text] = client.get(f"/api/proposals/{changed.pk}").json()["difference"]["version"]["alternates"]["work"]
    assert text.startswith(change) and "value > 2" in text and "value > 1" in text
    assert change in client.get(f"/proposals/{changed.pk}/").content.decode()
    cancel_proposal(actor=world.carla, proposal_id=changed.pk)
    enacted(approved(switched(world, record, "few"), world.ana))
    [settings] = load_estate().settings.values()
    assert list(settings.alternates.values()) == ["few"]


@pytest.mark.django_db
@pytest.mark.broker
def test_an_approved_switch_begins_a_wave_at_once_and_once(
    world: World, broker: redis.Redis, broker_url: str, settings
) -> None:
    settings.REDIS_URL = broker_url
    in_waves = json.dumps(json.loads(dynamic("air")) | {"switching": "wave"})
    record = running(world.carla, world.city, in_waves, world.ana)
    estate = load_estate()
    task = estate.submitted[str(record.pk)].running["work"]
    [source] = [running.id for running in estate.tasks.values() if not running.parents]
    execution.publish()
    assert json.loads(broker.get(keys.waves(task))) == [[1, "all"]]
    enacted(approved(switched(world, record, "few"), world.ana))
    for _ in range(2):
        execution.publish([])  # whichever nodes it concerns
        assert json.loads(broker.get(keys.waves(task))) == [[1, "all"], [2, "few"]]
    assert broker.get(keys.wave(source)) == b"2"
    execution.publish()
    assert broker.get(keys.wave(source)) == b"2"


@pytest.mark.django_db
@pytest.mark.broker
def test_what_guards_want_at_once_is_one_wave(world: World, broker: redis.Redis, broker_url: str, settings) -> None:
    settings.REDIS_URL = broker_url
    record = running(world.carla, world.city, json.dumps(json.loads(two()) | {"switching": "wave"}), world.ana)
    tasks = load_estate().submitted[str(record.pk)].running
    execution.publish()
    wanted = [WantedSwitch(tasks["work"], "few", "rate = 9"), WantedSwitch(tasks["more"], "short", "rate = 9")]
    [proposal] = propose_switches(wanted, load_estate(), at=timezone.now())
    assert prepare_proposal(proposal_id=proposal.pk).status == "executing"
    execution.publish()
    waves = [json.loads(broker.get(keys.waves(tasks[name]))) for name in ("work", "more")]
    assert waves == [[[1, "all"], [2, "few"]], [[1, "long"], [2, "short"]]]


@pytest.mark.django_db
def test_the_recorded_sequence_is_given_to_keep(world: World, noted: AlternateSwitch, client: Client) -> None:
    record = running(world.carla, world.city, dynamic("air"), world.ana)
    client.force_login(world.carla)
    answer = client.get(f"/api/dataflows/{record.pk}/switches.jsonl")
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line) for line in answer.content.splitlines()] == [
        {"task": "work", "alternate": "all", "query": "f1-0", "batch": 0, "seq": 0, "at_ms": 7, "warming": ""}]


@pytest.mark.django_db
def test_page_and_command_switch_several_tasks_in_one_plan(world: World, client: Client) -> None:
    record = running(world.carla, world.city, two(), world.ana)
    client.force_login(world.carla)
    page = client.get(f"/dataflows/{record.pk}/dynamic").text
    assert 'name="along_more"' in page and 'name="along_work"' in page
    client.post(reverse("hold_alternate", args=[record.pk, "work"]), {"alternate": "few", "along_more": "short"})
    by_page = Proposal.objects.get(plan__kind="set")
    call_command("switch", str(record.pk), "more", "short", "--along", "work=few", stdout=StringIO())
    by_command = Proposal.objects.filter(plan__kind="set").exclude(pk=by_page.pk).get()
    for proposal in (by_page, by_command):
        plan = plan_of(prepare_proposal(proposal_id=proposal.pk).plan)
        assert len(plan.steps) == 2, "one plan for both"
    for wrong, message in ((["work"], "names no task"), (["work=few", "work=all"], "named twice")):
        more = [text for words in wrong for text in ("--along", words)]
        with pytest.raises(CommandError, match=message):
            call_command("switch", str(record.pk), "more", "short", *more, stdout=StringIO())
