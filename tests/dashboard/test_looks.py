"""Looks at sources that do not run: who may look where with which credential, and what comes back from a node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.test import Client

from dashboard import jobs
from dashboard.audit.models import AuditEntry
from dashboard.explorer.source_looks import NoNodeReports, NothingToLookAt, begin_look, end_look, look
from dashboard.explorer.streams import NOT_YET, ShownStream, streams_of
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import create_token, set_secret
from scheduler.contracts.looks import DONE, FAILED, ORDERED
from scheduler.model.errors import InvalidDataflow, NotFound, PermissionDenied
from tests.dashboard.building import World, running
from tests.engine.connectors.playing import until
from workers.engine import look_store
from workers.engine.agents.supervising.confinement import Confinement
from workers.engine.agents.supervising.look_runner import LookRunner
from workers.engine.worker_settings import Settings

pytestmark = [pytest.mark.django_db, pytest.mark.broker]
PASSWORD = "a-password-of-the-city"


@pytest.fixture(autouse=True)
def _site(broker: redis.Redis, broker_url: str, settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DATA_DIR, settings.REDIS_URL, settings.LOCAL_NODE = tmp_path, broker_url, "n1"
    monkeypatch.delenv("WEIR_SECRETS_KEY", raising=False)
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "mqtt.example.org,other.example.org")
    monkeypatch.setenv("WEIR_INBOX_DIRS", str(tmp_path))
    jobs.broker.cache_clear()
    jobs._window.cache_clear()
    broker.set("weir:observed:n1", json.dumps({"node": "n1", "version": 1, "at_ms": 0, "slots": {}}))
    yield
    jobs.broker.cache_clear()
    jobs._window.cache_clear()


@pytest.fixture
def node(broker_url: str, tmp_path: Path) -> Iterator[None]:
    """The part of a node's agent that looks."""
    settings = Settings(redis_url=broker_url, data_dir=tmp_path)
    runner = LookRunner(settings, Confinement.of(settings))
    runner.start()
    yield
    runner.stop()
    runner.join(10)


def reading(type_: str, config: dict[str, Any], name: str = "new") -> str:
    return json.dumps({
        "name": name, "tasks": [
            {"id": "source", "type": type_, "config": config},
            {"id": "out", "type": "output", "config": {"name": "out"}}],
        "streams": [{"from": "source", "to": "out"}]})


def of_mqtt(name: str = "new", **config: Any) -> str:
    return reading("mqtt", {
        "server": "mqtt.example.org:1883", "topics": ["a"], "columns": ["a:bigint"], "username": "reader",
        "password": {"secret": "mqtt"}, **config}, name)


@pytest.fixture
def password(world: World) -> None:
    set_secret(actor=world.dev, team=world.city, name="mqtt", value=PASSWORD)


def source_of(world: World, text: str) -> ShownStream:
    return streams_of(world.city, text)[0]


def test_an_engineer_looks_at_what_asks_for_no_credential(world: World, broker: redis.Redis) -> None:
    text = reading("mqtt", {"server": "mqtt.example.org:1883", "topics": ["a"]})
    look_id = begin_look(actor=world.carla, team=world.city, text=text, task_id="source")
    order = look_store.take(broker, "n1", wait_s=1.0)
    assert order is not None and (order.id, order.task_type, order.count) == (look_id, "mqtt", 20)
    assert look(viewer_of(world.carla), look_id).state == "taken"
    for user in (world.vera, world.mo):
        with pytest.raises(PermissionDenied):
            begin_look(actor=user, team=world.city, text=text, task_id="source")
    assert not AuditEntry.objects.filter(verb="source.look").exists()


def test_only_who_looks_hears_what_is_seen(world: World) -> None:
    text = reading("mqtt", {"server": "mqtt.example.org:1883", "topics": ["a"]})
    look_id = begin_look(actor=world.carla, team=world.city, text=text, task_id="source")
    for user in (world.mo, world.ana, world.root):
        with pytest.raises(NotFound):
            look(viewer_of(user), look_id)
        end_look(viewer_of(user), look_id)
    assert look(viewer_of(world.carla), look_id).state == ORDERED
    end_look(viewer_of(world.carla), look_id)
    with pytest.raises(NotFound):
        look(viewer_of(world.carla), look_id)


def test_a_look_that_says_very_much_is_not_read(world: World, broker: redis.Redis) -> None:
    """What a look's process writes the site reads, for all who use it."""
    text = reading("mqtt", {"server": "mqtt.example.org:1883", "topics": ["a"]})
    look_id = begin_look(actor=world.carla, team=world.city, text=text, task_id="source")
    state = json.loads(broker.hget(look_store.key(look_id), "state"))
    broker.hset(look_store.key(look_id), "state", json.dumps(state | {"message": "x" * (1 << 20)}))
    seen = look(viewer_of(world.carla), look_id)
    assert (seen.state, seen.code, len(seen.message) < 100) == (FAILED, "look_too_large", True)
    assert look_store.state_of(broker, look_id) == look_store.TOO_LONG


def test_a_credential_goes_to_no_server_that_no_approver_has_let_it_go_to(
    world: World, broker: redis.Redis, password: None
) -> None:
    with pytest.raises(PermissionDenied):
        begin_look(actor=world.carla, team=world.city, text=of_mqtt(), task_id="source")
    assert look_store.take(broker, "n1", wait_s=0.1) is None
    assert begin_look(actor=world.ana, team=world.city, text=of_mqtt(), task_id="source"), "an approver may look"
    running(world.carla, world.city, of_mqtt("runs"), world.ana)
    same = of_mqtt(columns=["b:double"], tls=False)
    assert begin_look(actor=world.carla, team=world.city, text=same, task_id="source"), "it reads from there already"
    for elsewhere in (
            {"server": "other.example.org:1883"}, {"username": "another"}, {"topics": ["b"]}, {"topics": ["#"]},
            {"server": "mqtt.example.org:8883", "tls": True}):
        with pytest.raises(PermissionDenied):
            begin_look(actor=world.carla, team=world.city, text=of_mqtt(**elsewhere), task_id="source")
    entries = AuditEntry.objects.filter(verb="source.look").order_by("pk")
    assert [(entry.actor, entry.team, entry.details["secrets"]) for entry in entries] == [
        (world.ana, world.city, ["mqtt"]), (world.carla, world.city, ["mqtt"])]


def test_a_look_at_a_table_reads_no_column_that_no_approver_has_let_it_read(world: World, password: None) -> None:
    def of_table(name: str = "new", **config: Any) -> str:
        return reading("postgresql", {
            "database": {"secret": "mqtt"}, "table": "meters", "column": "id", "columns": ["id:bigint", "kwh:double"],
            **config}, name)

    running(world.carla, world.city, of_table("runs"), world.ana)
    for same in (of_table(), of_table(columns=["kwh:string"]), of_table(start="oldest")):
        assert begin_look(actor=world.carla, team=world.city, text=same, task_id="source")
    for more in (
            of_table(columns=["id:bigint", "owner"]), of_table(columns=["owner"]), of_table(column="owner"),
            of_table(table="people")):
        with pytest.raises(PermissionDenied):
            begin_look(actor=world.carla, team=world.city, text=more, task_id="source")
    with pytest.raises(PermissionDenied):
        begin_look(actor=world.carla, team=world.city, text=of_table(), task_id="source", proposes=True)
    assert begin_look(actor=world.ana, team=world.city, text=of_table(columns=["owner"]), task_id="source")


def test_no_value_of_a_secret_is_in_the_order(world: World, broker: redis.Redis, password: None) -> None:
    look_id = begin_look(actor=world.ana, team=world.city, text=of_mqtt(), task_id="source")
    stored = b"".join(broker.hgetall(f"weir:look:{look_id}").values())
    assert b'"secret": "mqtt"' in stored and b'"team": "city"' in stored and PASSWORD.encode() not in stored


def test_another_teams_secret_of_that_name_is_not_taken(world: World, password: None) -> None:
    with pytest.raises(InvalidDataflow) as refused:
        begin_look(actor=world.dev, team=world.mobility, text=of_mqtt(), task_id="source")
    assert [problem.code for problem in refused.value.problems] == ["unknown_secret"]


def test_a_later_look_of_the_same_user_ends_the_one_before(world: World, broker: redis.Redis) -> None:
    text = reading("mqtt", {"server": "mqtt.example.org:1883", "topics": ["a"]})
    first = begin_look(actor=world.carla, team=world.city, text=text, task_id="source")
    second = begin_look(actor=world.carla, team=world.city, text=text, task_id="source")
    assert (look_store.is_asked(broker, first), look_store.is_asked(broker, second)) == (False, True)
    assert look_store.take(broker, "n1", wait_s=0.1) is None, "nobody asks for the first"
    assert look_store.take(broker, "n1", wait_s=0.1).id == second


def test_what_has_nothing_outside_says_so(world: World, password: None) -> None:
    posted = reading("http_ingest", {"name": "meters", "token": {"secret": "mqtt"}, "columns": ["a:bigint"]})
    stream = source_of(world, posted)
    assert (stream.state, stream.look) == (NOT_YET, "") and "posted to it" in stream.note and "posted" in stream.remedy
    with pytest.raises(NothingToLookAt, match="posted to it"):
        begin_look(actor=world.ana, team=world.city, text=posted, task_id="source")
    with pytest.raises(NothingToLookAt):
        begin_look(actor=world.ana, team=world.city, text=posted, task_id="out")
    with pytest.raises(NotFound):
        begin_look(actor=world.ana, team=world.city, text=posted, task_id="none")


def test_without_a_node_nobody_looks(world: World, broker: redis.Redis) -> None:
    broker.delete("weir:observed:n1")
    with pytest.raises(NoNodeReports):
        begin_look(actor=world.carla, team=world.city, text=reading(
            "mqtt", {"server": "mqtt.example.org:1883", "topics": ["a"]}), task_id="source")


def test_a_source_has_the_same_name_until_its_config_changes(world: World) -> None:
    config = {"server": "mqtt.example.org:1883", "topics": ["a"]}
    name = source_of(world, reading("mqtt", config)).look
    assert name and source_of(world, reading("mqtt", config, "another")).look == name
    assert source_of(world, reading("mqtt", config | {"topics": ["b"]})).look not in ("", name)


def test_the_api_shows_what_a_folder_holds(world: World, node: None, tmp_path: Path) -> None:
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "1.ndjson").write_text('{"n": 1, "at": "2026-05-01T12:00:00Z"}\n{no json\n')
    (tmp_path / "drop" / "2.ndjson").write_text('{"n": 2}\n')
    _, secret = create_token(actor=world.carla, name="ci")
    client = Client(headers={"authorization": f"Bearer {secret}"})
    text = reading("files", {"path": "drop", "columns": ["n:bigint", "at:timestamp"]})
    [stream, _] = client.post(
        "/api/streams", {"text": text, "team": "city"}, content_type="application/json").json()
    assert stream["look"]
    begun = client.post(
        "/api/streams/looks", {"text": text, "team": "city", "task": "source"}, content_type="application/json")
    assert begun.status_code == 202, begun.json()
    address = f"/api/streams/looks/{begun.json()['id']}"
    until(lambda: client.get(address).json()["is_over"], saying=lambda: client.get(address).json())
    seen = client.get(address).json()
    assert seen["state"] == DONE and seen["types"] == {"n": "bigint", "at": "timestamp"}
    assert [event["n"] for event in seen["events"]] == [2, 1]
    assert seen["events"][1]["at"].startswith("2026-05-01T12:00")
    [unread] = seen["unread"]
    assert unread["place"].startswith("1.ndjson") and unread["sample"].startswith("{no json")
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404


@pytest.mark.long  # the test above looks at a folder, test_streams.py shows values that JSON has none for
def test_bytes_that_are_no_text_are_shown(world: World, node: None, tmp_path: Path) -> None:
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "1.bin").write_bytes(b"\xff\x00\xfe")
    text = reading("files", {"path": "drop", "format": "bytes"})
    client = Client()
    client.force_login(world.carla)
    begun = client.post(
        "/api/streams/looks", {"text": text, "team": "city", "task": "source"}, content_type="application/json").json()
    address = f"/api/streams/looks/{begun['id']}"
    until(lambda: client.get(address).json()["is_over"], saying=lambda: client.get(address).json())
    assert client.get(address).json()["events"] == [{"value": "/wD+"}]  # base64, as sinks write bytes


def test_a_look_that_no_node_takes_is_told(world: World, broker: redis.Redis) -> None:
    text = reading("mqtt", {"server": "mqtt.example.org:1883", "topics": ["a"]})
    look_id = begin_look(actor=world.carla, team=world.city, text=text, task_id="source")
    assert look(viewer_of(world.carla), look_id).state == ORDERED
    broker.expire(f"weir:look:{look_id}", look_store.LIVES_S - look_store.ORDER_LIVES_S - 1)  # so much later
    seen = look(viewer_of(world.carla), look_id)
    assert (seen.is_over, seen.code) == (True, "look_not_taken") and seen.message and seen.remedy
