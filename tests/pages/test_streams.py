"""Newest events on pages: beside the editor, and on the page of a running task."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from dashboard import jobs
from tests.dashboard.building import World, document, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup

EVENTS = jobs.NewestEvents(
    types={"value": "double", "_seq": "bigint", "_time": "bigint"},
    events=[{"_seq": 2, "_time": 0, "value": 1.5}, {"_seq": 1, "_time": 0, "value": None}])


@pytest.fixture
def task(world: World) -> str:
    """A shared running task."""
    record = running(world.carla, world.city, document("traffic"), world.ana)
    return record.uses.get(task_id="parse").running_task_id


def test_events_are_a_table_with_columns_and_types(
    task: str, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "newest_events", lambda *_, **__: EVENTS)
    page = Markup(client_of("mo").get(reverse("running_task_events", args=[task])).text)
    assert page.values("data-column") == ["value", "_seq", "_time"]
    assert page.values("data-type") == ["double", "bigint", "bigint"]
    assert len(page.having("data-event")) == 2 and not page.having("data-empty")


def test_a_stream_without_events_yet_keeps_its_columns(
    task: str, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "newest_events", lambda *_, **__: jobs.NewestEvents())
    page = Markup(client_of("mo").get(reverse("running_task_events", args=[task])).text)
    assert page.having("data-empty") and not page.having("data-event")


def test_a_broker_that_is_away_is_told_with_its_remedy(task: str, client_of: ClientOf) -> None:
    page = Markup(client_of("mo").get(reverse("running_task_events", args=[task])).text)
    assert page.values("data-error") == ["broker_away"]


def test_the_page_of_a_running_task_asks_for_its_events(task: str, client_of: ClientOf) -> None:
    page = Markup(client_of("mo").get(reverse("running_task", args=[task])).text)
    assert page.values("data-output") == [reverse("running_task_events", args=[task])]


def test_the_editor_gets_an_address_for_what_runs_and_columns_for_what_does_not(
    task: str, client_of: ClientOf
) -> None:
    answer = client_of("mo").post(
        reverse("document_streams"), {"team": "mobility", "text": document("jams", window=20)}).json()
    streams = {stream["task"]: stream for stream in answer["streams"]}
    assert list(streams) == ["sense", "parse", "average", "out"]
    assert streams["parse"]["address"] == reverse("running_task_events", args=[task])
    assert streams["parse"]["page"] == reverse("running_task", args=[task])
    assert (streams["average"]["state"], streams["average"]["address"]) == ("not_yet", "")
    shown = Markup(streams["average"]["html"])
    assert "sensor_id" in shown.values("data-column") and "string" in shown.values("data-type")
    assert shown.having("data-empty")


def test_only_who_may_submit_for_a_team_asks_for_it(client_of: ClientOf) -> None:
    for name in ("mo", "vera"):
        response = client_of(name).post(reverse("document_streams"), {"team": "city", "text": document("x")})
        assert response.status_code == 404


def posted(client_of: ClientOf, name: str, task: str) -> Any:
    return client_of(name).post(
        reverse("look_begin"), {"team": "mobility", "text": document("jams", window=20), "task": task})


def test_a_look_that_cannot_begin_says_why_in_its_place(world: World, client_of: ClientOf) -> None:
    answer = posted(client_of, "mo", "parse").json()
    assert answer["address"] == "" and Markup(answer["html"]).values("data-error") == ["nothing_to_look_at"]
    assert posted(client_of, "carla", "sense").status_code == 404, "only who may submit for the team looks"


def test_a_look_that_is_no_more_is_over_and_says_so(world: World, client_of: ClientOf) -> None:
    answer = client_of("mo").get(reverse("look", args=["gone"])).json()
    assert answer["over"] and Markup(answer["html"]).values("data-error") == ["not_found"]


def test_the_editor_offers_a_look_at_what_is_outside(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "mqtt.example.org")
    text = json.dumps({
        "name": "vehicles", "tasks": [
            {"id": "topic", "type": "mqtt", "config": {"server": "mqtt.example.org", "topics": ["a"]}},
            {"id": "out", "type": "output", "config": {"name": "out"}}],
        "streams": [{"from": "topic", "to": "out"}]})
    answer = client_of("mo").post(reverse("document_streams"), {"team": "mobility", "text": text}).json()
    assert [bool(stream["look"]) for stream in answer["streams"]] == [True, False]
    assert client_of("mo").get(reverse("dataflow_new")).text.count(f'data-looks="{reverse("look_begin")}"') == 1
