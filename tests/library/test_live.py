"""Live sources: what their configs may say, and that nothing is reached which the operator has not named."""

from __future__ import annotations

import pytest

from scheduler.model.canonical import identity_config
from scheduler.model.dataflow import Dataflow, Task
from scheduler.reuse.fingerprint import fingerprints
from workers.library.registry import check, task_types

KAFKA = {"servers": ["kafka.example.org:9092"], "topics": ["orders"]}
MQTT = {"server": "mqtt.example.org", "topics": ["a/+/b", "#"]}
INGEST = {"name": "meters", "token": {"secret": "hook"}}
TABLE = {"database": {"secret": "db"}, "table": "orders", "column": "id", "columns": ["id:bigint"]}


@pytest.fixture(autouse=True)
def _hosts(monkeypatch):
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "kafka.example.org,mqtt.example.org,other.example.org:9999")


def problem(name: str, config: dict) -> str:
    error = check(task_types()[name], config)
    return "" if error is None else error.message


@pytest.mark.parametrize(("name", "config"), [
    ("kafka", KAFKA), ("kafka", {**KAFKA, "servers": ["other.example.org:9999"], "start": "2026-05-01T00:00:00Z"}),
    ("mqtt", MQTT), ("mqtt", {**MQTT, "tls": True, "username": "u", "password": {"secret": "p"}}),
    ("http_ingest", INGEST), ("http_ingest", {**INGEST, "columns": ["a:double", "at:timestamp"], "time_field": "at"}),
    ("postgresql", TABLE)])
def test_a_sound_config_is_taken(name, config):
    assert problem(name, config) == ""


@pytest.mark.parametrize(("name", "config", "why"), [
    ("kafka", {**KAFKA, "servers": ["elsewhere:9092"]}, "may not reach elsewhere:9092"),
    ("kafka", {**KAFKA, "servers": ["kafka.example.org:22"]}, "may not reach kafka.example.org:22"),
    ("kafka", {**KAFKA, "servers": ["kafka.example.org:9092/../x"]}, "is no server"),
    ("kafka", {**KAFKA, "topics": ["a*"]}, "is no topic"),
    ("kafka", {**KAFKA, "start": "yesterday"}, "is no start"),
    ("kafka", {**KAFKA, "security": "sasl_ssl"}, "needs username and password"),
    ("mqtt", {**MQTT, "server": "localhost"}, "may not reach localhost:1883"),
    ("mqtt", {**MQTT, "tls": True, "server": "mqtt.example.org:1883"}, "may not reach"),
    ("mqtt", {**MQTT, "topics": ["a/#/b"]}, "is no topic"),
    ("mqtt", {**MQTT, "password": {"secret": "p"}}, "no username"),
    ("http_ingest", {**INGEST, "format": "csv"}, "needs columns"),
    ("http_ingest", {**INGEST, "format": "text", "columns": ["a"]}, "has no columns"),
    ("http_ingest", {**INGEST, "columns": ["a"], "time_field": "b"}, "which is no column"),
    ("http_ingest", {**INGEST, "columns": ["_seq"]}, "is not a column"),
    ("postgresql", {**TABLE, "columns": []}, "names no columns"),
])
def test_what_cannot_work_is_refused_with_its_reason(name, config, why):
    assert why in problem(name, config)


def source(config: dict, rate_per_s: float) -> tuple[Dataflow, Task]:
    task = Task("s", "kafka", config)
    return Dataflow("d", (task,), (), rates_per_s={"s": rate_per_s}), task


def test_what_is_expected_to_come_is_no_part_of_what_is_read():
    of = {rate: fingerprints(source(KAFKA, rate)[0], task_types=task_types())["s"] for rate in (1.0, 500.0)}
    assert len(set(of.values())) == 1
    dataflow, task = source(KAFKA, 5.0)
    assert "rate_per_s" not in identity_config(dataflow, task, task_types()["kafka"])


def test_two_teams_credentials_are_two_sources_and_none_is_one():
    def identity(team: str, **config) -> str:
        secret = {"password": {"secret": "p", "team": team}} if config.pop("has_secret", False) else {}
        return fingerprints(source({**KAFKA, **config, **secret}, 1.0)[0], task_types=task_types())["s"]

    assert identity("city") == identity("mobility")
    assert identity("city", has_secret=True) != identity("mobility", has_secret=True)
    assert identity("city", topics=["a", "b"]) == identity("city", topics=["b", "a", "a"])
    assert identity("city", start="oldest") != identity("city")
