"""What a look leaves in the other system, kind by kind: nothing. And what it takes of long files, and of partitions."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

from scheduler.contracts.looks import DONE, FAILED, LookOrder
from scheduler.model.dataflow import Task
from workers.engine import look_store
from workers.engine.agents.supervising.look_runner import AT_ONCE
from workers.engine.sealed_secrets import Vault, publish

from .playing import until
from .rig import event
from .rigs import MqttRig, rig_of
from .test_looks import OWNER, Node, ends_soon  # noqa: F401

pytestmark = pytest.mark.broker


def node_for(rig: Any, broker: redis.Redis, url: str, folder: Path) -> Node:
    return Node(broker, url, folder / "data", rig.environment)


@pytest.fixture
def started(
    ends_soon: None, broker: redis.Redis, broker_url: str, tmp_path: Path  # noqa: F811
) -> Iterator[Any]:
    """What starts a node for a rig, and ends it afterwards."""
    nodes: list[Node] = []

    def start(rig: Any) -> Node:
        nodes.append(node_for(rig, broker, broker_url, tmp_path))
        return nodes[-1]

    yield start
    for node in nodes:
        node.close()


def test_of_kafka_no_group_has_an_offset_and_all_partitions_are_looked_at(started: Any) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    with rig_of("kafka") as rig:
        rig.anew()
        node, topic = started(rig), rig.topics[0]
        producer = Producer({"bootstrap.servers": ",".join(rig.servers), "log_level": 0})
        for number in range(60):  # each a millisecond later than the one before
            producer.produce(topic, json.dumps(event(number)).encode(), partition=number % 2, timestamp=10**12 + number)
        assert producer.flush(20) == 0
        look_id = node.begin(rig.task(include=["kafka_partition"]))
        seen = node.outcome(look_id)
        assert [row["n"] for row in seen.events] == list(range(59, 39, -1))
        assert {row["kafka_partition"] for row in seen.events} == {0, 1}
        consumer = Consumer({
            "bootstrap.servers": ",".join(rig.servers), "group.id": f"weir-look-{look_id}", "log_level": 0})
        places = consumer.committed([TopicPartition(topic, number) for number in (0, 1)], timeout=10)
        assert {place.offset for place in places} == {-1001}, "nothing is committed"
        consumer.close()


@pytest.mark.parametrize("version", ["5", pytest.param("3.1.1", marks=pytest.mark.long)])
def test_of_mqtt_no_session_stays_and_what_is_retained_stays(started: Any, tmp_path: Path, version: str) -> None:
    import paho.mqtt.client as mqtt
    from paho.mqtt import publish as publishing
    from paho.mqtt.enums import CallbackAPIVersion

    rig = MqttRig(tmp_path, version=version)
    try:
        rig.anew()
        node, topic = started(rig), f"orders{rig._topic}/kept"
        publishing.single(topic, json.dumps(event(3)), qos=1, retain=True, hostname="127.0.0.1", port=rig.port)
        for _ in range(2):  # the first look takes nothing away from the second
            look_id = node.begin(rig.task(), waits_s=3.0)
            assert node.outcome(look_id).events == [event(3)]
        present: list[bool] = []
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=f"weir-look-{look_id}"[:23], clean_session=False,
            protocol=mqtt.MQTTv311)
        client.on_connect = lambda _client, _data, flags, _reason, _properties: present.append(flags.session_present)
        client.connect("127.0.0.1", rig.port)
        client.loop_start()
        until(lambda: present)
        client.loop_stop()
        assert present == [False]
    finally:
        rig.close()


def test_of_mqtt_a_shared_subscription_loses_nothing_to_a_look(started: Any, tmp_path: Path) -> None:
    import paho.mqtt.client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion

    rig = MqttRig(tmp_path)
    rig.anew()
    topic, came, subscribed = f"orders{rig._topic}/#", [], threading.Event()
    member = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    member.on_message = lambda _client, _data, message: came.append(json.loads(message.payload)["n"])
    member.on_subscribe = lambda *_: subscribed.set()
    try:
        member.connect("127.0.0.1", rig.port)
        member.subscribe(f"$share/members/{topic}", 1)
        member.loop_start()
        assert subscribed.wait(20)
        node = started(rig)
        look_id = node.begin(rig.task(topics=[f"$share/members/{topic}"]), waits_s=60.0)
        until(lambda: node.seen(look_id).state.state == "looking")
        rig.send(range(30))
        seen = node.outcome(look_id)
        assert len(seen.events) == 20
        until(lambda: sorted(came) == list(range(30)), saying=lambda: came)
    finally:
        member.loop_stop()
        rig.close()


def test_of_postgresql_no_connection_stays_and_secrets_are_opened_by_name(
    started: Any, broker: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEIR_SECRETS_KEY", raising=False)
    with rig_of("postgresql") as rig:
        rig.anew()
        rig.send(range(3))
        node = started(rig)
        publish(broker, {"city/orders": Vault(tmp_path / "data").seal(rig.address)})
        task = rig.task(database={"secret": "orders", "team": "city"})
        seen = node.look(task)
        assert [row["n"] for row in seen.events] == [2, 1, 0], seen.state
        assert not any(rig.address.encode() in value for key in broker.keys("weir:look:*")
                       if broker.type(key) == b"hash" for value in broker.hgetall(key).values())
        missing = node.look(rig.task(database={"secret": "orders", "team": "mobility"}))
        assert (missing.state.state, missing.state.code) == (FAILED, "secret_away"), missing.state
        refused = node.look(Task("p", "postgresql", {**task.config, "table": "nowhere"}))
        assert (refused.state.code, "nowhere" in refused.state.message) == ("source_refused", True)
        with psycopg.connect(rig.address) as connection:
            until(lambda: connection.execute(
                "select count(*) from pg_stat_activity where backend_type = 'client backend' "
                "and pid <> pg_backend_pid()").fetchone() == (0,))


@pytest.mark.long  # the test of a line that is longer reads the end of one
def test_of_long_files_the_end_is_read(started: Any) -> None:
    with rig_of("files") as rig:
        node = started(rig)
        rows = [event(number) for number in range(60_000)]
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        assert len(text) > 2 << 20
        parquet = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), parquet, row_group_size=7)
        csv = "n,text\n" + "".join(f"{row['n']},{row['text']}\n" for row in rows)
        quoted = "n,text\n" + "".join(f"{row['n']},\"{row['text']}\"\n" for row in rows)
        for body, suffix, config in (
                (text, ".ndjson", {}), (parquet.getvalue(), ".parquet", {"format": "parquet"}),
                (csv.encode(), ".csv", {"format": "csv", "header": True}),
                (quoted.encode(), ".csv", {"format": "csv", "header": True})):
            rig.anew()
            rig.put(body, suffix)
            before = sorted((path.name, path.stat().st_mtime_ns) for path in rig.drop.iterdir())
            seen = node.look(rig.task(**config), waits_s=30.0)
            assert [row["n"] for row in seen.events] == list(range(59_999, 59_979, -1)), (suffix, seen.state)
            assert seen.state.unread == ()
            assert sorted((path.name, path.stat().st_mtime_ns) for path in rig.drop.iterdir()) == before


def test_events_of_several_files_come_with_the_newest_file_first(started: Any) -> None:
    with rig_of("files") as rig:
        node = started(rig)
        rig.anew()
        for number in range(6):
            rig.send([number * 5 + step for step in range(5)])
            name = max(path.name for path in rig.drop.iterdir())
            os.utime(rig.drop / name, (1_700_000_000 + number, 1_700_000_000 + number))
        assert [row["n"] for row in node.look(rig.task()).events] == list(range(29, 9, -1))


def test_a_line_that_is_longer_than_the_end_that_is_read_is_whole(started: Any) -> None:
    with rig_of("files") as rig:
        node = started(rig)
        rig.anew()
        rig.put(json.dumps({"n": 1, "more": "x" * (3 << 20)}).encode() + b"\n")
        seen = node.look(rig.task(), waits_s=20.0)
        assert (seen.events, seen.state.unread) == ([{"n": 1, "text": None}], ())


def test_events_that_are_too_large_together_are_counted(started: Any) -> None:
    with rig_of("files") as rig:
        node = started(rig)
        rig.anew()
        for number in range(4):
            rig.put(json.dumps({"n": number, "text": "x" * 400_000}).encode())
            name = max(path.name for path in rig.drop.iterdir())
            os.utime(rig.drop / name, (1_700_000_000 + number, 1_700_000_000 + number))
        seen = node.look(rig.task(), waits_s=20.0)
        assert (seen.state.state, [row["n"] for row in seen.events], seen.state.too_large) == (DONE, [3, 2], 2)


def test_a_look_whose_process_dies_says_so(started: Any) -> None:
    with rig_of("files") as rig:
        node = started(rig)
        rig.anew()
        look_id = node.begin(rig.task(), waits_s=120.0)
        until(lambda: node.seen(look_id).state.state == "looking")
        for pid in node.runner.pids:
            os.kill(pid, signal.SIGKILL)
        state = node.outcome(look_id).state
        assert (state.state, state.code) == (FAILED, "look_ended") and state.remedy


@pytest.mark.long  # tests/dashboard/test_looks.py has the order
def test_only_so_many_look_at_once_and_the_others_wait(started: Any) -> None:
    with rig_of("files") as rig:
        node = started(rig)
        rig.anew()
        ids = [f"{number + 1:032x}" for number in range(AT_ONCE + 1)]

        def order(number: int) -> None:
            look_store.order(node.broker, LookOrder(
                ids[number], "n1", "files", rig.task().config, waits_s=300.0), owner=str(number))

        def states(*numbers: int) -> list[str]:
            return [look_store.seen(node.broker, ids[number], owner=str(number)).state.state for number in numbers]

        for number in range(AT_ONCE):
            order(number)
        until(lambda: states(*range(AT_ONCE)) == ["looking"] * AT_ONCE, saying=lambda: states(*range(AT_ONCE)))
        order(AT_ONCE)
        assert len(node.runner.pids) == AT_ONCE and states(AT_ONCE) == ["ordered"]
        look_store.cancel(node.broker, ids[0], owner="0")
        until(lambda: states(*range(1, AT_ONCE + 1)) == ["looking"] * AT_ONCE)


def test_hosts_and_folders_are_those_that_the_operator_allows(started: Any) -> None:
    with rig_of("files") as rig:
        node = started(rig)
        for task in (Task("f", "files", {"path": "/etc", "columns": ["n"]}),
                     Task("m", "mqtt", {"server": "127.0.0.1:1883", "topics": ["a"]}),
                     Task("k", "kafka", {"servers": ["127.0.0.1:9092"], "topics": ["a"]}),
                     Task("p", "postgresql", {
                         "database": "postgresql://a:b@127.0.0.1/c", "table": "t", "column": "id", "columns": ["n"]}),
                     Task("s", "files", {"path": "s3://bucket/a", "endpoint": "127.0.0.1:9000", "columns": ["n"]})):
            seen = node.look(task)
            assert seen.state.state == FAILED and seen.state.code in ("host_not_allowed", "invalid_config"), seen.state
            assert look_store.seen(node.broker, f"{1:032x}", owner="2") is None, "another user sees nothing"
    assert OWNER != "2"
