"""Metrics: their names and labels, who may read them, and that the dashboard file asks for none that is not there."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from dashboard import jobs
from dashboard.config.environment import ROOT
from dashboard.metrics import metric_families
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.outbox.models import Delivery
from scheduler.contracts.reports import Reports
from tests.cases import each
from tests.dashboard.alerting import alert_of
from tests.dashboard.building import World, document, planned, running
from workers.engine.observed import Flows, TaskFlow


@pytest.fixture
def scraped(world: World, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    settings.METRICS_TOKEN = "word"
    running(world.carla, world.city, document("traffic"), world.ana)
    planned(world.mo, world.mobility, document("rides", window=7))
    alert_of(world.city)
    Delivery.objects.create(key="k", channel="webhook", payload={}, state="dead")
    flows = Flows(tasks={task: TaskFlow(5.0, 100, 20.0, 1500.0, late=3) for task in load_estate().tasks})
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(measured=True, flows=flows, reports=Reports.of({
        "n1": {"node": "n1", "disk_free_mb": 5000, "slots": {
            "0": {"state": "running", "cpu": 0.5, "memory_mb": 900, "restarts": 2}}}})))

    def scrape() -> dict[str, Any]:
        text = Client(headers={"authorization": "Bearer word"}).get("/metrics").content.decode()
        return {family.name: family for family in text_string_to_metric_families(text)}

    return scrape


def test_names_have_one_prefix_base_units_and_words(scraped: Any) -> None:
    families = scraped()
    for name, family in families.items():
        assert name.startswith("weir_") and family.documentation, name
        assert not re.search(r"_(ms|mb|milliseconds|percent)(_|$)", name), name
        for sample in family.samples:
            assert family.type != "counter" or sample.name.endswith("_total"), sample.name
            assert set(sample.labels) <= {
                "dataflow", "name", "team", "quantile", "node", "slot", "severity", "phase", "state", "status",
                "channel", "kind"}
    [latency] = [sample for sample in families["weir_dataflow_latency_seconds"].samples
                 if sample.labels["quantile"] == "0.99"]
    assert (latency.value, latency.labels["name"], latency.labels["team"]) == (1.5, "traffic", "city")
    [late] = families["weir_dataflow_events_late"].samples
    assert late.value == 3 * len(next(iter(load_estate().submitted.values())).running)
    assert families["weir_node_disk_free_bytes"].samples[0].value == 5e9
    assert families["weir_slot_restarts"].samples[0].value == 2


def test_the_dashboard_asks_for_nothing_that_is_not_there(scraped: Any) -> None:
    exposed = {sample.name for family in scraped().values() for sample in family.samples}
    board = json.loads((ROOT / "docs" / "grafana" / "weir.json").read_text())
    shown = set(re.findall(r"\bweir_\w+", json.dumps([board["panels"], board["templating"]])))
    assert shown and shown <= exposed, shown - exposed
    assert exposed <= shown, "a metric that no panel shows"


def test_many_dataflows_are_bounded(scraped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_families, "MOST_DATAFLOWS", 0)
    families = scraped()
    assert families["weir_dataflows_left_out"].samples[0].value == 1
    assert families["weir_dataflow_latency_seconds"].samples == []


@each("token", ["", "word"])
@each("headers", [
    {}, {"x-forwarded-for": "10.0.0.7"}, {"x-forwarded-proto": "https"}, {"authorization": "Bearer "},
    {"authorization": "Bearer"}])
def test_metrics_are_for_the_token_alone(scraped: Any, settings: Any, token: str, headers: dict[str, str]) -> None:
    settings.METRICS_TOKEN = token
    client = Client()
    assert client.get("/metrics", headers=headers).status_code == 401
    assert client.get("/metrics", REMOTE_ADDR="10.0.0.7", headers=headers).status_code == 401


def test_the_token_opens_metrics_from_everywhere(scraped: Any) -> None:
    client = Client()
    assert client.get("/metrics", headers={"authorization": "Bearer wörd"}).status_code == 401
    answer = client.get("/metrics", REMOTE_ADDR="10.0.0.7", headers={"authorization": "Bearer word"})
    assert answer.status_code == 200
