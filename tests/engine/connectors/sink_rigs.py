"""A system of each kind to write to, with a real server behind it: what the contract suite of sinks takes away, brings
back, and looks into."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import paho.mqtt.client as mqtt
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError
from paho.mqtt.enums import CallbackAPIVersion

from scheduler.model.dataflow import Task
from tests.postgresql import cluster

from .package_rig import PackageRig
from .rigs import KafkaRig, MqttRig, PostgresqlRig
from .s3_server import S3Server

REFUSED = 13  # an event with this number is not taken, where a system can refuse events


class SinkRig(Protocol):
    """A system to write to. ``exact`` where each event is there once whatever dies, else at least once; ``refuses``
    where it may take some events and not others; ``has_types`` where columns have types, which ``alter`` changes."""

    exact: bool
    has_types: bool
    refuses: bool
    environment: dict[str, str]

    def anew(self) -> None:
        """Give the next test something of its own to write to."""

    def hosted_in(self, data_dir: Path) -> None:
        """The host has that data folder."""

    def task(self, **config: Any) -> Task:
        """The task that writes it: n (bigint) and text (string)."""

    def numbers(self) -> Counter[int]:
        """The numbers that are there, and how often."""

    def leave(self) -> None:
        """Be away."""

    def return_(self) -> None:
        """Be there again."""

    def alter(self, change: str) -> None:
        """Change the columns: ``added`` (one more, that may be null), ``widened`` (n has a wider type), ``changed``
        (text is a number), ``back`` (and text again), ``needed`` (one more must have a value), ``left`` (or not)."""

    def break_(self) -> None:
        """Take nothing any more, though it is there; ``mend`` takes it back."""

    def mend(self) -> None:
        """Take events again, refused ones too."""


class Elsewhere:
    """What is not on the node's own disk, and takes whatever columns come."""

    has_types = False

    def hosted_in(self, data_dir: Path) -> None:
        return


class PostgresqlSink(Elsewhere, PostgresqlRig):
    """A table in a cluster of its own; with ``key`` rows are put in by it."""

    exact, refuses, has_types = True, True, True

    def __init__(self, address: str, *, key: bool = False) -> None:
        super().__init__(address)
        self._key = key

    def anew(self) -> None:
        self._table += 1
        self.name = f"sunk{self._table}"
        self._run(f"create table {self.name} (n bigint {'unique' if self._key else ''} check (n <> {REFUSED}), "
                  "text text, at timestamptz default now())")

    def task(self, **config: Any) -> Task:
        return Task(f"p{self._table}", "to_postgresql", {
            "database": self.address, "table": self.name, **({"key": ["n"]} if self._key else {}), **config})

    def numbers(self) -> Counter[int]:
        with psycopg.connect(self.address) as connection:
            rows = connection.execute(f"select n, text from {self.name}").fetchall()
        assert all(text == f"event {n}" for n, text in rows)
        return Counter(n for n, _ in rows)

    def alter(self, change: str) -> None:
        for statement in {
            "added": ["add column more int"], "widened": ["alter column n type numeric"],
            "changed": ["alter column text type bigint using n"],
            "back": ["alter column text type text using 'event ' || n"],
            "needed": ["add column needed int not null default 0", "alter column needed drop default"],
            "left": ["alter column needed drop not null"],
        }[change]:
            self._run(f"alter table {self.name} {statement}")

    def break_(self) -> None:
        self._run(f"alter table {self.name} rename column text to other")

    def mend(self) -> None:
        with psycopg.connect(self.address) as connection:
            names = {row[0] for row in connection.execute(
                "select attname from pg_attribute where attrelid = to_regclass(%s)", (self.name,))}
            if "other" in names:
                connection.execute(f"alter table {self.name} rename column other to text")
            connection.execute(f"alter table {self.name} drop constraint if exists {self.name}_n_check")


class S3Sink(Elsewhere):
    """A bucket of moto's. It takes nothing where there is no bucket of the name."""

    exact, refuses = True, False

    def __init__(self, format: str) -> None:
        self._server, self._format, self._bucket = S3Server(), format, 0
        self.environment = self._server.environment
        self.leave, self.return_, self.close = self._server.leave, self._server.return_, self._server.close

    def anew(self) -> None:
        self._bucket += 1
        self.name = f"city{self._bucket}"
        self._server.client.create_bucket(Bucket=self.name)
        self._taken_numbers: list[int] = []

    def task(self, **config: Any) -> Task:
        return Task(f"o{self._bucket}", "to_s3", {
            **self._server.config, "bucket": self.name, "prefix": "a/b", "format": self._format, "every": 0.1,
            **config})

    def numbers(self) -> Counter[int]:
        counts = Counter(self._taken_numbers)
        try:
            objects = self._server.client.list_objects_v2(Bucket=self.name, Prefix="a/b/").get("Contents", [])
        except self._server.client.exceptions.NoSuchBucket:
            return counts
        for entry in objects:
            body = self._server.client.get_object(Bucket=self.name, Key=entry["Key"])["Body"].read()
            rows = pq.read_table(io.BytesIO(body)).to_pylist() if self._format == "parquet" else [
                json.loads(line) for line in body.splitlines()]
            assert all(row == {"n": row["n"], "text": f"event {row['n']}"} for row in rows)
            counts.update(row["n"] for row in rows)
        return counts

    def break_(self) -> None:
        """Whoever reads the bucket takes what is in it, and the bucket with it."""
        self._taken_numbers = list(self.numbers().elements())
        for entry in self._server.client.list_objects_v2(Bucket=self.name).get("Contents", []):
            self._server.client.delete_object(Bucket=self.name, Key=entry["Key"])
        self._server.client.delete_bucket(Bucket=self.name)

    def mend(self) -> None:
        self._server.client.create_bucket(Bucket=self.name)


class DeltaSink:
    """A table in a folder; or, with ``server``, in moto's S3."""

    exact, refuses, has_types = True, False, True

    def __init__(self, server: S3Server | None) -> None:
        self._server, self._table = server, 0
        self.environment = server.environment if server else {}

    def anew(self) -> None:
        self._table += 1
        self._place, self._taken_numbers = "", []
        if self._server:
            self._server.client.create_bucket(Bucket=f"city{self._table}")
            self._place = f"s3://city{self._table}/tables/sunk"

    def task(self, **config: Any) -> Task:
        where = {"url": self._place, **self._server.config} if self._server else {"folder": f"sunk/{self._table}"}
        return Task(f"d{self._table}", "to_delta", {**where, "every": 0.1, **config})

    def hosted_in(self, data_dir: Path) -> None:
        if not self._server:
            self._place = str(data_dir / "tables" / "sunk" / f"{self._table}-d{self._table}")

    def _open(self) -> DeltaTable:
        return DeltaTable(self._place, storage_options=self._server and {
            "AWS_ENDPOINT_URL": self._server.endpoint, "AWS_ACCESS_KEY_ID": "one", "AWS_SECRET_ACCESS_KEY": "two",
            "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"})

    def numbers(self) -> Counter[int]:
        try:
            rows = self._open().to_pyarrow_table().to_pylist()
        except TableNotFoundError:
            return Counter()
        assert all(row["text"] == f"event {int(row['n'])}" for row in rows)
        return Counter(self._taken_numbers) + Counter(row["n"] for row in rows)

    def delete(self) -> None:
        """The table is gone, with all that was in it."""
        if self._server is None:
            shutil.rmtree(self._place)
            return
        bucket = f"city{self._table}"
        for entry in self._server.client.list_objects_v2(Bucket=bucket).get("Contents", []):
            self._server.client.delete_object(Bucket=bucket, Key=entry["Key"])

    def leave(self) -> None:
        if self._server is None:
            pytest.skip("a folder of the node's own is not away")
        self._server.leave()

    def return_(self) -> None:
        self._server.return_()

    def alter(self, change: str) -> None:
        rows = self._open().to_pyarrow_table().to_pylist()
        types = {field.name: field for field in pa.schema(self._open().schema().to_arrow())}
        types |= {
            "added": {"more": pa.field("more", pa.int64())}, "widened": {"n": pa.field("n", pa.float64())},
            "changed": {"text": pa.field("text", pa.int64())}, "back": {"text": pa.field("text", pa.string())},
            "needed": {"needed": pa.field("needed", pa.int64(), nullable=False)},
            "left": {"needed": pa.field("needed", pa.int64())},
        }[change]
        for row in rows:
            row["text"] = int(row["n"]) if change == "changed" else f"event {int(row['n'])}"
            row.setdefault("needed", 0)
        self._overwrite(pa.Table.from_pylist(rows, pa.schema(list(types.values()))))

    def break_(self) -> None:
        """The table gets other columns, and loses its rows."""
        self._taken_numbers = list(self.numbers().elements())
        self._overwrite(pa.table({"n": pa.array([], pa.int64()), "other": pa.array([], pa.string())}))

    def mend(self) -> None:
        self._overwrite(pa.table({"n": pa.array([], pa.int64()), "text": pa.array([], pa.string())}))

    def _overwrite(self, rows: pa.Table) -> None:
        write_deltalake(self._open(), rows, mode="overwrite", schema_mode="overwrite")

    def close(self) -> None:
        if self._server:
            self._server.close()


class KafkaSink(Elsewhere, KafkaRig):
    """librdkafka's mock cluster. It takes the calls of transactions and forgets what they are for: it shuts no writer
    out, keeps no place with a transaction, and shows what was given up. So nothing is told of exactly once here, but in
    ``test_kafka_transactions.py``."""

    exact, refuses = False, False

    def anew(self) -> None:
        KafkaRig.anew(self)
        self._counts: Counter[int] = Counter()
        self._consumer = Consumer({
            "bootstrap.servers": ",".join(self.servers), "group.id": f"look{self._topic}", "log_level": 0,
            "auto.offset.reset": "earliest"})
        parts = self._producer.list_topics(self.topics[0], timeout=10).topics[self.topics[0]].partitions
        self._consumer.assign([TopicPartition(self.topics[0], part, 0) for part in parts])

    def task(self, **config: Any) -> Task:
        return Task(f"k{self._topic}", "to_kafka", {
            "servers": self.servers, "topic": self.topics[0], "key": "n", **config})

    def numbers(self) -> Counter[int]:
        for message in self._consumer.consume(10_000, timeout=0.2):
            if message.error() is None:
                row = json.loads(message.value())
                assert row["text"] == f"event {row['n']}" and message.key() == str(row["n"]).encode()
                self._counts[row["n"]] += 1
        return Counter(self._counts)

    def break_(self) -> None:
        self.leave()

    def mend(self) -> None:
        self.return_()


class MqttSink(Elsewhere, MqttRig):
    """Mosquitto, and a subscriber with a session."""

    exact, refuses = False, False

    def anew(self) -> None:
        MqttRig.anew(self)
        self._counts: Counter[int] = Counter()
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=f"look{self._topic}", clean_session=False, protocol=mqtt.MQTTv311)
        ready = threading.Event()
        self._client.on_connect = lambda client, *_: client.subscribe(f"sunk{self._topic}/#", qos=1)
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.on_message = self._on_message
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", self.port)
        self._client.loop_start()
        assert ready.wait(20)

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        row = json.loads(message.payload)
        assert message.topic == f"sunk{self._topic}/{row['n']}/new"
        self._counts[row["n"]] += 1

    def task(self, **config: Any) -> Task:
        return Task(f"m{self._topic}", "to_mqtt", {
            "server": f"127.0.0.1:{self.port}", "topic": f"sunk{self._topic}/{{n}}/new", "qos": self.qos,
            "version": self.version, **config})

    def numbers(self) -> Counter[int]:
        return Counter(self._counts)

    def break_(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def mend(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)


class PackageSink(Elsewhere, PackageRig):
    """The sink of ``docs/example_plugin``, and a server of its own that it writes to."""

    exact, refuses = True, False

    def task(self, **config: Any) -> Task:
        return super().task(**config, type="to_redis_stream")

    def numbers(self) -> Counter[int]:
        entries = [] if self._client.type(self.stream) != b"stream" else self._client.xrange(self.stream)
        assert all(fields[b"text"] == b"event " + fields[b"n"] for _, fields in entries)
        return Counter(int(fields[b"n"]) for _, fields in entries)

    def break_(self) -> None:
        if self._client.exists(self.stream):
            self._client.rename(self.stream, f"{self.stream}-aside")
        self._client.set(self.stream, "no stream")

    def mend(self) -> None:
        if self._client.type(self.stream) == b"string":
            self._client.delete(self.stream)
        if self._client.exists(f"{self.stream}-aside"):
            self._client.rename(f"{self.stream}-aside", self.stream)


@contextmanager
def sink_rig_of(kind: str) -> Iterator[Any]:
    """A rig of that kind, ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="weir-rig-"))
    try:
        if kind.startswith("postgresql"):
            with cluster() as address:
                yield PostgresqlSink(address, key=kind.endswith("upsert"))
            return
        rig = _MADE[kind](folder)
        try:
            yield rig
        finally:
            rig.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_MADE: dict[str, Callable[[Path], Any]] = {
    "delta folder": lambda folder: DeltaSink(None),
    "delta s3": lambda folder: DeltaSink(S3Server()),
    "s3 parquet": lambda folder: S3Sink("parquet"),
    "s3 json": lambda folder: S3Sink("json"),
    "kafka": lambda folder: KafkaSink(),
    "of a package": PackageSink,
    "mqtt 5": lambda folder: MqttSink(folder),
    "mqtt 3.1.1": lambda folder: MqttSink(folder, version="3.1.1", qos=2),
}
