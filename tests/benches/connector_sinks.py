"""Sinks for the measurement of connectors: what each writes to, and the same events with the client library alone.

A sink's channel is filled as a query of a slot fills it, in blocks of 500 events; the host writes them. What the query
itself takes is measured elsewhere (``./weir bench engine``).
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import redis

from workers.engine.channels import block_codec, keys, scripts
from workers.engine.channels.channel_registry import Channels
from workers.engine.connectors.formats import MessageLayout
from workers.engine.sinks.rows import json_lines
from workers.processes import spawn, stop

from .brokers import kafka_cluster, mqtt_broker
from .services import NotInstalled, database

BLOCK = 500  # events
BATCH = 10_000  # events that the client library alone writes at a time, as a sink's batch has at most
UNDER_WAY = 20  # messages of MQTT, as the sink has
MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class SinkKind:
    """A kind of sink: its config, what writes the same events with the client library alone, settings of the host."""

    name: str
    config: dict[str, Any]
    write_alone: Callable[[pa.Table], None]
    settings: dict[str, str]


def events(numbers: Sequence[int]) -> pa.Table:
    """Events of these numbers, as a query publishes them."""
    now_ms = time.time_ns() // 1_000_000
    return pa.table({
        "_seq": pa.array(numbers, pa.int64()), "_time": pa.array([now_ms] * len(numbers), pa.int64()),
        "_born": pa.array([now_ms] * len(numbers), pa.int64()), "n": pa.array(numbers, pa.int64()),
        "text": pa.array([f"event {n} of a measurement" for n in numbers])})


class FilledChannel:
    """The channel of a sink, written as its query writes it.

    Parameters
    ----------
    broker : redis.Redis
        A client that does not decode responses.
    channel : str
        Its name.
    """

    def __init__(self, broker: redis.Redis, channel: str) -> None:
        self._broker, self._channel, channels = broker, channel, Channels(broker)
        layout = MessageLayout("json", {"n": "bigint", "text": "string"}, time_field=None)
        channels.open_channel(channel, schema_json=layout.schema_json)
        channels.join(channel, keys.SINK)
        self._fence, self._batch, self._count = channels.take_fence(channel), 0, 0

    def fill(self, count: int) -> int:
        """So many events more; how many there are now."""
        names = [key(self._channel) for key in (keys.channel, keys.meta, keys.readers)]
        end = self._count + count
        for start in range(self._count, end, BLOCK):
            rows = events(range(start, min(start + BLOCK, end)))
            self._batch += 1
            scripts.run(self._broker, "write", names, [
                self._fence, self._batch, 0, rows.num_rows,
                block_codec.encode_block(rows.combine_chunks().to_batches()[0]),
                time.time_ns() // 1_000_000])
        self._count = end
        return end


def _batches(rows: pa.Table) -> Iterator[pa.Table]:
    rows = rows.select(["n", "text"])
    for start in range(0, rows.num_rows, BATCH):
        yield rows.slice(start, BATCH)


@contextmanager
def to_postgresql() -> Iterator[SinkKind]:
    """A table, appended to; psycopg alone copies as many rows into another, a transaction a batch."""
    with database(rows=1) as (address, _):
        with psycopg.connect(address) as connection:
            connection.execute("create table sunk (n bigint, text text)")
            connection.execute("create table alone (n bigint, text text)")

        def write_alone(rows: pa.Table) -> None:
            with psycopg.connect(address) as connection:
                for batch in _batches(rows):
                    with connection.transaction(), connection.cursor() as cursor, cursor.copy(
                            "copy alone (n, text) from stdin") as copy:
                        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                            copy.write_row(values)

        yield SinkKind("to_postgresql", {"database": address, "table": "sunk"}, write_alone,
                       {"WEIR_DATABASE_HOSTS": "127.0.0.1"})


@contextmanager
def to_delta() -> Iterator[SinkKind]:
    """A table in a folder; deltalake alone appends as many rows to another, a commit a batch."""
    from tempfile import TemporaryDirectory

    from deltalake import write_deltalake

    with TemporaryDirectory(prefix="weir-delta-") as folder:
        yield SinkKind(
            "to_delta", {"folder": "sunk", "every": 0.1},
            lambda rows: [write_deltalake(folder, batch, mode="append") for batch in _batches(rows)] and None, {})


@contextmanager
def to_s3() -> Iterator[SinkKind]:
    """Parquet objects in a bucket of moto's; obstore alone puts as many rows, an object a batch."""
    import pyarrow.parquet as pq

    with _moto() as port:
        access = {"endpoint": f"http://127.0.0.1:{port}", "access_key": "one", "secret_key": "two"}
        store = _bucket(access["endpoint"], "sunk")

        def write_alone(rows: pa.Table) -> None:
            import obstore

            for number, batch in enumerate(_batches(rows)):
                body = io.BytesIO()
                pq.write_table(batch, body)
                obstore.put(store, f"alone/{time.time_ns()}-{number}", body.getvalue())

        yield SinkKind("to_s3", {"bucket": "sunk", "prefix": "a", "every": 0.1, **access}, write_alone,
                       {"WEIR_CONNECTOR_HOSTS": f"127.0.0.1:{port}"})


@contextmanager
def to_kafka() -> Iterator[SinkKind]:
    """A topic of librdkafka's mock, which keeps nothing of a transaction; the producer alone sends as many messages."""
    from confluent_kafka import Producer

    with kafka_cluster() as servers:
        producer = Producer({"bootstrap.servers": ",".join(servers), "log_level": 0})
        for topic in ("sunk", "alone"):
            producer.list_topics(topic, timeout=10)

        def write_alone(rows: pa.Table) -> None:
            for batch in _batches(rows):
                for body in json_lines(batch):
                    producer.produce("alone", body)
                    producer.poll(0)
                producer.flush(60)

        yield SinkKind("to_kafka", {"servers": tuple(servers), "topic": "sunk"}, write_alone,
                       {"WEIR_CONNECTOR_HOSTS": ",".join(servers)})


@contextmanager
def to_mqtt() -> Iterator[SinkKind]:
    """Topics of mosquitto, QoS 1; paho alone publishes as many messages, as many of them under way."""
    from paho.mqtt import client as paho

    with mqtt_broker() as port:
        def write_alone(rows: pa.Table) -> None:
            client = paho.Client(paho.CallbackAPIVersion.VERSION2)
            client.max_inflight_messages_set(UNDER_WAY)
            client.connect("127.0.0.1", port)
            for batch in _batches(rows):  # paho holds 65,535 messages at most
                sent = [client.publish("alone", body, qos=1) for body in json_lines(batch)]
                while not all(message.is_published() for message in sent[-UNDER_WAY:]):
                    client.loop(0.1)
            client.disconnect()

        yield SinkKind("to_mqtt", {"server": f"127.0.0.1:{port}", "topic": "sunk"}, write_alone,
                       {"WEIR_CONNECTOR_HOSTS": f"127.0.0.1:{port}"})


SINKS = {"to_postgresql": to_postgresql, "to_delta": to_delta, "to_s3": to_s3, "to_kafka": to_kafka,
         "to_mqtt": to_mqtt}


@contextmanager
def _moto() -> Iterator[int]:
    """The port of an S3 server of a process of its own."""
    process = spawn([sys.executable, "-c", MOTO], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL)
    try:
        line = process.stdout.readline()
        if not line:
            raise NotInstalled("This needs an S3 server: pip install 'moto[s3]' flask flask-cors")
        yield int(line)
    finally:
        stop(process, timeout_s=1)


def _bucket(endpoint: str, name: str) -> Any:
    """A bucket, made there."""
    from urllib.request import Request, urlopen

    from obstore.store import S3Store

    urlopen(Request(f"{endpoint}/{name}", method="PUT"), timeout=10).close()
    return S3Store(name, endpoint=endpoint, region="us-east-1", access_key_id="one", secret_access_key="two",
                   client_options={"allow_http": True})


def inbox_lines(folder: Path, name: str, numbers: Sequence[int]) -> None:
    """A file with a JSON line an event, written beside its place and moved there."""
    hidden = folder / f".{name}"
    hidden.write_text("".join(
        json.dumps({"n": number, "text": f"event {number} of a measurement"}) + "\n" for number in numbers))
    hidden.replace(folder / name)
