"""Teams: who may change what, and that an admin stays."""

from __future__ import annotations

import re

import pytest

from dashboard.teams.models import Membership, Role
from dashboard.teams.permissions import NOBODY, viewer_of
from dashboard.teams.services import InvalidValue, LastAdmin, create_team, create_user, remove_member, set_role
from scheduler.model.errors import NotFound, PermissionDenied
from scheduler.model.names import NameNotPlain
from tests.dashboard.building import World


@pytest.mark.parametrize(("who", "allowed"), [
    ("root", True), ("dev", True), ("ana", False), ("carla", False), ("vera", False), ("ben", False)])
def test_admins_of_the_team_set_roles(world: World, who: str, allowed: bool):
    def act():
        return set_role(user=world.outsider, team=world.city, role=Role.ENGINEER, actor=world.users[who])
    if allowed:
        assert act().role == Role.ENGINEER
    else:
        with pytest.raises(PermissionDenied):
            act()
        assert not Membership.objects.filter(user=world.outsider).exists()


@pytest.mark.parametrize("who", ["dev", "ana", "outsider"])
def test_administrators_alone_add_users_and_teams(world: World, who: str):
    with pytest.raises(PermissionDenied):
        create_user(username="x", password="a-long-password-7", actor=world.users[who])
    with pytest.raises(PermissionDenied):
        create_team(slug="x", name="X", actor=world.users[who])


def test_the_last_admin_stays(world: World):
    with pytest.raises(LastAdmin):
        set_role(user=world.dev, team=world.city, role=Role.VIEWER, actor=world.dev)
    with pytest.raises(LastAdmin):
        remove_member(user=world.dev, team=world.city, actor=world.dev)
    set_role(user=world.ana, team=world.city, role=Role.ADMIN, actor=world.dev)
    remove_member(user=world.dev, team=world.city, actor=world.dev)
    assert not Membership.objects.filter(user=world.dev, team=world.city).exists()


def test_whoever_is_no_member_cannot_be_removed(world: World):
    with pytest.raises(NotFound):
        remove_member(user=world.outsider, team=world.city, actor=world.dev)


@pytest.mark.parametrize("values", [
    {"username": "x", "password": "short"}, {"username": "carla", "password": "a-long-password-7"},
    {"username": "a b", "password": "a-long-password-7"}, {"username": "x\0", "password": "a-long-password-7"},
    {"username": "x" * 200, "password": "a-long-password-7"},
    {"username": "carla\u3164", "password": "a-long-password-7"}, {"username": "x", "password": "1234567890123"}])
def test_a_user_that_cannot_be_is_refused(world: World, values):
    with pytest.raises((InvalidValue, NameNotPlain)):
        create_user(**values)


@pytest.mark.parametrize("values", [
    {"slug": "a b", "name": "X"}, {"slug": "x" * 41, "name": "X"}, {"slug": "x", "name": " "},
    {"slug": "x", "name": "a\0"}, {"slug": "x", "name": "a\u202eb"}, {"slug": "city", "name": "X"}])
def test_a_team_that_cannot_be_is_refused(world: World, values):
    with pytest.raises((InvalidValue, NameNotPlain)):
        create_team(**values)


def test_viewers_of_one_set_of_teams_share_a_scope(world: World):
    scopes = {name: viewer_of(user).scope for name, user in world.users.items()}
    assert scopes["ana"] == scopes["carla"] == scopes["vera"]
    assert len({scopes["ana"], scopes["ben"], scopes["dev"], scopes["outsider"], scopes["root"]}) == 5
    world.ana.is_active = False
    assert viewer_of(world.ana) is NOBODY


@pytest.mark.parametrize("way", ["members", "members/remove"])
def test_who_may_not_change_members_does_not_learn_who_there_is(world: World, client, way: str):
    client.force_login(world.vera)
    pages = [client.post(f"/teams/city/{way}", {"username": name, "role": "1"}, follow=True).text
             for name in ("outsider", "nobody-of-that-name")]
    assert [re.findall(r'data-flash="(\w+)', page) for page in pages] == [["permission_denied"]] * 2
