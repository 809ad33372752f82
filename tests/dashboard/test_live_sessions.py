"""Who live connections belong to: asked of many at once, with the answer that Django gives of each."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone

from dashboard.live import live_sessions
from dashboard.live.live_sessions import Sessions, viewers_of_sessions
from dashboard.teams.permissions import NOBODY, Viewer, viewer_of
from tests.dashboard.building import World


def session_of(user) -> str:
    client = Client()
    client.force_login(user, backend="dashboard.teams.logins.ThrottledBackend")
    return client.session.session_key


def one_by_one(key: str) -> Viewer:
    return viewer_of(get_user(SimpleNamespace(session=SessionStore(key))))


def test_many_sessions_are_asked_about_as_each_alone(world: World, settings, django_assert_num_queries):
    keys = {name: session_of(user) for name, user in world.users.items()}
    keys |= {"again": session_of(world.dev), "nobody's": SessionStore().session_key or "none"}
    world.ben.set_password("another-horse-9")
    world.ben.save()
    world.mo.is_active = False
    world.mo.save()
    Session.objects.filter(pk=keys["vera"]).update(expire_date=timezone.now() - timedelta(seconds=1))
    Session.objects.filter(pk=keys["abe"]).update(session_data="forged:1:x")
    anonymous = SessionStore()
    anonymous["seen"] = "a page"
    anonymous.create()
    other_way_in = Client()
    other_way_in.force_login(world.ana, backend="dashboard.teams.logins.ThrottledBackend")
    session = other_way_in.session
    session["_auth_user_backend"] = "django.contrib.auth.backends.RemoteUserBackend"
    session.save()
    keys |= {"anonymous": anonymous.session_key, "other way in": session.session_key}
    with django_assert_num_queries(3):
        viewers = viewers_of_sessions(list(keys.values()))
    alone = {name: one_by_one(key) for name, key in keys.items()}
    assert {name: viewers.get(key, NOBODY) for name, key in keys.items()} == alone
    assert {name for name, viewer in alone.items() if viewer != NOBODY} == {
        "ana", "carla", "dev", "again", "outsider", "root"}


def test_a_key_that_was_replaced_still_counts_where_it_is_named(world: World, settings):
    settings.SECRET_KEY = "before"
    key = session_of(world.dev)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = ["before"], "after"
    assert viewers_of_sessions([key])[key].user_id == world.dev.pk
    settings.SECRET_KEY_FALLBACKS = []
    assert viewers_of_sessions([key]) == {}


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was asked at once, instead of asking a database."""
    batches: list[list[str]] = []

    def ask(keys: list[str]) -> dict[str, Viewer]:
        batches.append(sorted(keys))
        if "broken" in keys:
            raise DatabaseError("away")
        return {key: Viewer(int(key), {}) for key in keys if key.isdecimal()}

    monkeypatch.setattr(live_sessions, "viewers_of_sessions", ask)
    return batches


@pytest.mark.django_db
def test_those_who_ask_meanwhile_are_asked_about_together(questions, monkeypatch):
    monkeypatch.setattr(live_sessions, "MOST_AT_ONCE", 3)

    async def run() -> list[Viewer]:
        checks = Sessions()
        return await asyncio.gather(*(checks.viewer(key) for key in ["1", "2", "2", "gone", "", "4", "5"]))

    assert [viewer.user_id for viewer in asyncio.run(run())] == [1, 2, 2, 0, 0, 4, 5]
    assert questions == [["1", "2", "gone"], ["4", "5"]]


@pytest.mark.django_db
def test_a_database_that_is_away_is_told_to_those_who_asked_and_to_nobody_later(questions):
    async def run() -> tuple[object, Viewer]:
        checks = Sessions()
        [failed] = await asyncio.gather(checks.viewer("broken"), return_exceptions=True)
        leaving = asyncio.create_task(checks.viewer("7"))
        await asyncio.sleep(0)
        leaving.cancel()
        return failed, await checks.viewer("8")

    failed, later = asyncio.run(run())
    assert isinstance(failed, DatabaseError) and later.user_id == 8
