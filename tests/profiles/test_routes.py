"""The API of profiles and sweeps: as many statements for many as for few, and what nobody should send."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.operations.models import FragmentRow
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.services.importing import import_profiles
from tests.dashboard.building import World, document, running
from tests.profiles.building import HEADER, started
from tests.profiles.nodes import Node

SWEEP = {"type": "senml_parse", "feed": "source:urban_sensing", "slot": "n1/1"}


def file_of(profiles: int) -> str:
    return "\n".join([HEADER, *(f"t{number},1,10,10,10" for number in range(profiles))])


def statements(client, path: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200
    return len(queries)


@pytest.mark.parametrize("path", ["/api/profiles", "/api/profiles.csv", "/profiles/", "/profiles/export.csv"])
def test_many_profiles_take_as_many_statements_as_few(world: World, client, path: str):
    client.force_login(world.carla)
    import_profiles(actor=world.carla, text=file_of(2))
    client.get(path)
    few = statements(client, path)
    import_profiles(actor=world.carla, text=file_of(30))
    assert statements(client, path) == few


def test_many_sweeps_take_as_many_statements_as_few(world: World, node: Node, client):
    client.force_login(world.carla)
    started(world)
    client.get("/api/sweeps")
    few = statements(client, "/api/sweeps")
    for seconds in range(5, 15):
        started(world, seconds=float(seconds))
    assert statements(client, "/api/sweeps") == few


def test_what_is_imported_is_answered_without_reading_it_one_by_one(world: World, client):
    client.force_login(world.carla)

    def reading(profiles: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            answer = client.post("/api/profiles", {"text": file_of(profiles)}, content_type="application/json")
        assert answer.status_code == 201 and len(answer.json()) == profiles
        assert all(len(profile["points"]) == 1 for profile in answer.json())
        return len([profile for profile in queries if profile["sql"].startswith("SELECT")
            and "profiles_profilepoint" in profile["sql"]])

    assert reading(2) == reading(20) == 3  # two of them count the points in use


NO_SWEEPS = [
    ({"slot": "n1/1\0"}, 404, "not_found"), ({"slot": "n9/9"}, 404, "not_found"),
    ({"type": "senml_parse\0"}, 409, "unknown_task_type"), ({"feed": "source:\0"}, 404, "not_found"),
    ({"config": {"schema": "\0"}}, 422, "invalid_dataflow"), ({"dataflow": "\0", "task": "x"}, 404, "not_found"),
    ({"profile": "nobody's"}, 404, "not_found"), ({"budget_s": -1}, 422, "invalid_resources"),
    ({"budget_s": float("nan")}, 422, ""), ({"largest_threads": 10**9}, 422, "invalid_resources"),
    ({"largest_threads": 0}, 422, "invalid_resources"), ({"largest_threads": 10**40}, 422, ""),
    ({"largest_rate_per_s": 1e300}, 422, "invalid_resources"), ({"largest_rate_per_s": float("inf")}, 422, ""),
    ({"smallest_rate_per_s": 0}, 422, "invalid_resources"), ({"seconds": 1e300}, 422, "invalid_resources"),
    ({"warm_up_s": -3}, 422, "invalid_resources"), ({"slot": None}, 422, "invalid_request"),
]


def test_sweeps_that_are_none_are_refused_and_nothing_is_asked_for(world: World, client):
    client.force_login(world.carla)
    for changes, status, code in NO_SWEEPS:
        answer = client.post("/api/sweeps", SWEEP | changes, content_type="application/json")
        body = answer.json()
        assert (answer.status_code, body["code"]) == (status, code or body["code"]), (changes, body)
        assert set(body) >= {"code", "message", "remedy"} and not SweepRecord.objects.exists(), changes


def test_a_sweep_that_is_asked_for_twice_over_the_api_is_one(world: World, node: Node, client):
    client.force_login(world.carla)
    made = [client.post("/api/sweeps", SWEEP, content_type="application/json").json()["id"] for _ in "ab"]
    assert len(set(made)) == 1


def test_a_file_over_the_limit_is_refused_before_it_is_read(world: World, client):
    client.force_login(world.carla)
    answer = client.post("/api/profiles", {"text": "x" * 2_000_000}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize("depth", [50, 300, 900, 5000])
def test_a_config_that_is_nested_deeply_is_no_500(world: World, client, depth: int):
    client.force_login(world.carla)
    config = '{"schema":' * depth + "1" + "}" * depth
    body = json.dumps(SWEEP)[:-1] + f', "config": {config}}}'
    assert 400 <= client.post("/api/sweeps", body, content_type="application/json").status_code < 500
    assert 400 <= client.post("/profiles/measure", SWEEP | {"config": config}).status_code < 500
    assert not SweepRecord.objects.exists()


def test_a_slot_that_is_taken_does_not_tell_by_what(world: World, client):
    """It may be another team's private query."""
    private = running(world.carla, world.city, document("hidden", visibility="private"), world.ana)
    slots = dict(FragmentRow.objects.values_list("pk", "slot"))
    client.force_login(world.mo)
    assert client.get(f"/api/dataflows/{private.pk}").status_code == 404
    for slot in set(slots.values()):
        answer = client.post("/api/sweeps", SWEEP | {"slot": slot}, content_type="application/json")
        assert (answer.status_code, answer.json()["code"]) == (409, "slot_taken")
        assert not [fragment for fragment in slots if fragment in answer.content.decode()]
