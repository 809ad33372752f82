"""The database, surroundings and world of ``tests/dashboard``, and a client for each person."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.dashboard.building import World
from tests.dashboard.conftest import _surroundings, django_db_modify_db_settings, sent, world  # noqa: F401

ClientOf = Callable[[str], Client]


@pytest.fixture
def client_of(world: World) -> ClientOf:  # noqa: F811 - pytest's way of naming a fixture
    """A logged-in client by user name."""
    def log_in(name: str) -> Client:
        client = Client()
        client.force_login(world.users[name], backend="dashboard.teams.logins.ThrottledBackend")
        return client

    return log_in
