"""Secrets: kept by a team's admins under a name, and never seen again."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.approvals.models import Proposal
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowVersion
from dashboard.operations.models import RunningTaskRow
from dashboard.plans.models import PlanRecord
from dashboard.teams.models import Secret
from dashboard.teams.selectors import sealed_secrets
from dashboard.teams.services import InvalidValue, SecretInUse, delete_secret, set_secret
from scheduler.model.errors import InvalidDataflow, NotFound, PermissionDenied
from tests.pages.markup import Markup
from workers.engine.sealed_secrets import Vault

from .building import approved, planned, removal_planned, running

pytestmark = pytest.mark.django_db
VALUE = "s3cr3t-value-of-the-hook"


@pytest.fixture(autouse=True)
def _here(settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    monkeypatch.delenv("WEIR_SECRETS_KEY", raising=False)
    monkeypatch.setenv("WEIR_HTTP_HOSTS", "hooks.example.org")


def posting(name, **config):
    return json.dumps({
        "name": name,
        "tasks": [
            {"id": "sense", "type": "urban_sensing"},
            {"id": "post", "type": "http_post", "config": {"url": "https://hooks.example.org/in", **config}},
        ],
        "streams": [{"from": "sense", "to": "post"}],
    })


def test_a_value_is_sealed_audited_by_name_and_never_shown(world, tmp_path):
    set_secret(actor=world.dev, team=world.city, name="hook", value=VALUE)
    secret = Secret.objects.get()
    assert VALUE not in secret.sealed and Vault(tmp_path).open(secret.sealed) == VALUE
    entry = AuditEntry.objects.get(verb="secret.set")
    assert entry.details == {"name": "hook", "replaced": False} and entry.team == world.city
    client = Client()
    client.force_login(world.dev)
    assert VALUE not in client.get("/teams/").content.decode()
    [row] = client.get("/api/teams/city/secrets").json()
    assert set(row) == {"name", "set_at", "set_by"}


def test_it_is_set_again_and_deleted_by_admins_alone(world):
    for actor in (world.carla, world.ana, world.vera):
        with pytest.raises(PermissionDenied):
            set_secret(actor=actor, team=world.city, name="hook", value=VALUE)
    set_secret(actor=world.dev, team=world.city, name="hook", value=VALUE)
    before = Secret.objects.get().sealed
    set_secret(actor=world.dev, team=world.city, name="hook", value="another")
    assert Secret.objects.count() == 1 and Secret.objects.get().sealed != before
    with pytest.raises(PermissionDenied):
        delete_secret(actor=world.carla, team=world.city, name="hook")
    delete_secret(actor=world.dev, team=world.city, name="hook")
    with pytest.raises(NotFound):
        delete_secret(actor=world.dev, team=world.city, name="hook")


@pytest.mark.parametrize(("name", "value"), [("Not A Name", "x"), ("", "x"), ("hook", ""), ("hook", "x" * 9000)])
def test_what_cannot_be_kept_is_refused(world, name, value):
    with pytest.raises(InvalidValue):
        set_secret(actor=world.dev, team=world.city, name=name, value=value)
    assert not Secret.objects.exists()


def test_a_dataflow_names_a_secret_that_its_team_has(world):
    set_secret(actor=world.dev, team=world.mobility, name="hook", value=VALUE)
    with pytest.raises(InvalidDataflow) as refused:
        planned(world.carla, world.city, posting("out", token={"secret": "hook"}))
    [problem] = refused.value.problems
    assert problem.code == "unknown_secret" and not DataflowVersion.objects.exists()


def test_a_secret_written_out_is_refused_and_stored_nowhere(world):
    with pytest.raises(InvalidDataflow) as refused:
        planned(world.carla, world.city, posting("out", token=VALUE))
    assert [problem.code for problem in refused.value.problems] == ["secret_inlined"]
    assert VALUE not in str(refused.value.as_dict()) and not Proposal.objects.exists()


def test_plans_and_running_tasks_hold_the_name_and_its_team(world):
    for team in (world.city, world.mobility):
        set_secret(actor=world.dev, team=team, name="hook", value=VALUE)
    running(world.carla, world.city, posting("out", token={"secret": "hook"}), world.ana)
    theirs = planned(world.mo, world.mobility, posting("out", token={"secret": "hook"}))
    approved(theirs, world.ben, world.ana)
    posts = RunningTaskRow.objects.filter(type="http_post")
    assert {row.config["token"]["team"] for row in posts} == {"city", "mobility"}, "one name, two secrets, two tasks"
    assert RunningTaskRow.objects.filter(type="urban_sensing").count() == 1
    stored = "".join(PlanRecord.objects.values_list("document", flat=True)) + str(list(AuditEntry.objects.values()))
    assert "hook" in stored and VALUE not in stored


def test_a_secret_in_use_is_not_deleted(world):
    set_secret(actor=world.dev, team=world.city, name="hook", value=VALUE)
    set_secret(actor=world.dev, team=world.city, name="other", value=VALUE)
    record = running(world.carla, world.city, posting("out", token={"secret": "hook"}), world.ana)
    with pytest.raises(SecretInUse):
        delete_secret(actor=world.dev, team=world.city, name="hook")
    delete_secret(actor=world.dev, team=world.city, name="other")
    approved(removal_planned(world.carla, record), world.ana)
    delete_secret(actor=world.dev, team=world.city, name="hook")


def test_what_the_broker_gets_is_sealed_and_by_team(world):
    set_secret(actor=world.dev, team=world.city, name="hook", value=VALUE)
    assert set(sealed_secrets()) == {"city/hook"} and VALUE not in str(sealed_secrets())


def test_pages_and_api_set_and_delete(world):
    client = Client()
    client.force_login(world.dev)
    page = client.post("/teams/city/secrets", {"name": "hook", "value": VALUE}, follow=True).text
    assert Markup(page).flashes == ["secret-set"] and VALUE not in page
    url = "/api/teams/city/secrets/hook"
    assert client.put(url, {"value": "next"}, content_type="application/json").json()["name"] == "hook"
    assert client.delete(url).status_code == 204 and client.delete(url).status_code == 404
    client.force_login(world.carla)
    assert client.put(url, {"value": "next"}, content_type="application/json").status_code == 403
    client.force_login(world.mo)
    assert client.put(url, {"value": "next"}, content_type="application/json").status_code == 404


def test_the_command_reads_the_value_and_does_not_say_it(world, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{VALUE}\n"))
    output = io.StringIO()
    call_command("secret", "set", "city", "hook", stdout=output)
    call_command("secret", "list", "city", stdout=output)
    call_command("secret", "delete", "city", "hook", stdout=output)
    assert "hook" in output.getvalue() and VALUE not in output.getvalue() and not Secret.objects.exists()
    with pytest.raises(CommandError, match="no team"):
        call_command("secret", "list", "nowhere")


def test_where_events_may_go_is_the_operators_word(world):
    with pytest.raises(InvalidDataflow) as refused:
        planned(world.carla, world.city, posting("out", url="https://elsewhere.example.org/in"))
    assert "WEIR_HTTP_HOSTS" in refused.value.problems[0].remedy
