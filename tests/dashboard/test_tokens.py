"""API tokens: what a scope lets a program do, when they end, and who sees and revokes them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.audit.models import AuditEntry
from dashboard.outbox.models import LINEAGE, Delivery
from dashboard.teams.models import ApiToken, Role, TokenScope
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import InvalidValue, create_token, deactivate, revoke_token
from dashboard.teams.services.tokens import MOST_TOKENS
from scheduler.model.errors import NotFound
from tests.cases import each
from tests.dashboard.building import PASSWORD, World, document


def ask(secret: str, method: str, path: str, body: Any = None) -> int:
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    given = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    return getattr(client, method)(path, **given).status_code


SUBMIT = ("post", "/api/dataflows", {"team": "city", "text": document("new"), "format": "json"})
RULES = ("put", "/api/teams/city/approval-rules", {"rules": {"otherwise": {"approvals": 2}}})
SECRET = ("put", "/api/teams/city/secrets/hook", {"value": "x"})
PEOPLE = ("get", "/api/people", None)


@each("who, scope, may", [
    ("dev", "read", ()), ("dev", "submit", (SUBMIT,)), ("dev", "approve", (SUBMIT, RULES)),
    ("dev", "admin", (SUBMIT, RULES, SECRET)), ("root", "read", ()), ("root", "submit", (SUBMIT,)),
    ("root", "approve", (SUBMIT, RULES)), ("root", "admin", (SUBMIT, RULES, SECRET, PEOPLE)),
    ("vera", "admin", ()), ("carla", "admin", (SUBMIT,))])
def test_a_scope_bounds_what_its_user_may(world: World, who: str, scope: str, may: tuple):
    _, secret = create_token(actor=world.users[who], name="ci", scope=scope)
    assert ask(secret, "get", "/api/dataflows") == 200
    for request in (SUBMIT, RULES, SECRET, PEOPLE):
        assert (ask(secret, *request) < 300) is (request in may), request


@pytest.mark.parametrize("scope", TokenScope.values)
def test_the_roles_of_a_token_are_cut_and_what_it_sees_is_not(world: World, scope: str):
    whole = viewer_of(world.dev)
    world.dev.most_role = TokenScope(scope).role
    cut = viewer_of(world.dev)
    assert cut.team_ids == whole.team_ids and cut.scope == whole.scope
    for role in Role:
        assert cut.has_role(world.city.pk, role) is (role <= TokenScope(scope).role)
        assert cut.has_role_anywhere(role) is (role <= TokenScope(scope).role)


def test_a_token_ends(world: World, settings):
    settings.TOKEN_DAYS, settings.TOKEN_LONGEST_DAYS = 30, 60
    token, secret = create_token(actor=world.carla, name="ci")
    assert timedelta(days=29) < token.expires - timezone.now() <= timedelta(days=30)
    assert ask(secret, "get", "/api/me") == 200
    ApiToken.objects.filter(pk=token.pk).update(expires=timezone.now() - timedelta(seconds=1))
    assert ask(secret, "get", "/api/me") == 401
    ApiToken.objects.filter(pk=token.pk).update(expires=None)  # made before tokens ended
    assert ask(secret, "get", "/api/me") == 200
    settings.TOKEN_LONGEST_DAYS = 7
    token, _ = create_token(actor=world.carla, name="short")
    assert token.expires - timezone.now() <= timedelta(days=7)


@pytest.mark.parametrize("given", [
    {"name": " "}, {"name": "x" * 81}, {"name": "a\nb"}, {"name": "a\u202eb"}, {"scope": "all"}, {"days": 0},
    {"days": 366}, {"days": -1}])
def test_what_no_token_can_be_is_refused(world: World, given: dict):
    client = Client()
    client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    answer = client.post("/api/tokens", data=json.dumps({"name": "ci"} | given), content_type="application/json")
    assert answer.status_code == 422 and not world.carla.api_tokens.exists()
    client.post("/tokens/new", {"name": "ci"} | given)
    assert not world.carla.api_tokens.exists()


def test_there_is_a_most(world: World):
    for number in range(MOST_TOKENS):
        create_token(actor=world.carla, name=str(number))
    with pytest.raises(InvalidValue):
        create_token(actor=world.carla, name="more")


@pytest.mark.parametrize(("who", "may"), [("carla", True), ("root", True), ("dev", False), ("ana", False)])
def test_the_owner_and_administrators_revoke(world: World, who: str, may: bool):
    token, secret = create_token(actor=world.carla, name="ci")
    if not may:
        with pytest.raises(NotFound):
            revoke_token(actor=world.users[who], token_id=token.pk)
    else:
        revoke_token(actor=world.users[who], token_id=token.pk)
        entry = AuditEntry.objects.filter(verb="token.revoke").get()
        assert (entry.actor, entry.details["user"]) == (world.users[who], "carla")
    assert ask(secret, "get", "/api/me") == (401 if may else 200)


def test_lists_hold_what_one_may_revoke(world: World):
    _, secret = create_token(actor=world.carla, name="of carla", scope="read")
    _, admin = create_token(actor=world.root, name="of root", scope="admin")
    rows = Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/tokens").json()
    assert [(row["name"], row["scope"], row["ended"]) for row in rows] == [("of carla", "read", False)]
    assert rows[0]["last_used"] is not None and "secret" not in rows[0]
    people = Client(headers={"Authorization": f"Bearer {admin}"}).get("/api/people").json()
    assert {row["username"]: [token["name"] for token in row["tokens"]] for row in people if row["tokens"]} == {
        "carla": ["of carla"], "root": ["of root"]}


@pytest.mark.parametrize("wished", [False, True])
def test_a_new_password_ends_sessions_and_where_wished_tokens(world: World, wished: bool):
    _, secret = create_token(actor=world.carla, name="ci")
    here, elsewhere = Client(), Client()
    for client in (here, elsewhere):
        client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    answer = here.post("/password/", {
        "old_password": PASSWORD, "new_password1": "another-horse-9", "new_password2": "another-horse-9",
        **({"end_tokens": "on"} if wished else {})})
    assert answer.status_code == 302
    assert here.get("/dataflows/").status_code == 200
    assert elsewhere.get("/dataflows/").status_code == 302
    assert ask(secret, "get", "/api/me") == (401 if wished else 200)
    assert AuditEntry.objects.get(verb="user.change_password").details == {"tokens": int(wished)}


def test_a_password_that_is_refused_changes_nothing(world: World):
    _, secret = create_token(actor=world.carla, name="ci")
    client = Client()
    client.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    answer = client.post("/password/", {
        "old_password": "wrong", "new_password1": "another-horse-9", "new_password2": "another-horse-9",
        "end_tokens": "on"})
    assert answer.status_code == 200 and ask(secret, "get", "/api/me") == 200


def test_who_was_deactivated_has_no_token_left_after_coming_back(world: World):
    _, secret = create_token(actor=world.carla, name="ci")
    deactivate(actor=world.root, username="carla")
    assert ask(secret, "get", "/api/me") == 401 and not ApiToken.objects.exists()


@each("who, scope, sees", [
    ("root", "read", False), ("root", "submit", False), ("root", "approve", False), ("root", "admin", True),
    ("dev", "admin", False)])
def test_what_is_sent_of_all_teams_only_an_administrators_whole_token_lists(
    world: World, who: str, scope: str, sees: bool
) -> None:
    Delivery.objects.create(key="lineage:1:2", channel=LINEAGE, payload={}, subject="START city.private")
    _, secret = create_token(actor=world.users[who], name="ci", scope=scope)
    rows = Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/deliveries").json()["items"]
    assert [row["subject"] for row in rows] == ["START city.private"] * sees
