"""The JSON API: the way of a dataflow through it, and one shape for every error."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.approvals.services import prepare_proposal
from dashboard.teams.services import create_token
from tests.dashboard.building import World, document, planned, running, taken_back


def client_of(user, **options) -> Client:
    client = Client(**options)
    client.force_login(user)
    return client


def post(client: Client, path: str, body: object = None, **kwargs):
    return client.post(path, data=json.dumps(body), content_type="application/json", **kwargs)


def assert_error(response, status: int, code: str) -> dict:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/json"
    body = response.json()
    assert body["code"] == code
    assert body["message"] and body["remedy"] is not None
    return body


def test_a_dataflow_from_submission_to_execution(world: World):
    carla, ana = client_of(world.carla), client_of(world.ana)
    made = post(carla, "/api/dataflows", {"text": document("traffic"), "team": "city"})
    assert made.status_code == 201
    proposal_id = made.json()["proposal"]["id"]
    assert made.json()["dataflow"]["status"] == "submitted"
    prepare_proposal(proposal_id=proposal_id)
    proposal = carla.get(f"/api/proposals/{proposal_id}").json()
    assert proposal["status"] == "pending"
    assert proposal["difference"]["counts"] == {
        "started": 4, "reused": 0, "stopped": 0, "resumed": 0, "rested": 0}
    assert {task["name"]: task["status"] for task in proposal["difference"]["tasks"]} == dict.fromkeys(
        ("sense", "parse", "average", "out"), "started")
    assert [step["text"] for step in proposal["difference"]["steps"]]
    assert proposal["review"]["may_approve"] is False
    done = post(ana, f"/api/proposals/{proposal_id}/approve", {"digest": proposal["digest"]})
    assert (done.status_code, done.json()["status"]) == (200, "executing")
    dataflow_id = made.json()["dataflow"]["id"]
    assert carla.get(f"/api/dataflows/{dataflow_id}").json()["status"] == "running"
    live = carla.get(f"/api/dataflows/{dataflow_id}/live").json()
    assert (live["live"]["available"], set(live["tasks"])) == (False, {"sense", "parse", "average", "out"})
    assert carla.get(f"/api/dataflows/{dataflow_id}/outputs").json()[0]["name"] == "traffic-out"
    assert_error(carla.get(f"/api/dataflows/{dataflow_id}/outputs/out"), 503, "broker_away")
    assert carla.get("/api/estate").json()["counts"]["running_tasks"] == 4
    assert carla.get("/api/dataflows?search=traf&team=city&status=running").json()["total"] == 1
    assert carla.get("/api/proposals?status=executing").json()["items"][0]["id"] == proposal_id


def test_the_difference_shows_what_is_reused_and_by_whom(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    difference = client_of(world.mo).get(f"/api/proposals/{proposal.pk}").json()["difference"]
    by_name = {task["name"]: task for task in difference["tasks"] if task["status"] != "neighbour"}
    assert {name: task["status"] for name, task in by_name.items()} == {
        "sense": "reused", "parse": "reused", "average": "started", "out": "started"}
    assert [user["name"] for user in by_name["parse"]["used_by"]] == ["traffic"]
    assert sorted(task["type"] for task in difference["tasks"] if task["status"] == "neighbour") == [
        "block_average", "output"]
    assert [touched["name"] for touched in difference["touched"]] == ["traffic"]
    assert difference["price"]["tasks_reused"] == 2


def test_of_many_that_a_plan_touches_some_are_named_all_counted_and_every_team_asked(world: World, monkeypatch):
    monkeypatch.setattr("scheduler.plan_building.NAMED", 1)
    running(world.carla, world.city, document("a", window=2), world.ana)
    for number in (3, 4):
        running(world.mo, world.mobility, document(f"m{number}", window=number), world.dev)
    proposal = planned(world.carla, world.city, document("late", window=20))
    assert sorted(team.slug for team in proposal.teams.all()) == ["city", "mobility"]
    client = client_of(world.carla)
    difference = client.get(f"/api/proposals/{proposal.pk}").json()["difference"]
    assert (len(difference["touched"]), difference["touched_more"]) == (1, 2)
    assert "and at least 2 more." in client.get(reverse("proposal", args=[proposal.pk])).content.decode()


def test_validating_lists_every_problem_with_its_place(world: World):
    client = client_of(world.vera)
    good = post(client, "/api/validate", {"text": document("traffic")}).json()
    assert (good["valid"], good["dataflow"]["tasks"]) == (True, 4)
    bad = post(client, "/api/validate", {"text": "name: x\ntasks:\n  - {id: a, type: urban_sensin}\nstreams: []\n"})
    assert bad.status_code == 200
    problem = bad.json()["problems"][0]
    assert (bad.json()["valid"], problem["line"]) == (False, 3)
    assert "urban_sensing" in problem["remedy"] + problem["message"]


@pytest.mark.parametrize(("path", "status"), [
    ("/api/me", 200), ("/api/task-types", 200), ("/api/samples", 200), ("/api/document-schema", 200),
    ("/api/audit", 200), ("/api/estate/history", 200), ("/api/openapi.json", 200),
])
def test_readable(world: World, path: str, status: int):
    assert client_of(world.vera).get(path).status_code == status


def test_bad_input_gets_the_one_error_shape(world: World):
    client = client_of(world.carla)
    assert_error(client.get("/api/nothing/here"), 404, "not_found")
    assert_error(client.get(f"/api/dataflows/{uuid4()}"), 404, "not_found")
    assert_error(client.get("/api/dataflows/not-a-uuid"), 404, "not_found")
    assert_error(client.delete("/api/estate"), 405, "method_not_allowed")
    assert_error(client.get("/api/dataflows?page=0"), 422, "invalid_request")
    assert_error(client.get("/api/dataflows?page=" + "9" * 40), 422, "invalid_request")
    assert_error(client.get("/api/dataflows?search=%00"), 400, "bad_input")
    assert_error(client.post("/api/validate", data="{", content_type="application/json"), 400, "bad_input")
    assert_error(client.post("/api/validate", data=b"\xff", content_type="application/json"), 400, "bad_input")
    assert_error(post(client, "/api/validate", {"txt": 1}), 422, "invalid_request")
    assert_error(post(client, "/api/validate", {"text": 5}), 422, "invalid_request")
    invalid = post(client, "/api/dataflows", {"text": "{", "team": "city"})
    assert assert_error(invalid, 422, "invalid_dataflow")["problems"]
    assert_error(post(client, "/api/dataflows", {"text": document("x"), "team": "mobility"}), 404, "not_found")
    assert_error(post(client_of(world.vera), "/api/dataflows", {"text": document("x"), "team": "city"}),
                 403, "permission_denied")
    proposal = planned(world.carla, world.city, document("traffic"))
    assert_error(post(client, f"/api/proposals/{proposal.pk}/approve", {"digest": proposal.plan.digest}),
                 403, "permission_denied")
    assert_error(post(client_of(world.ana), f"/api/proposals/{proposal.pk}/approve", {"digest": "0"}),
                 409, "digest_mismatch")
    assert_error(post(client, f"/api/proposals/{proposal.pk}/roll-back"), 403, "permission_denied")
    assert_error(post(client_of(world.ana), f"/api/proposals/{proposal.pk}/recompute"), 409, "invalid_transition")


@pytest.mark.parametrize("size", [1024 * 1024 + 1, 3 * 1024 * 1024])
def test_a_document_over_the_limit_is_413(world: World, size: int):
    response = post(client_of(world.carla), "/api/dataflows", {"text": "x" * size, "team": "city"})
    body = assert_error(response, 413, response.json()["code"])
    assert body["code"] in {"document_too_large", "too_large"}


def test_strange_text_is_never_a_500(world: World):
    client = client_of(world.ana)
    proposal = planned(world.carla, world.city, document("traffic"))
    for value in ("\0", "\ud800", "x" * 200_000, "é" * 1000, "<script>"):
        for where, ask in {
            "comment": lambda text: post(client, f"/api/proposals/{proposal.pk}/reject", {"comment": text}),
            "digest": lambda text: post(client, f"/api/proposals/{proposal.pk}/approve", {"digest": text}),
            "name": lambda text: post(client, "/api/tokens", {"name": text}),
            "search": lambda text: client.get(
                "/api/dataflows", {"search": text.encode("utf-8", "replace").decode()[:2000]}),
        }.items():
            with taken_back():
                response = ask(value)
            assert response.status_code < 500, (where, value[:9], response.content)
            assert response.status_code < 400 or response.json()["code"], (where, value[:9])


def test_nobody_is_401_and_a_forged_form_is_403(world: World):
    assert_error(Client().get("/api/estate"), 401, "login_required")
    assert_error(post(Client(enforce_csrf_checks=True), "/api/validate", {"text": ""}), 401, "login_required")
    forged = post(client_of(world.carla, enforce_csrf_checks=True), "/api/validate", {"text": ""})
    assert_error(forged, 403, "permission_denied")


def test_a_token_acts_as_its_user_until_it_is_revoked(world: World):
    token, secret = create_token(actor=world.carla, name="ci")
    headers = {"authorization": f"Bearer {secret}"}
    client = Client(enforce_csrf_checks=True)
    assert client.get("/api/me", headers=headers).json() == {
        "username": "carla", "administrator": False, "roles": {"city": "engineer"}}
    made = post(client, "/api/dataflows", {"text": document("traffic"), "team": "city"}, headers=headers)
    assert made.status_code == 201
    assert_error(post(client, "/api/tokens", {"name": "more"}, headers=headers), 401, "login_required")
    assert_error(client.get("/api/me", headers={"authorization": "Bearer weir_x"}), 401, "login_required")
    assert client_of(world.ana).delete(f"/api/tokens/{token.pk}").status_code == 404
    assert client_of(world.carla).delete(f"/api/tokens/{token.pk}").status_code == 204
    assert_error(client.get("/api/me", headers=headers), 401, "login_required")


def test_an_inactive_users_token_is_refused(world: World):
    _, secret = create_token(actor=world.carla, name="ci")
    world.carla.is_active = False
    world.carla.save()
    assert_error(Client().get("/api/me", headers={"authorization": f"Bearer {secret}"}), 401, "login_required")


@pytest.mark.parametrize("path", ["/api/dataflows", "/api/proposals", "/api/audit"])
def test_a_longer_list_asks_the_database_no_more_often(world: World, path: str, django_assert_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = client_of(world.vera)
    planned(world.carla, world.city, document("first"))
    with CaptureQueriesContext(connection) as queries:
        client.get(path)
    for window in range(2, 8):
        planned(world.carla, world.city, document(f"d{window}", window=window))
    with CaptureQueriesContext(connection) as many:
        assert client.get(path).json()["total"] >= 7
    assert len(many) == len(queries)


def test_a_busier_estate_asks_the_database_no_more_often(world: World):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from dashboard.operations.selectors import live_estate
    from dashboard.teams.permissions import viewer_of

    viewer, counts = viewer_of(world.vera), []
    for window in range(2, 7):
        running(world.carla, world.city, document(f"d{window}", window=window), world.ana)
        live_estate(viewer)  # reads the new generation
        with CaptureQueriesContext(connection) as queries:
            live_estate(viewer)
        counts.append(len(queries))
    assert counts == [5] * 5  # with one each for latency limits and alerts
