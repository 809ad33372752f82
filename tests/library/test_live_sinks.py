"""Sinks that write to other systems: what their configs may say, which columns they need, and that nothing is reached
which the operator has not named."""

from __future__ import annotations

import pytest

from scheduler.model.columns import Columns, UnknownColumn, WrongColumnType
from workers.library.config import InvalidConfig, settings
from workers.library.databases import locate
from workers.library.live_sinks import TASK_TYPES
from workers.library.registry import check, companion, task_types

SECRET = {"secret": "any"}
DATABASE = {"database": SECRET, "table": "public.orders"}
S3 = {"endpoint": "https://s3.example.org", "access_key": SECRET, "secret_key": SECRET}
DELTA = {"url": "s3://city/tables/orders", **S3}
OBJECTS = {"bucket": "city", **S3}
KAFKA = {"servers": ["kafka.example.org"], "topic": "orders"}
MQTT = {"server": "mqtt.example.org", "topic": "orders/{n}"}
SOUND = {"to_postgresql": DATABASE, "to_delta": DELTA, "to_s3": OBJECTS, "to_kafka": KAFKA, "to_mqtt": MQTT}
INPUTS = Columns.stream({"n": "bigint", "text": "string", "parts": "array<string>"})


@pytest.fixture(autouse=True)
def _hosts(monkeypatch):
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "kafka.example.org,mqtt.example.org,s3.example.org")


def problem(name: str, config: dict) -> str:
    error = check(task_types()[name], config)
    return "" if error is None else error.message


def columns(name: str, config: dict) -> Columns:
    task_type = task_types()[name]
    return companion(task_type, "_columns")(INPUTS, settings(task_type, config))


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_config_is_taken_and_events_go_on_as_they_are(name):
    assert problem(name, SOUND[name]) == ""
    assert columns(name, SOUND[name]) == INPUTS
    task_type = task_types()[name]
    assert task_type.terminal == "connector" and task_type.chain == "never" and task_type.approved_only


def test_each_is_asked():
    assert SOUND.keys() == {task_type.name for task_type in TASK_TYPES}


@pytest.mark.parametrize(("name", "config", "why"), [
    ("to_postgresql", {**DATABASE, "key": ["n"], "columns": ["text"]}, "key n is not among"),
    ("to_delta", {**DELTA, "folder": "orders"}, "in S3 or in a folder"),
    ("to_delta", {}, "in S3 or in a folder"),
    ("to_delta", {**DELTA, "secret_key": None}, "needs endpoint"),
    ("to_delta", {**DELTA, "endpoint": "https://elsewhere"}, "may not write to elsewhere:443"),
    ("to_s3", {**OBJECTS, "endpoint": "http://s3.example.org:22"}, "may not write to s3.example.org:22"),
    ("to_s3", {**OBJECTS, "endpoint": "https://user@s3.example.org"}, ""),
    ("to_kafka", {**KAFKA, "servers": ["elsewhere:9092"]}, "may not write to elsewhere:9092"),
    ("to_kafka", {**KAFKA, "security": "sasl_ssl"}, "needs username and password"),
    ("to_mqtt", {**MQTT, "server": "elsewhere"}, "may not write to elsewhere:1883"),
    ("to_mqtt", {**MQTT, "password": SECRET}, "no username")])
def test_what_is_wrong_is_said(name, config, why):
    if why:
        assert why in problem(name, config)
    else:
        pattern = task_types()[name].parameter("endpoint").pattern
        import re

        assert not re.fullmatch(pattern, config["endpoint"])


@pytest.mark.parametrize(("name", "config", "error"), [
    ("to_postgresql", {**DATABASE, "columns": ["m"]}, UnknownColumn),
    ("to_postgresql", {**DATABASE, "key": ["m"]}, UnknownColumn),
    ("to_postgresql", {**DATABASE, "key": ["parts"]}, WrongColumnType),
    ("to_postgresql", {**DATABASE, "key": ["_seq"]}, UnknownColumn),
    ("to_delta", {**DELTA, "partition_by": ["m"]}, UnknownColumn),
    ("to_kafka", {**KAFKA, "key": "m"}, UnknownColumn), ("to_kafka", {**KAFKA, "key": "parts"}, WrongColumnType),
    ("to_mqtt", {**MQTT, "topic": "a/{m}"}, UnknownColumn), ("to_s3", {**OBJECTS, "columns": ["m"]}, UnknownColumn)])
def test_a_column_that_is_not_there_is_told_before_anything_runs(name, config, error):
    with pytest.raises(error):
        columns(name, config)


def test_what_may_be_read_may_not_be_written_where_the_operator_says_so(monkeypatch):
    monkeypatch.setenv("WEIR_DATABASE_HOSTS", "db.example.org")
    config, address = {"server": "mqtt.example.org", "topic": "a"}, "postgresql://me:p@db.example.org/n"
    assert not problem("to_mqtt", config)
    locate(address, writes=True)
    monkeypatch.setenv("WEIR_SINK_HOSTS", "out.example.org")
    assert "may not write to mqtt.example.org:1883" in problem("to_mqtt", config)
    assert not problem("to_mqtt", {**config, "server": "out.example.org"})
    assert not problem("mqtt", {"server": "mqtt.example.org", "topics": ["a"], "columns": ["a"]})
    locate(address)
    with pytest.raises(InvalidConfig, match="may not write databases on") as error:
        locate(address, writes=True)
    assert "WEIR_SINK_HOSTS" in error.value.remedy
    monkeypatch.setenv("WEIR_SINK_HOSTS", "-")
    assert problem("to_kafka", {"servers": ["kafka.example.org"], "topic": "a"})
