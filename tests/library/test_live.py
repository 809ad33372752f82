"""Live sources: what their configs may say, and that nothing is reached which the operator has not named."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from scheduler.model.canonical import identity_config
from scheduler.model.dataflow import Dataflow, Task
from scheduler.model.documents import read_document
from scheduler.reuse.fingerprint import fingerprints
from workers.library import live
from workers.library.config import InvalidConfig
from workers.library.registry import check, task_types

KAFKA = {"servers": ["kafka.example.org:9092"], "topics": ["orders"]}
MQTT = {"server": "mqtt.example.org", "topics": ["a/+/b", "#"]}
INGEST = {"name": "meters", "token": {"secret": "hook"}}
FILES = {"path": "drop", "columns": ["n:bigint"]}
BUCKET = {**FILES, "path": "s3://bucket/in", "endpoint": "other.example.org:9999", "access_key": {"secret": "a"},
          "secret_key": {"secret": "s"}}
SPARK = {"source": "rate", "columns": ["value:bigint"], "options": {"rowsPerSecond": "5"}}
CERTIFICATE = {"certificate": {"secret": "c"}, "private_key": {"secret": "k"}}
TABLE = {"database": {"secret": "db"}, "table": "orders", "column": "id", "columns": ["id:bigint"]}


@pytest.fixture(autouse=True)
def _hosts(monkeypatch, tmp_path):
    monkeypatch.setenv("WEIR_INBOX_DIRS", str(tmp_path))
    monkeypatch.setenv("WEIR_SPARK_SOURCES", "Rate, kafka")
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "kafka.example.org,mqtt.example.org,other.example.org:9999")


def problem(name: str, config: dict) -> str:
    error = check(task_types()[name], config)
    return "" if error is None else error.message


@pytest.mark.parametrize(("name", "config"), [
    ("kafka", KAFKA), ("kafka", {**KAFKA, "servers": ["other.example.org:9999"], "start": "2026-05-01T00:00:00Z"}),
    ("mqtt", MQTT), ("mqtt", {**MQTT, "tls": True, "username": "u", "password": {"secret": "p"}}),
    ("http_ingest", INGEST), ("http_ingest", {**INGEST, "columns": ["a:double", "at:timestamp"], "time_field": "at"}),
    ("kafka", {**KAFKA, "security": "ssl", **CERTIFICATE, "include": ["kafka_key", "kafka_time"],
               "columns": ["a"], "time_field": "kafka_time"}),
    ("mqtt", {**MQTT, "tls": True, **CERTIFICATE, "include": ["mqtt_topic"]}),
    ("files", FILES), ("files", BUCKET), ("files", {**FILES, "format": "csv", "header": True, "start": "oldest"}),
    ("spark_source", SPARK), ("spark_source", {**SPARK, "secret_options": {"secret": "o"}}), ("postgresql", TABLE)])
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
    ("kafka", {**KAFKA, "include": ["key"]}, "does not know"),
    ("kafka", {**KAFKA, "include": ["mqtt_topic"]}, "does not know"),
    ("kafka", {**KAFKA, "columns": ["kafka_key"], "include": ["kafka_key"]}, "both a field and included"),
    ("kafka", {**KAFKA, **CERTIFICATE}, "needs an encrypted connection"),
    ("mqtt", {**MQTT, "tls": True, "certificate": {"secret": "c"}}, "belong together"),
    ("files", {**FILES, "path": "../drop"}, "leads out of the inbox"),
    ("files", {**FILES, "path": "/etc"}, "leads out of the inbox"),
    ("files", {**FILES, "endpoint": "other.example.org:9999"}, "A folder has no endpoint"),
    ("files", {**FILES, "format": "parquet", "columns": []}, "needs columns"),
    ("files", {**FILES, "header": True}, "has no header"),
    ("files", {**BUCKET, "endpoint": "169.254.169.254", "tls": False}, "may not reach 169.254.169.254:80"),
    ("files", {**BUCKET, "endpoint": None}, "may not reach s3.us-east-1.amazonaws.com:443"),
    ("files", {**BUCKET, "secret_key": None}, "belong together"),
    ("files", {**BUCKET, "path": "s3://"}, "names no bucket"),
    ("spark_source", {**SPARK, "source": "text"}, "Spark's format text may not be read"),
    ("spark_source", {**SPARK, "columns": []}, "names no columns"),
    ("spark_source", {**SPARK, "options": {"rowsPerSecond": 5}}, "is no text"),
])
def test_what_cannot_work_is_refused_with_its_reason(name, config, why):
    assert why in problem(name, config)


def test_the_documents_of_the_manual_are_sound_and_name_every_live_source(monkeypatch, tmp_path):
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "kafka.example.org,mqtt.example.org")
    monkeypatch.setenv("WEIR_SPARK_SOURCES", "rate-micro-batch")
    text = (Path(__file__).parents[2] / "docs" / "connectors.md").read_text()
    live = {name for name, declared in task_types().items() if declared.connector is not None}
    blocks = re.findall(r"((?:^    .*\n)+)", text, re.MULTILINE)
    documents = [textwrap.dedent(block) for block in blocks if block.lstrip().startswith("name:") and live.intersection(
        re.findall(r"type: (\w+)", block))]
    dataflows = [read_document(document, task_types=task_types()) for document in documents]
    used = {task.type for dataflow in dataflows for task in dataflow.tasks}
    assert used >= live
    for dataflow in dataflows:
        for task in dataflow.tasks:
            assert problem(task.type, dict(task.config)) == ""


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


@pytest.mark.parametrize(("changes", "why"), [
    ({"format": "avro"}, "belong together"), ({"registry": "http://kafka.example.org:8081"}, "belong together"),
    ({"format": "avro", "registry": "http://other.example.org"}, "may not reach"),
    ({"format": "avro", "registry": "http://kafka.example.org:8081", "registry_user": "ana"}, "needs a password"),
    ({"format": "avro", "registry": "http://kafka.example.org:8081", "columns": []}, "needs columns")])
def test_avro_needs_a_registry_that_may_be_asked(monkeypatch, changes, why):
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "kafka.example.org:9092,kafka.example.org:8081")
    config = {"servers": ["kafka.example.org:9092"], "topics": ["a"], "columns": ["n:bigint"]}
    with pytest.raises(InvalidConfig, match=why):
        live.kafka_check({**config, **changes})
    live.kafka_check({**config, "format": "avro", "registry": "http://kafka.example.org:8081"})
