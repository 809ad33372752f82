"""A database of its own, jobs that are noted instead of sent, and a broker that is away unless a test asks for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings as django_settings

from dashboard import jobs
from tests.dashboard.building import World, make_world

AWAY = "redis://127.0.0.1:1/0"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """SQLite as in production, a file: a database in memory is one connection and has no WAL."""
    database = django_settings.DATABASES["default"]
    if "sqlite3" in database["ENGINE"]:
        path: Path = tmp_path_factory.mktemp("database") / "weir.sqlite3"
        database.setdefault("TEST", {})["NAME"] = str(path)


@pytest.fixture(autouse=True)
def _surroundings(settings) -> None:
    settings.REDIS_URL = AWAY
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """The jobs that were sent, instead of sending them."""
    noted: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(jobs, "_send_now", lambda name, kwargs: noted.append((name, kwargs)))
    return noted


@pytest.fixture
def world(db) -> World:
    """Two teams, their people and one node with two slots."""
    return make_world()


@pytest.fixture
def committed_world(transactional_db) -> World:
    """The same, committed, for tests with several connections."""
    return make_world()
