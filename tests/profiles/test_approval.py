"""What has outside effects is measured only as it was approved; it neither runs nor gets a secret otherwise."""

from __future__ import annotations

import json

import pytest

from dashboard.approvals.services import pause_dataflow, prepare_proposal
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.profiles.approval import NotApproved
from dashboard.profiles.measurable import slot_choices
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.services.sweeps import pause_sweep, resume_sweep
from dashboard.profiles.targets import target_again, target_of_task, target_of_type
from dashboard.teams.models import Membership, Role
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import set_secret
from scheduler.model.effects import needs_approval
from scheduler.model.errors import PermissionDenied
from scheduler.model.task_types import Parameter, TaskType
from tests.dashboard.building import World, approved, enacted, planned, removal_planned, running
from tests.profiles.building import started
from tests.profiles.nodes import Node
from workers.library.registry import built_in

URL = "http://hooks.example.org/in"
FREE = [  # configs of one's own
    ("http_post", {"url": URL}), ("http_post", {"url": URL, "token": {"secret": "hook"}}),
    ("http_post", {"url": URL, "token": {"secret": "hook", "team": "city"}}),
    ("http_get", {"url": f"{URL}/{{sensor_id}}"}),
    ("sql_lookup", {"database": {"secret": "hook"}, "query": "select 1", "columns": ["a"]}),
]


@pytest.fixture(autouse=True)
def _secret(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_HTTP_HOSTS", "hooks.example.org")
    set_secret(actor=world.dev, team=world.city, name="hook", value="a value that nobody reads")


def posting(name: str, *, url: str = URL, rate: float = 50) -> str:
    """A source, what is read of each event from a host, and what is posted there with a secret."""
    return json.dumps({
        "name": name, "rates": {"sense": rate},
        "tasks": [
            {"id": "sense", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
            {"id": "get", "type": "http_get", "config": {"url": f"{url}/{{sensor_id}}"}},
            {"id": "pi", "type": "pi_viete"},
            {"id": "post", "type": "http_post", "config": {"url": url, "token": {"secret": "hook"}}},
        ],
        "streams": [{"from": "sense", "to": "parse"}, {"from": "parse", "to": "get"}, {"from": "get", "to": "pi"},
                    {"from": "pi", "to": "post"}],
    })


def removed(world: World, dataflow: DataflowRecord) -> None:
    enacted(approved(removal_planned(world.carla, dataflow), world.ana))


@pytest.mark.parametrize("task", ["get", "post", "pi"])  # those with effects, and one that is fed through such
def test_before_approval_nothing_is_asked_for(world: World, node: Node, client, task: str):
    dataflow = planned(world.carla, world.city, posting("hooks")).dataflow
    client.force_login(world.carla)
    form = {"type": "http_post", "dataflow": str(dataflow.pk), "task": task, "slot": "n1/1"}
    answer = client.post("/api/sweeps", form, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_approved") and answer.json()["remedy"]
    with pytest.raises(NotApproved):
        started(world, target=target_of_task(viewer_of(world.carla), dataflow.pk, task))
    assert not SweepRecord.objects.exists() and not AuditEntry.objects.filter(verb="sweep.start").exists()


def test_what_is_before_the_effects_is_measured_without_approval(world: World, node: Node):
    dataflow = planned(world.carla, world.city, posting("hooks")).dataflow
    sweep = node.finish(started(world, target=target_of_task(viewer_of(world.carla), dataflow.pk, "parse")))
    assert sweep.status == "done" and not any(order.approved for order in node.orders)


@pytest.mark.parametrize(("name", "config"), FREE)
def test_no_config_of_ones_own(world: World, node: Node, client, name: str, config: dict):
    client.force_login(world.carla)
    form = {"type": name, "config": config, "feed": "source:urban_sensing", "slot": "n1/1"}
    answer = client.post("/api/sweeps", form, content_type="application/json")
    assert 400 <= answer.status_code < 500 and not SweepRecord.objects.exists()
    if "team" not in str(config):
        assert answer.json()["code"] == "not_approved"
        with pytest.raises(NotApproved):
            started(world, target=target_of_type(name, config, feed_key=""))
    assert not SweepRecord.objects.exists()


@pytest.mark.parametrize("paused", [pytest.param(False, marks=pytest.mark.long), True])
def test_once_approved_it_is_measured_and_the_node_is_told_so(world: World, node: Node, paused: bool):
    dataflow = running(world.carla, world.city, posting("hooks"), world.ana)
    if paused:
        enacted(approved(prepare_proposal(
            proposal_id=pause_dataflow(actor=world.carla, dataflow_id=dataflow.pk).pk), world.ana))
    free = _free_slot()
    sweep = started(world, slot=free, target=target_of_task(viewer_of(world.carla), dataflow.pk, "post"))
    assert node.finish(sweep).status == "done" and all(order.approved for order in node.orders)
    assert started(world, slot=free, target=target_again(sweep.profile))  # once more, while it runs
    removed(world, dataflow)
    with pytest.raises(NotApproved):
        started(world, slot=free, target=target_again(sweep.profile))


def test_another_version_than_the_approved_one_is_not(world: World, node: Node):
    dataflow = running(world.carla, world.city, posting("hooks"), world.ana)
    removed(world, dataflow)
    planned(world.carla, world.city, posting("hooks", url="http://hooks.example.org/elsewhere"))
    with pytest.raises(NotApproved):
        started(world, slot=_free_slot(), target=target_of_task(viewer_of(world.carla), dataflow.pk, "post"))


@pytest.mark.parametrize("change", ["config", "feed", "tasks"])
def test_what_a_row_says_is_compared_with_the_estate(world: World, node: Node, change: str):
    """Whoever comes to a sweep's row has no effects by it that nobody approved."""
    dataflow = running(world.carla, world.city, posting("hooks"), world.ana)
    sweep = started(world, slot=_free_slot(), target=target_of_task(viewer_of(world.carla), dataflow.pk, "post"))
    if change == "config":
        sweep.config = sweep.config.replace("/in", "/elsewhere")
    elif change == "feed":
        sweep.feed[0]["config"]["seed"] = 9
    else:
        sweep.tasks = [*sweep.tasks[:-2], "get", "post"]
    sweep.save()
    sweep = node.finish(sweep)
    assert sweep.status == "failed" and "approved" in sweep.reason and not node.orders


def test_a_removal_in_between_ends_the_sweep_and_its_trial(world: World, node: Node):
    dataflow = running(world.carla, world.city, posting("hooks"), world.ana)
    sweep = started(world, slot=_free_slot(), target=target_of_task(viewer_of(world.carla), dataflow.pk, "post"))
    node.run(steps=3)
    node.orders.clear()
    node.run()  # a trial is under way
    removed(world, dataflow)
    ordered = len(node.orders)
    sweep = node.finish(sweep)
    assert sweep.status == "failed" and "approved" in sweep.reason and len(node.orders) == ordered
    assert not sweep.trials.filter(ended=None).exists()
    with pytest.raises(NotApproved):
        resume_sweep(actor=world.carla, sweep_id=sweep.pk)


def test_a_sweep_that_rests_is_resumed_only_while_its_dataflow_runs(world: World, node: Node):
    dataflow = running(world.carla, world.city, posting("hooks"), world.ana)
    sweep = started(world, slot=_free_slot(), target=target_of_task(viewer_of(world.carla), dataflow.pk, "get"))
    pause_sweep(actor=world.carla, sweep_id=sweep.pk)
    removed(world, dataflow)
    with pytest.raises(NotApproved):
        resume_sweep(actor=world.carla, sweep_id=sweep.pk)


def test_in_a_teams_name_by_its_engineers_alone(world: World, node: Node):
    """Also without a secret: whoever listens there gets the events of every trial."""
    text = json.loads(posting("reads"))
    del text["tasks"][-1]["config"]["token"]
    dataflow = running(world.carla, world.city, json.dumps(text), world.ana)
    with pytest.raises(PermissionDenied, match="team City"):
        started(world, actor=world.mo, slot=_free_slot(),
                target=target_of_task(viewer_of(world.mo), dataflow.pk, "get"))


# Expressions ----------------------------------------------------------------------------------------------------------

EXPRESSIONS = [
    ("sql", {"query": "SELECT * FROM input WHERE sensor_id = 'a'"}),
    ("join", {"on": ["sensor_id"], "left": "obs = 'a'", "right": "obs = 'b'", "left_columns": ["l=value"],
              "right_columns": ["r=value"]}),
]


def computing(name: str, *, condition: str = "value > 1") -> str:
    """A dataflow with an expression, and a task that it feeds."""
    return json.dumps({
        "name": name, "rates": {"sense": 50},
        "tasks": [
            {"id": "sense", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
            {"id": "sql", "type": "sql", "config": {"query": f"SELECT * FROM input WHERE {condition}"}},
            {"id": "pi", "type": "pi_viete"}, {"id": "out", "type": "output", "config": {"name": "out"}}],
        "streams": [{"from": "sense", "to": "parse"}, {"from": "parse", "to": "sql"}, {"from": "sql", "to": "pi"},
                    {"from": "pi", "to": "out"}]})


@pytest.mark.parametrize(("name", "config"), EXPRESSIONS)
def test_an_expression_of_ones_own_is_measured_by_approvers_alone(
    world: World, node: Node, client, name: str, config: dict
):
    form = {"type": name, "config": config, "feed": "source:urban_sensing", "slot": "n1/1"}
    client.force_login(world.carla)
    answer = client.post("/api/sweeps", form, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_approved")
    assert "approver" in answer.json()["remedy"]
    page = client.get(f"/profiles/measure?type={name}").content.decode()
    assert 'data-note="not-approved"' in page and 'name="config"' not in page
    assert not SweepRecord.objects.exists()
    client.force_login(world.ana)
    assert 'name="config"' in client.get(f"/profiles/measure?type={name}").content.decode()
    assert client.post("/api/sweeps", form, content_type="application/json").status_code == 201
    assert SweepRecord.objects.get().author == world.ana


@pytest.mark.parametrize("name", ["window", "deduplicate", "accumulate"])
def test_expressions_of_the_librarys_own_feeds_are_measured_by_engineers(world: World, node: Node, name: str):
    config = {"window": {"size": 60, "aggregates": ["n=count(*)"]}, "deduplicate": {"by": ["price"]}}.get(name, {})
    target = target_of_type(name, config, feed_key="")
    assert any(task["type"] in ("sql", "join") for task in target.feed)
    assert node.finish(started(world, target=target)).status == "done"


@pytest.mark.parametrize("task", ["sql", pytest.param("pi", marks=pytest.mark.long)])
def test_an_engineer_measures_an_expression_once_it_is_approved(world: World, node: Node, task: str):
    dataflow = planned(world.carla, world.city, computing("warm")).dataflow
    target = target_of_task(viewer_of(world.carla), dataflow.pk, task)
    with pytest.raises(NotApproved):
        started(world, target=target)
    enacted(approved(dataflow.proposals.get(), world.ana))
    sweep = started(world, slot=_free_slot(), target=target)
    assert node.finish(sweep).status == "done"
    removed(world, dataflow)
    with pytest.raises(NotApproved):
        started(world, slot=_free_slot(), target=target_again(sweep.profile))


@pytest.mark.parametrize("task", ["work", "pi"])  # it, and one that it feeds
@pytest.mark.parametrize("is_path", [False, True])
def test_an_expression_of_an_alternate_is_none_of_an_engineers(world: World, node: Node, task: str, is_path: bool):
    """A dynamic task has a type of its own, which takes no expression; its alternates do."""
    computed = {"type": "sql", "config": {"query": "SELECT * FROM input WHERE value > 1"}}
    way = {"tasks": [{"id": "a", **computed}, {"id": "b", **computed}], "streams": [
        {"from": "input", "to": "a"}, {"from": "a", "to": "b"}, {"from": "b", "to": "output"}]} if is_path else computed
    document = json.loads(computing("ways"))
    document["tasks"][2] = {"id": "work", "alternates": [
        {"name": "all", **way}, {"name": "few", "type": "sql", "config": {"query": "SELECT * FROM input"}}]}
    document["streams"] = [
        {end: {"sql": "work"}.get(name, name) for end, name in stream.items()} for stream in document["streams"]]
    dataflow = planned(world.carla, world.city, json.dumps(document)).dataflow
    with pytest.raises(NotApproved, match="expression"):
        started(world, target=target_of_task(viewer_of(world.carla), dataflow.pk, task))
    assert not SweepRecord.objects.exists()


@pytest.mark.parametrize("name", ["dynamic", "dynamic_fold", "path"])
def test_no_config_of_a_type_that_no_document_names(world: World, node: Node, client, name: str):
    client.force_login(world.carla)
    assert client.get(f"/profiles/measure?type={name}").status_code == 200
    way = {"name": "a", "type": "sql", "config": {"query": "SELECT * FROM input"}}
    for config in ({}, {"alternates": [way, {**way, "name": "b"}]}, {"alternates": [{}]}, {"alternates": 5}, {"x": 1}):
        form = {"type": name, "config": config, "slot": "n1/1"}
        answer = client.post("/api/sweeps", form, content_type="application/json")
        assert 400 <= answer.status_code < 500, (answer.status_code, answer.content)
    assert not SweepRecord.objects.exists()


def test_an_approver_of_another_team_does_not_measure_it(world: World, node: Node):
    dataflow = planned(world.carla, world.city, computing("warm")).dataflow
    role_of(world.mo, world.mobility, Role.APPROVER)
    with pytest.raises(NotApproved):
        started(world, actor=world.mo, target=target_of_task(viewer_of(world.mo), dataflow.pk, "sql"))


def test_who_is_no_approver_any_more_has_no_expression_running(world: World, node: Node):
    sweep = started(world, actor=world.ana, target=target_of_type(*EXPRESSIONS[0], feed_key=""))
    node.run()  # a trial is under way
    role_of(world.ana, world.city, Role.ENGINEER)
    sweep = node.finish(sweep)
    assert sweep.status == "failed" and "approved" in sweep.reason
    with pytest.raises(NotApproved):
        resume_sweep(actor=world.ana, sweep_id=sweep.pk)


def test_every_type_of_the_library_with_expressions_says_so():
    assert {task_type.name for task_type in built_in() if task_type.has_expressions} == {"sql", "join"}


def role_of(user, team, role: Role) -> None:
    Membership.objects.update_or_create(user=user, team=team, defaults={"role": role})


def test_the_form_says_so_before_anybody_presses_the_button(world: World, node: Node, client):
    client.force_login(world.carla)
    page = client.get("/profiles/measure?type=http_post").content.decode()
    assert 'data-note="not-approved"' in page and 'name="config"' not in page
    assert 'name="config"' in client.get("/profiles/measure?type=pi_viete").content.decode()
    dataflow = planned(world.carla, world.city, posting("hooks")).dataflow
    page = client.get(f"/profiles/measure?dataflow={dataflow.pk}").content.decode()
    assert page.count(": not approved") == 3 and page.count(" disabled>") == 3
    approved(dataflow.proposals.get(), world.ana)
    page = client.get(f"/profiles/measure?dataflow={dataflow.pk}").content.decode()
    assert ": not approved" not in page


def test_the_form_refuses_it_too(world: World, node: Node, client):
    client.force_login(world.carla)
    answer = client.post("/profiles/measure", {"type": "http_post", "config": json.dumps({"url": URL}), "slot": "n1/1"})
    assert answer.status_code == 409 and not SweepRecord.objects.exists()


def test_of_what_a_schedule_is_missing_the_rest_is_measured(world: World, node: Node, client):
    client.force_login(world.carla)
    dataflow = planned(world.carla, world.city, posting("hooks")).dataflow
    page = client.get(f"/dataflows/{dataflow.pk}/schedule").content.decode()
    assert page.count('data-hindrance="not_approved"') == 2  # get and pi; sinks need no profile
    client.post(f"/dataflows/{dataflow.pk}/schedule/measure", {"slot": "n1/1"})
    assert set(SweepRecord.objects.values_list("task_type", flat=True)) == {"senml_parse"}


@pytest.mark.parametrize("declared", [
    TaskType("plug_in", "transform", "Says nothing.", "none:none"),
    TaskType("plug_in", "transform", "Reaches out.", "none:none", effects=("code",)),
    TaskType("plug_in", "transform", "Has a secret.", "none:none", (Parameter("key", "string", "", secret=True),),
             effects=()), None])
def test_a_type_that_does_not_say_that_it_has_no_effects_has_some(declared: TaskType | None):
    assert needs_approval(declared, {})
    sound = TaskType("plug_in", "transform", "Has none.", "none:none", effects=())
    assert not needs_approval(sound, {"a": 1}) and needs_approval(sound, {"a": {"secret": "hook", "team": "city"}})


def test_every_type_of_the_library_says_what_it_reaches():
    reaching = {task_type.name: task_type.effects for task_type in built_in() if task_type.effects != ()}
    assert reaching == {
        "http_get": ("network",), "http_post": ("network",), "sql_lookup": ("database",), "lookup": ("database",),
        "http_ingest": ("network",), "mqtt": ("network",), "kafka": ("network",), "postgresql": ("database",),
        "files": ("network", "files"), "spark_source": ("network", "files"),
        "to_postgresql": ("database",), "to_delta": ("network",), "to_s3": ("network",), "to_kafka": ("network",),
        "to_mqtt": ("network",), "python": ("code",), "python_by_key": ("code",)}


def _free_slot() -> str:
    return next(place.name for place in slot_choices() if place.free)
