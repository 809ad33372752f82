"""Models that a team keeps, on its page and in the API: its own people see them, others nothing."""

from __future__ import annotations

import json

import pytest

from dashboard import jobs
from tests.dashboard.building import World
from workers.library.model_store import ModelName, StoredVersion, connected, store_version


@pytest.fixture
def stored_models(broker, broker_url, settings):
    settings.REDIS_URL = broker_url
    with connected(broker_url) as client:
        for number in (1, 2):
            version = f"{number}-{number:010x}"
            text = json.dumps({"kind": "linear_regression", "features": ["distance", "seconds"], "target": "fare",
                               "intercept": 0.5, "coefficients": [1.0, 2.0], "version": version, "events": 500})
            store_version(client, ModelName("city", "fares"), StoredVersion(version, 1_700_000_000_000 + number, text),
                          keep=10)


@pytest.mark.broker
def test_a_teams_people_see_its_models(world: World, client, stored_models):
    client.force_login(world.vera, backend="dashboard.teams.logins.ThrottledBackend")
    answer = client.get("/api/teams/city/models").json()
    assert answer["available"] and [model["version"] for model in answer["models"]] == ["2-0000000002", "1-0000000001"]
    assert answer["models"][0] | {"version": "", "characters": 0} == {
        "name": "fares", "version": "", "kind": "linear_regression", "features": ["distance", "seconds"],
        "target": "fare", "events": 500, "learned": "2023-11-14T22:13:20.002000+00:00", "characters": 0}
    page = client.get("/teams/").content.decode()
    assert "2-0000000002" in page and "distance, seconds" in page


@pytest.mark.broker
def test_others_see_none(world: World, client, stored_models):
    client.force_login(world.ben, backend="dashboard.teams.logins.ThrottledBackend")
    assert client.get("/api/teams/city/models").status_code == 404
    assert "2-0000000002" not in client.get("/teams/").content.decode()


def test_while_the_broker_is_away_nothing_is_known(world: World, client, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert jobs.models_of("city") is None
    client.force_login(world.vera, backend="dashboard.teams.logins.ThrottledBackend")
    assert client.get("/api/teams/city/models").json() == {"available": False, "models": []}
    assert "so the models are not known now" in client.get("/teams/").content.decode()
