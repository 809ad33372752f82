"""Other systems that a source reads and a sink writes: they are given numbers, and say what has come of them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import paho.mqtt.client as mqtt
import psycopg
from paho.mqtt.enums import CallbackAPIVersion

from scheduler.model.fragment import RunningTask
from tests.engine.connectors.rigs import MqttRig
from tests.engine.connectors.s3_server import S3Server
from workers.engine.sealed_secrets import Vault, publish

from .conftest import NODES
from .rig import Hosts, meanwhile

Row = tuple[int, float]  # a number and its sum


class Outside(Protocol):
    """A system.

    ``reads`` is the task that reads it; ``given`` is how many numbers it was given, from 0 on, some more every
    ``every_s``; ``source_again`` and ``sink_again`` are how much of what was under way may come twice after a
    disturbance.
    """

    reads: str
    every_s: float
    given: int
    source_again: int
    sink_again: int

    def source(self) -> RunningTask:
        """The task that reads them."""

    def sink(self) -> RunningTask:
        """The task ``rows``, which writes what comes of ``sums``."""

    def begin(self, hosts: Hosts, out: str) -> None:
        """Give the first number, once somebody reads; and wait until it is in an output."""

    def give(self) -> None:
        """Give the next numbers."""

    def rows(self) -> list[Row]:
        """What was written, in that order."""

    def times_s(self) -> list[float]:
        """When each of these was."""

    def close(self) -> None:
        """End what the test has of it."""


class Database:
    """A table that grows and one that is written: each row once."""

    reads, every_s = "orders", 0.05
    source_again = sink_again = 0
    secret = {"secret": "db", "team": "city"}

    def __init__(self, address: str) -> None:
        self.address, self.given = address, 0
        self._gives = psycopg.connect(address, autocommit=True)
        self._gives.execute("drop table if exists orders, sunk")
        self._gives.execute("create table orders (id bigserial primary key, n bigint)")
        self._gives.execute("create table sunk (place bigserial, n float8, sum float8, "
                            "at timestamptz default clock_timestamp())")

    def source(self) -> RunningTask:
        return RunningTask(self.reads, "postgresql", {
            "database": self.secret, "table": "orders", "column": "id", "columns": ["n:bigint"], "every": 0.1,
            "start": "oldest"}, ())

    def sink(self) -> RunningTask:
        return RunningTask("rows", "to_postgresql", {
            "database": self.secret, "table": "sunk", "columns": ["n", "sum"]}, ("sums",))

    def begin(self, hosts: Hosts, out: str) -> None:
        self.give()
        hosts.wait(lambda: hosts.events(out), what="the first row")

    def give(self) -> None:
        self._gives.execute("insert into orders (n) values (%s)", (self.given,))
        self.given += 1

    def rows(self) -> list[Row]:
        return self._written("n, sum")

    def times_s(self) -> list[float]:
        return [at_s for at_s, in self._written("extract(epoch from at)::float8")]

    def _written(self, columns: str) -> list[tuple]:
        with psycopg.connect(self.address) as connection:
            return connection.execute(f"select {columns} from sunk order by place").fetchall()

    def close(self) -> None:
        self._gives.close()


class Messages:
    """An MQTT server, whose messages of QoS 1 come at least once."""

    reads, every_s = "messages", 0.05
    source_again = 20  # messages that it lets be unacknowledged
    sink_again = 500  # of a batch of the sink

    def __init__(self, folder: Path, port: int) -> None:
        self._server, self.given = MqttRig(folder, port=port), 0
        self._written: list[tuple[Row, float]] = []
        self._publisher, self._reader = self._client("gives"), self._client("looks")
        ready = threading.Event()
        self._reader.on_subscribe = lambda *_: ready.set()
        self._reader.on_message = self._on_message
        self._reader.subscribe("sunk", qos=1)
        assert ready.wait(20)

    def _client(self, name: str) -> mqtt.Client:
        client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv311)
        client.connect("127.0.0.1", self._server.port)
        client.loop_start()
        return client

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        row = json.loads(message.payload)
        self._written.append(((row["n"], row["sum"]), time.time()))

    def source(self) -> RunningTask:
        return RunningTask(self.reads, "mqtt", {
            "server": f"127.0.0.1:{self._server.port}", "topics": ["numbers"], "qos": 1, "columns": ["n:bigint"]}, ())

    def sink(self) -> RunningTask:
        return RunningTask("rows", "to_mqtt", {
            "server": f"127.0.0.1:{self._server.port}", "topic": "sunk", "columns": ["n", "sum"]}, ("sums",))

    def begin(self, hosts: Hosts, out: str) -> None:
        self._give(retain=True)  # for who subscribes later
        hosts.wait(lambda: hosts.events(out), what="the first message")

    def give(self) -> None:
        self._give(retain=False)

    def _give(self, *, retain: bool) -> None:
        message = self._publisher.publish("numbers", json.dumps({"n": self.given}), qos=1, retain=retain)
        message.wait_for_publish(20)
        assert message.is_published()
        self.given += 1

    def rows(self) -> list[Row]:
        return [row for row, _ in self._written]

    def times_s(self) -> list[float]:
        return [at_s for _, at_s in self._written]

    def close(self) -> None:
        for client in (self._publisher, self._reader):
            client.disconnect()
            client.loop_stop()
        self._server.close()


class Bucket:
    """A bucket of S3 where objects are put and others are written: each event once."""

    reads, every_s = "objects", 0.25
    source_again = sink_again = 0
    each = 5  # numbers of an object

    def __init__(self, port: int) -> None:
        self._server, self.given, self._objects = S3Server(port), 0, 0
        self._written: list[tuple[Row, float]] = []
        self._newest = ""  # object that was looked into
        self._server.client.create_bucket(Bucket="city")

    def source(self) -> RunningTask:
        return RunningTask(self.reads, "files", {
            **self._server.config, "endpoint": self._server.endpoint.removeprefix("http://"), "tls": False,
            "path": "s3://city/in", "columns": ["n:bigint"], "start": "oldest", "every": 0.5}, ())

    def sink(self) -> RunningTask:
        return RunningTask("rows", "to_s3", {
            **self._server.config, "bucket": "city", "prefix": "out", "format": "json", "columns": ["n", "sum"],
            "every": 0.5}, ("sums",))

    def begin(self, hosts: Hosts, out: str) -> None:
        self.give()
        hosts.wait(lambda: hosts.events(out), what="the first object")

    def give(self) -> None:
        lines = (json.dumps({"n": n}) for n in range(self.given, self.given + self.each))
        self._server.client.put_object(Bucket="city", Key=f"in/{self._objects:06}.ndjson", Body="\n".join(lines))
        self.given, self._objects = self.given + self.each, self._objects + 1

    def rows(self) -> list[Row]:
        self._look()
        return [row for row, _ in self._written]

    def times_s(self) -> list[float]:
        return [at_s for _, at_s in self._written]

    def _look(self) -> None:
        """Look into the objects that are new; they come in the order of their names, and none changes."""
        listed = self._server.client.list_objects_v2(Bucket="city", Prefix="out/", StartAfter=self._newest)
        for entry in listed.get("Contents", ()):
            body = self._server.client.get_object(Bucket="city", Key=entry["Key"])["Body"].read()
            rows = [json.loads(line) for line in body.splitlines()]
            self._written += [((row["n"], row["sum"]), entry["LastModified"].timestamp()) for row in rows]
            self._newest = entry["Key"]

    def close(self) -> None:
        self._server.close()


@contextmanager
def growing(outside: Outside) -> Iterator[None]:
    """Numbers are given meanwhile."""
    with meanwhile(outside.give, every_s=outside.every_s):
        yield


@contextmanager
def outside_of(
    kind: str, hosts: Hosts, ports: Mapping[str, int], folder: Path, address: Callable[[], str]
) -> Iterator[Outside]:
    """A system of one of these kinds: ``mqtt``, ``s3``, or ``postgresql`` with its address as a secret of the nodes."""
    if kind == "mqtt":
        outside: Outside = Messages(folder, ports["mqtt"])
    elif kind == "s3":
        outside = Bucket(ports["s3"])
    else:
        node = hosts.nodes[NODES[0]]
        publish(hosts.broker, {"city/db": Vault(node.data_dir, node.environment).seal(address())})
        outside = Database(address())
    with closing(outside):
        yield outside
