"""Management commands."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.commands import workspace
from dashboard.commands.management.commands import restore_database
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.teams.models import Membership, Role, User
from tests.dashboard.building import World, document, running


def run(*command: str, **options) -> str:
    out = io.StringIO()
    call_command(*command, stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def first_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = {"slug": workspace.FIRST_SAMPLE, "name": "first", "description": "", "text": document("first"), "tasks": 4}
    monkeypatch.setattr(jobs, "samples", lambda: (sample,))


def test_the_sample_workspace_is_alive_from_the_beginning(db, settings, tmp_path: Path, first_sample):
    settings.DATA_DIR = tmp_path
    workspace.make_workspace(logins=tmp_path / "logins.json")
    logins = json.loads((tmp_path / "logins.json").read_text())
    assert stat.S_IMODE((tmp_path / "logins.json").stat().st_mode) == 0o600
    assert {login["username"] for login in logins} == {person.username for person in workspace.PEOPLE}
    for login in logins:
        assert User.objects.get(username=login["username"]).check_password(login["password"])
        assert login["role"]
    proposal = Proposal.objects.get()
    assert (proposal.status, proposal.dataflow.status) == ("executing", "running")
    assert proposal.author != proposal.reviews.get().reviewer
    assert len(load_estate().submitted) == 1


def test_a_second_call_changes_nothing(db, settings, tmp_path: Path, first_sample):
    settings.DATA_DIR = tmp_path
    workspace.make_workspace(logins=tmp_path / "logins.json")
    before = (tmp_path / "logins.json").read_bytes(), load_estate(), User.objects.count()
    workspace.make_workspace(logins=tmp_path / "logins.json")
    assert ((tmp_path / "logins.json").read_bytes(), load_estate(), User.objects.count()) == before


@pytest.mark.parametrize("service", ["prepare_proposal", "approve_proposal"])
@pytest.mark.parametrize("somebody_came", [False, True])
def test_a_first_start_that_was_killed_is_finished_by_the_next_unless_somebody_came_in(
    db, settings, tmp_path: Path, first_sample, monkeypatch: pytest.MonkeyPatch, service: str, somebody_came: bool
):
    settings.DATA_DIR = tmp_path

    def killed(**_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(workspace, service, killed)
        workspace.make_workspace(logins=tmp_path / "logins.json")
    before = Proposal.objects.get().status
    if somebody_came:
        User.objects.filter(username="carla").update(last_login=timezone.now())
    workspace.make_workspace(logins=tmp_path / "logins.json")
    assert Proposal.objects.get().status == (before if somebody_came else "executing")


def test_an_installation_with_people_of_its_own_gets_no_sample_people(
    world: World, settings, tmp_path: Path, first_sample
):
    settings.DATA_DIR = tmp_path
    count = User.objects.count()
    workspace.make_workspace(logins=tmp_path / "logins.json")
    assert (User.objects.count(), (tmp_path / "logins.json").exists()) == (count, False)


def test_every_sample_of_the_library_is_valid(db, monkeypatch: pytest.MonkeyPatch):
    from dashboard.catalog.document_checks import check_document
    from dashboard.catalog.selectors import samples

    if not samples():
        pytest.skip("the library brings no samples")
    assert {workspace.FIRST_SAMPLE, "mqtt_to_postgresql", "kafka_to_delta", "http_to_page"} <= {
        sample.slug for sample in samples()}
    for setting in ("WEIR_CONNECTOR_HOSTS", "WEIR_DATABASE_HOSTS"):
        monkeypatch.setenv(setting, "localhost:1883,localhost:9092,localhost")
    for sample in samples():
        assert check_document(sample.text).problems == (), sample.slug


def test_submitting_a_file(world: World, tmp_path: Path):
    file = tmp_path / "flow.json"
    file.write_text(document("traffic"))
    output = run("submit", str(file), username="carla", team="city")
    record = DataflowRecord.objects.get()
    assert (record.author, record.team) == (world.carla, world.city)
    assert str(record.proposals.get().pk) in output


def test_submitting_a_bad_file_lists_the_places(world: World, tmp_path: Path, capsys):
    file = tmp_path / "flow.yaml"
    file.write_text("name: x\ntasks:\n  - {id: a, type: urban_sensin}\n  - {id: b, type: nothing}\nstreams: []\n")
    err = io.StringIO()
    with pytest.raises(CommandError):
        call_command("submit", str(file), username="carla", stderr=err)
    assert f"{file}:3:" in err.getvalue() and f"{file}:4:" in err.getvalue()
    assert not DataflowRecord.objects.exists()


@pytest.mark.parametrize("options", [
    {"username": "nobody"}, {"username": "vera"}, {"username": "carla", "team": "mobility"},
    {"username": "carla", "team": "none"}])
def test_submitting_for_whom_one_may_not(world: World, tmp_path: Path, options):
    file = tmp_path / "flow.json"
    file.write_text(document("traffic"))
    with pytest.raises(CommandError):
        run("submit", str(file), **options)


def test_submitting_what_is_no_file(world: World, tmp_path: Path):
    (tmp_path / "latin").write_bytes(b"\xff")
    for name in ("absent", "latin", "."):
        with pytest.raises(CommandError):
            run("submit", str(tmp_path / name), username="carla")


def test_the_estates_summary(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    output = run("estate")
    assert "1 dataflow: 4 tasks run, 4 without sharing." in output and "traffic (City)" in output and "broker" in output
    assert json.loads(run("estate", json=True))["counts"]["submitted"] == 1


def test_adding_a_user(db):
    output = run("add_user", "zoe", team="lab", role="approver")
    password = output.split("password:")[1].strip()
    assert User.objects.get(username="zoe").check_password(password)
    assert Membership.objects.get(user__username="zoe", team__slug="lab").role == Role.APPROVER
    with pytest.raises(CommandError):
        run("add_user", "zoe")


def test_a_latency_limit_is_chosen_from_a_terminal(world: World) -> None:
    record = running(world.carla, world.city, document("late"), world.ana)

    assert run("latency", "late", "400ms", username="carla") == "late: mean of at most 400 ms.\n"
    assert "out of reach" in run("latency", "late", "30ms", username="carla")
    assert run("latency", "late", "none", username="carla") == "late: no limit.\n"
    assert run("latency", "late", "document", username="carla") == "late: mean of at most 5 s.\n"
    with pytest.raises(CommandError, match="no time"):
        run("latency", "late", "soon", username="carla")
    assert DataflowRecord.objects.get(pk=record.pk).latency_chosen is None


def test_controllers_are_listed_and_set(world: World):
    listed = run("controller", username="dev")
    assert "deployment: city recommends" in listed and "remeasuring: mobility recommends" in listed
    only = run("controller", "deployment", "city", "acts", username="dev")
    assert only.startswith("deployment: city acts, at most 6 changes an hour") and only.count("\n") == 1
    assert "deployment: city acts" in run("controller", username="dev")
    with pytest.raises(CommandError, match="Name the controller, a team and a mode"):
        run("controller", "deployment", username="dev")
    with pytest.raises(CommandError):
        run("controller", "no_such", "city", "acts", username="dev")
    with pytest.raises(CommandError):
        run("controller", "deployment", "city", "off", username="carla")


@pytest.mark.django_db
def test_a_restored_database_gets_the_migrations_of_its_backup_each_after_those_that_it_needs():
    executor = MigrationExecutor(connection)
    graph = executor.loader.graph
    backed_up = set(graph.nodes)
    plan = restore_database.plan_of(executor, backed_up)
    order = [(migration.app_label, migration.name) for migration, _ in plan]
    assert sorted(order) == sorted(graph.nodes) and not any(goes_back for _, goes_back in plan)
    assert all(set(order[:number]) >= {parent.key for parent in graph.node_map[key].parents}
               for number, key in enumerate(order))
    backed_up.remove(order[-1])
    assert len(restore_database.plan_of(executor, backed_up)) == len(plan) - 1, "what it had not is left to the start"
