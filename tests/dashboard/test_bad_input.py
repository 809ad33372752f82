"""Bad input of connectors and operators, submitted: refused with place, cause and remedy, and nothing is stored."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from dashboard.api.routes import api
from dashboard.catalog.models import DataflowRecord
from scheduler.contracts.early_refusal import refused_early
from tests.dashboard.building import World
from tests.dashboard.test_api import assert_error, client_of, post

pytestmark = pytest.mark.django_db
HIDDEN = "hidden-password"
KAFKA = {"servers": ["kafka.example.org"], "topics": ["orders"], "columns": ["n:bigint"]}
SECRETS = {"secret": "any"}


def source(type_: str, **config: object) -> list[dict]:
    return [{"id": "bad", "type": type_, "config": config}, {"id": "out", "type": "output", "config": {"name": "out"}}]


def operator(type_: str, **config: object) -> list[dict]:
    return [{"id": "sense", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
            {"id": "bad", "type": type_, "config": config}, {"id": "out", "type": "output", "config": {"name": "out"}}]


def sink(type_: str, **config: object) -> list[dict]:
    return [{"id": "sense", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
            {"id": "bad", "type": type_, "config": config}]


BAD = [
    (source("kafka", **{**KAFKA, "topics": ["no topic*"]}), "no topic"),
    (source("kafka", **{**KAFKA, "topics": []}), "topic"),
    (source("kafka", **{**KAFKA, "servers": ["elsewhere.example.org:9092"]}), "WEIR_CONNECTOR_HOSTS"),
    (source("kafka", **{**KAFKA, "security": "sasl_ssl"}), "username and password"),
    (source("kafka", **{**KAFKA, "start": "yesterday"}), "yesterday"),
    (source("kafka", **{**KAFKA, "columns": ["n:decimal"]}), "n:decimal"),
    (source("mqtt", server="mqtt.example.org", topics=["a/#/b"], columns=["a"]), "a/#/b"),
    (source("mqtt", server="mqtt.example.org", topics=["a"], columns=["a"], password=HIDDEN), "secret"),
    (source("postgresql", database=f"postgresql://me:{HIDDEN}@db/n", table="t", column="id", columns=["n"]), "secret"),
    (source("postgresql", database=SECRETS, table="t; drop table t", column="id", columns=["n"]), "table"),
    (source("files", path="../etc", columns=["a"]), "WEIR_INBOX_DIRS"),
    (source("spark_source", source="socket", columns=["a"]), "WEIR_SPARK_SOURCES"),
    (operator("sql", query="SELECT obs FROM input; SELECT value FROM input"), "2 statements"),
    (operator("sql", query="SELECT obs FROM input WHERE value > (SELECT max(value) FROM their_stream)"), "subquery"),
    (operator("sql", query="SELECT obs FROM their_stream"), "their_stream"),
    (operator("sql", query="SELECT obbs FROM input"), "Did you mean obs"),
    (operator("window", by=["obs"], size="1 min", aggregates=["m=avg(valeu)"]), "Did you mean value"),
    (operator("deduplicate", by=["msg"], within="1 min"), "Did you mean msg_id"),
    (operator("python", function="acme.checks:above", version="1", columns=["a"]), "WEIR_PYTHON_PACKAGES"),
    (operator("python_by_key", function="acme.checks:above", version="1", columns=["a"], by=["obz"]), "WEIR_PYTHON"),
    (sink("to_postgresql", database=SECRETS, table="rows", key=["sensor"]), "Did you mean sensor_id"),
    (sink("to_postgresql", database=SECRETS, table="rows", key=["obs"], columns=["value"]), "obs"),
    (sink("to_kafka", servers=["kafka.example.org"], topic="rows", key="sensr_id"), "Did you mean sensor_id"),
    (sink("to_mqtt", server="mqtt.example.org", topic="rows/{sensr_id}"), "Did you mean sensor_id"),
    (sink("to_mqtt", server="elsewhere.example.org", topic="rows"), "elsewhere.example.org:1883"),
    (sink("to_delta", folder="a", url="s3://city/c"), "either url or folder"),
    (sink("to_s3", bucket="city"), "endpoint"),
]


def test_bad_input_is_refused_with_place_cause_and_remedy(world: World, monkeypatch):
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "kafka.example.org,mqtt.example.org")
    client = client_of(world.carla)
    for tasks, words in BAD:
        text = json.dumps({"name": "bad", "tasks": tasks, "streams": [
            {"from": before["id"], "to": after["id"]} for before, after in pairwise(tasks)]})
        answer = post(client, "/api/dataflows", {"text": text, "team": "city"})
        problems = assert_error(answer, 422, "invalid_dataflow")["problems"]
        assert any(words in f"{problem['message']} {problem['remedy']}" for problem in problems), problems
        for problem in problems:
            assert problem["task_id"] == "bad" and problem["remedy"] and problem["path"].startswith("/tasks/"), problem
            assert HIDDEN not in json.dumps(problem)
    assert not DataflowRecord.objects.exists()


def test_a_body_of_very_many_faults_is_refused_at_the_first(world: World) -> None:
    """340,000 empty objects, 1 MiB, took 1.6 GB, ten seconds and an answer of 73 MB, by anybody who was logged in."""
    answer = client_of(world.vera).put(
        "/api/notice-choices", {"choices": [{}] * 1_000}, content_type="application/json")
    assert 0 < len(assert_error(answer, 422, "invalid_request")["facts"]["fields"]) < 10


def test_no_route_of_the_api_collects_all_faults_of_a_list() -> None:
    bodies = [
        model.__pydantic_core_schema__ for _, router in api._routers for view in router.path_operations.values()
        for operation in view.operations for model in operation.models if model.__ninja_param_source__ == "body"]
    assert len(bodies) > 30
    assert [body for body in bodies if refused_early(body) != body] == []
