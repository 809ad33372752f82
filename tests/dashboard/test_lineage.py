"""OpenLineage events: what the specification asks for, one run a deployment, each told once, to a local receiver."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import jsonschema
import pytest
from django.utils import timezone

from dashboard.config.environment import ROOT
from dashboard.lineage.emitting import emit_finished
from dashboard.lineage.models import LineageMark
from dashboard.outbox import sending
from dashboard.outbox.models import Delivery
from tests.dashboard.alerting import receiver
from tests.dashboard.building import World, approved, document, enacted, removal_planned, running

URI = {"type": "string", "pattern": r"^[a-z][a-z0-9+.-]*:\S+$"}
FACETS = {"type": "object", "additionalProperties": {
    "type": "object", "required": ["_producer", "_schemaURL"], "properties": {"_producer": URI, "_schemaURL": URI}}}
NAMED = {"type": "object", "required": ["namespace", "name"], "properties": {
    "namespace": {"type": "string"}, "name": {"type": "string"}, "facets": FACETS}}
# What version 2-0-2 of the specification asks of a run event.
RUN_EVENT = {
    "type": "object", "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventTime": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"},
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]}, "producer": URI,
        "schemaURL": URI, "job": NAMED, "inputs": {"type": "array", "items": NAMED},
        "outputs": {"type": "array", "items": NAMED},
        "run": {"type": "object", "required": ["runId"], "properties": {
            "runId": {"type": "string", "pattern": r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}, "facets": FACETS}}}}
OURS = json.loads((ROOT / "static" / "lineage" / "WeirTasksRunFacet.json").read_text())


def events() -> list[dict[str, Any]]:
    return [delivery.payload for delivery in Delivery.objects.filter(channel="lineage").order_by("created", "pk")]


@pytest.fixture
def listened(world: World, settings: Any) -> World:
    settings.OPENLINEAGE_URL = "http://lineage.example.org/api/v1/lineage"
    LineageMark.objects.create(pk=1, since=timezone.now() - timedelta(minutes=1))
    return world


def test_a_run_is_a_deployment_and_owners_of_merged_tasks_are_named(listened: World) -> None:
    traffic = running(listened.carla, listened.city, document("traffic"), listened.ana)
    assert emit_finished() == 1 and emit_finished() == 0
    running(listened.mo, listened.mobility, document("rides", window=20), listened.ana, listened.ben)
    emit_finished()
    enacted(approved(removal_planned(listened.carla, traffic), listened.ana))
    emit_finished()
    for event in events():
        jsonschema.validate(event, RUN_EVENT)
        jsonschema.validate(event["run"]["facets"]["weir_tasks"], OURS)
    of_traffic = [event for event in events() if event["job"]["name"] == "city.traffic"]
    assert of_traffic[0]["eventType"] == "START"
    assert {event["eventType"] for event in of_traffic} == {"START", "RUNNING", "COMPLETE"}
    assert len({event["run"]["runId"] for event in of_traffic}) == 1
    [rides] = [event for event in events() if event["eventType"] == "START" and "rides" in event["job"]["name"]]
    owners = {task["task"]: task["owners"] for task in rides["run"]["facets"]["weir_tasks"]["tasks"]}
    assert owners["parse"] == ["city.traffic", "mobility.rides"] and owners["average"] == ["mobility.rides"]
    assert rides["inputs"][0]["name"] == "mobility.rides.sense" and rides["outputs"][0]["name"] == "mobility.rides.out"


def test_events_arrive_by_the_outbox_with_the_key(listened: World, settings: Any) -> None:
    running(listened.carla, listened.city, document("traffic"), listened.ana)
    with receiver() as got:
        settings.OPENLINEAGE_URL, settings.OPENLINEAGE_KEY = got.url, "key"
        emit_finished()
        assert sending.send_due() == 1
    [(_, headers, body)] = got.requests
    assert headers["Authorization"] == "Bearer key" and headers["Idempotency-Key"]
    assert json.loads(body)["eventType"] == "START"


def test_where_nobody_is_named_nothing_is_emitted(world: World) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    assert emit_finished() == 0 and events() == []
