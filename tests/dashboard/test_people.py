"""People who may log in no more: at once, everywhere, and not again by what they had open."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.audit.models import AuditEntry
from dashboard.live.live_sessions import viewers_of_sessions
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.models import User
from dashboard.teams.permissions import NOBODY, viewer_of
from dashboard.teams.services import Identity, LastAdmin, create_token, deactivate, reactivate, sign_on
from scheduler.model.errors import NotFound, PermissionDenied
from tests.dashboard.building import PASSWORD, World


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="dashboard.teams.logins.ThrottledBackend")
    return client


def run(*command: str) -> str:
    out = io.StringIO()
    call_command(*command, stdout=out)
    return out.getvalue()


def by_page(name: str, way: str, world: World) -> None:
    logged_in(world.root).post(f"/people/{name}/{way}")


def by_api(name: str, way: str, world: World) -> None:
    logged_in(world.root).post(f"/api/people/{name}/{way}")


def by_command(name: str, way: str, world: World) -> None:
    run("person", way, name)


@pytest.mark.parametrize("ask", [by_page, by_api, by_command])
def test_who_is_deactivated_is_out_at_once_and_comes_back_by_logging_in_alone(world: World, ask):
    client = logged_in(world.carla)
    key = client.session.session_key
    assert client.get("/dataflows/").status_code == 200
    ask("carla", "deactivate", world)
    assert client.get("/dataflows/").status_code == 302 and viewers_of_sessions([key]) == {}
    assert not Client().login(username="carla", password=PASSWORD)
    assert viewer_of(User.objects.get(username="carla")) is NOBODY
    ask("carla", "reactivate", world)
    assert client.get("/dataflows/").status_code == 302 and viewers_of_sessions([key]) == {}
    assert Client().post("/login/", {"username": "carla", "password": PASSWORD}).status_code == 302
    assert viewer_of(User.objects.get(username="carla")).team_ids == (world.city.pk,)
    assert [entry.verb for entry in AuditEntry.objects.order_by("pk") if entry.verb.startswith("user.")] == [
        "user.deactivate", "user.reactivate"]


@pytest.mark.parametrize("who", ["dev", "ana", "carla", "outsider"])
def test_administrators_alone_deactivate_and_list(world: World, who: str):
    for act in (deactivate, reactivate):
        with pytest.raises(PermissionDenied):
            act(actor=world.users[who], username="vera")
    assert logged_in(world.users[who]).get("/people/").status_code == 403


def test_the_last_administrator_stays(world: World):
    with pytest.raises(LastAdmin):
        deactivate(actor=world.root, username="root")
    other = User.objects.create_superuser("other", password=PASSWORD)
    deactivate(actor=other, username="root")
    with pytest.raises(LastAdmin):
        deactivate(actor=other, username="other")
    assert User.objects.get(username="other").is_active


def test_twice_is_once(world: World):
    for _ in range(2):
        deactivate(actor=world.root, username="vera")
    assert AuditEntry.objects.filter(verb="user.deactivate").count() == 1
    with pytest.raises(NotFound):
        deactivate(actor=world.root, username="nobody\0")


def test_commands_list_people_and_tokens(world: World):
    token, _ = create_token(actor=world.carla, name="ci", scope="read")
    deactivate(actor=world.root, username="vera")
    listed = run("person", "list")
    assert "carla: engineer in city\n" in listed and "vera: viewer in city, deactivated\n" in listed
    assert f"{token.pk}  carla: ci, read, until " in run("token", "list")
    run("token", "revoke", str(token.pk))
    assert "carla" not in run("token", "list")
    with pytest.raises(CommandError):
        run("token", "revoke", str(token.pk))
    with pytest.raises(CommandError, match="Nobody would administer"):
        run("person", "deactivate", "root")


def test_the_page_shows_who_there_is(world: World):
    create_token(actor=world.carla, name="nightly job")
    page = logged_in(world.root).get("/people/").content.decode()
    assert "nightly job" in page and 'data-person="carla"' in page


def test_a_subject_is_told_as_what_it_is_and_does_nothing_in_a_shell(world: World):
    """One of 15 characters took a gigabyte; another would have been run by the administrator who is asked to link."""
    for subject in ("{:>1000000000}", "{", "1; rm -rf ~"):
        with pytest.raises(InvalidValue) as refused:
            sign_on(Identity("https://id.example.org", subject, "Carla", ["eng"]))
        assert f"person link carla '{subject}'`" in refused.value.remedy
