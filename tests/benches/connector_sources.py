"""Live sources for the measurement of connectors: what brings events to each, and what reads as many with the client
library alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from .brokers import kafka_cluster, mqtt_broker, send_kafka, send_mqtt
from .connector_sinks import inbox_lines
from .services import database

COLUMNS = ("n:bigint", "text")


@dataclass(frozen=True)
class Kind:
    """A kind of source: the config of one by its number, what brings events to it, what reads them with the client
    library alone, and settings of the agent."""

    name: str
    config: Callable[[int], dict[str, Any]]
    send: Callable[[int, Sequence[int]], None]
    read_alone: Callable[[int, int], None]
    settings: dict[str, str]


def bodies(numbers: Sequence[int]) -> list[bytes]:
    """Messages of these numbers: about 50 bytes of JSON each."""
    return [json.dumps({"n": number, "text": f"event {number} of a measurement"}).encode() for number in numbers]


@contextmanager
def kafka() -> Iterator[Kind]:
    """Kafka, as librdkafka's mock cluster plays it."""
    from confluent_kafka import Consumer, TopicPartition

    with kafka_cluster() as servers:
        def read_alone(source: int, events: int) -> None:
            consumer = Consumer({
                "bootstrap.servers": ",".join(servers), "group.id": "alone", "enable.auto.commit": False})
            part = TopicPartition(f"topic{source}", 0)
            _, end = consumer.get_watermark_offsets(part, timeout=10)
            consumer.assign([TopicPartition(part.topic, 0, end - events)])
            left = events
            while left > 0:
                left -= len(consumer.consume(2000, timeout=0.1))
            consumer.close()

        yield Kind(
            "kafka", lambda source: {
                "servers": tuple(servers), "topics": (f"topic{source}",), "start": "oldest", "columns": COLUMNS},
            lambda source, numbers: send_kafka(servers, f"topic{source}", bodies(numbers)), read_alone,
            {"WEIR_CONNECTOR_HOSTS": ",".join(servers)})


@contextmanager
def mqtt() -> Iterator[Kind]:
    """MQTT 5 with QoS 1, as mosquitto speaks it."""
    from paho.mqtt import client as paho

    with mqtt_broker() as port:
        def read_alone(source: int, events: int) -> None:
            client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="alone", clean_session=False)
            left = events

            def on_message(*_: Any) -> None:
                nonlocal left
                left -= 1

            client.on_message = on_message
            client.connect("127.0.0.1", port)
            client.subscribe(f"topic{source}", qos=1)
            while left > 0:
                client.loop(0.1)
            client.disconnect()

        def send(source: int, numbers: Sequence[int]) -> None:
            waiting = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id="alone", clean_session=False)
            waiting.connect("127.0.0.1", port)  # its session keeps what comes while it is away
            waiting.subscribe(f"topic{source}", qos=1)
            for _ in range(20):
                waiting.loop(0.01)
            waiting.disconnect()
            send_mqtt(port, f"topic{source}", bodies(numbers))

        yield Kind(
            "mqtt", lambda source: {
                "server": f"127.0.0.1:{port}", "topics": (f"topic{source}",), "qos": 1, "columns": COLUMNS},
            send, read_alone, {"WEIR_CONNECTOR_HOSTS": f"127.0.0.1:{port}"})


@contextmanager
def postgresql() -> Iterator[Kind]:
    """A table of PostgreSQL."""
    with database(rows=1) as (address, _):
        def send(source: int, numbers: Sequence[int]) -> None:
            with psycopg.connect(address) as connection, connection.cursor() as cursor:
                cursor.execute(f"create table if not exists t{source} (id bigserial primary key, n bigint, text text)")
                with cursor.copy(f"copy t{source} (n, text) from stdin") as copy:
                    for number in numbers:
                        copy.write_row((number, f"event {number} of a measurement"))

        def read_alone(source: int, events: int) -> None:
            with psycopg.connect(address) as connection:
                after, left = 0, events
                while left > 0:
                    rows = connection.execute(
                        f"select id, n, text from t{source} where id > %s order by id limit 2000", (after,)).fetchall()
                    after, left = rows[-1][0], left - len(rows)

        yield Kind(
            "postgresql", lambda source: {
                "database": address, "table": f"t{source}", "column": "id", "start": "oldest", "columns": COLUMNS},
            send, read_alone, {"WEIR_DATABASE_HOSTS": "127.0.0.1"})


@contextmanager
def files() -> Iterator[Kind]:
    """Files of JSON lines in a folder; Python alone reads their lines."""
    with TemporaryDirectory(prefix="weir-inbox-") as folder:
        inbox = Path(folder)

        def send(source: int, numbers: Sequence[int]) -> None:
            (inbox / f"f{source}").mkdir(exist_ok=True)
            inbox_lines(inbox / f"f{source}", f"{time.time_ns()}.jsonl", numbers)

        def read_alone(source: int, events: int) -> None:
            newest = max((inbox / f"f{source}").glob("*.jsonl"), key=lambda path: path.name)
            with newest.open("rb") as lines:
                count = sum(1 for _ in lines)
            if count != events:
                raise RuntimeError(f"{newest.name} has {count} lines")

        yield Kind(
            "files", lambda source: {
                "path": f"f{source}", "format": "ndjson", "start": "oldest", "every": 1, "columns": COLUMNS},
            send, read_alone, {"WEIR_INBOX_DIRS": folder})


KINDS = {"files": files, "kafka": kafka, "mqtt": mqtt, "postgresql": postgresql}
