"""A source of each kind with a real server behind it: what the contract suite fills, takes away and brings back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from scheduler.model.dataflow import Task
from tests.benches.brokers import MOCK_OF_KAFKA
from tests.benches.services import postgresql_program, until_open
from tests.postgresql import cluster
from workers.launcher.broker import free_port
from workers.processes import spawn, stop

from .file_rigs import BucketRig, FolderRig
from .package_rig import PackageRig
from .rig import COLUMNS, event


class KafkaRig:
    """librdkafka's mock cluster: real sockets and the real protocol; no log on disk, no transactions, no retention."""

    exact, takes_garbage = True, True

    def __init__(self) -> None:
        from confluent_kafka import Producer

        self._process = spawn(
            [sys.executable, "-c", MOCK_OF_KAFKA], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None)
        self.servers = self._process.stdout.readline().decode().strip().split(",")
        self.environment = {"WEIR_CONNECTOR_HOSTS": ",".join(self.servers)}
        self._producer = Producer({"bootstrap.servers": ",".join(self.servers), "log_level": 0})
        self.topics: list[str] = []
        self._topic = 0

    def anew(self) -> None:
        """A topic of its own for a test."""
        self._topic += 1
        self.topics = [f"orders{self._topic}"]
        self._producer.list_topics(self.topics[0], timeout=10)  # the mock makes a topic that is asked for

    def task(self, **config: Any) -> Task:
        return Task(f"k{self._topic}", "kafka", {
            "servers": self.servers, "topics": self.topics, "columns": COLUMNS, "start": "oldest", **config})

    def produce(self, *bodies: bytes) -> None:
        for body in bodies:
            self._producer.produce(self.topics[0], body, partition=0)
        assert self._producer.flush(20) == 0

    def send(self, numbers: Sequence[int]) -> None:
        self.produce(*(json.dumps(event(number)).encode() for number in numbers))

    def send_garbage(self) -> None:
        self.produce(b"{no json")

    def send_other(self, number: int) -> None:
        self.produce(json.dumps({"n": str(number), "more": [1]}).encode())

    def leave(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def return_(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        self.return_()
        stop(self._process, timeout_s=1, sig=signal.SIGKILL)


class MqttRig:
    """Mosquitto, its sessions kept on disk."""

    exact, takes_garbage = False, True

    def __init__(
        self, folder: Path, *, version: str = "5", qos: int = 1, more: str = "", port: int | None = None
    ) -> None:
        program = next((path for name in ("mosquitto", "/usr/sbin/mosquitto") if (path := shutil.which(name))), None)
        if program is None:
            pytest.skip("mosquitto is not installed: apt-get install mosquitto")
        self.port = port or free_port()
        self._config = folder / "mosquitto.conf"
        self._config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\nautosave_interval 1\n"
            f"persistence_location {folder}/\nmax_queued_messages 100000\n"
            + ("user root\n" if os.geteuid() == 0 else "") + more)
        self._program, self._log = program, folder / "mosquitto.log"
        self.version, self.qos = version, qos
        self.environment = {"WEIR_CONNECTOR_HOSTS": f"127.0.0.1:{self.port}"}
        self._process: Any = None
        self._topic = 0
        self.return_()

    def anew(self) -> None:
        """A topic and a session of their own for a test."""
        self._topic += 1

    def task(self, **config: Any) -> Task:
        return Task(f"m{self._topic}", "mqtt", {
            "server": f"127.0.0.1:{self.port}", "topics": [f"orders{self._topic}/#"], "qos": self.qos,
            "version": self.version, "columns": COLUMNS, **config})

    def publish(self, *bodies: bytes) -> None:
        from paho.mqtt import publish

        publish.multiple(
            [{"topic": f"orders{self._topic}/new", "payload": body, "qos": self.qos} for body in bodies],
            hostname="127.0.0.1", port=self.port)

    def send(self, numbers: Sequence[int]) -> None:
        self.publish(*(json.dumps(event(number)).encode() for number in numbers))

    def send_garbage(self) -> None:
        self.publish(b"{no json")

    def send_other(self, number: int) -> None:
        self.publish(json.dumps({"n": str(number), "more": [1]}).encode())

    def leave(self) -> None:
        stop(self._process, timeout_s=5)

    def return_(self) -> None:
        with self._log.open("ab") as log:
            self._process = spawn([self._program, "-c", str(self._config)], stdout=log)
        until_open(self.port)

    def close(self) -> None:
        stop(self._process, timeout_s=2)


class PostgresqlRig:
    """A table in a cluster of its own."""

    exact, takes_garbage = True, True

    def __init__(self, address: str) -> None:
        self.address = address
        self._folder = Path(address.partition("@")[2].partition(":")[0].replace("%2F", "/"))
        self.environment = {"WEIR_DATABASE_HOSTS": str(self._folder).lower()}
        self._table = 0

    def anew(self) -> None:
        """A table of its own for a test."""
        self._table += 1
        self._run("drop table if exists orders")
        self._run("create table orders (id bigserial primary key, n text, text text, more text)")

    def task(self, **config: Any) -> Task:
        return Task(f"p{self._table}", "postgresql", {
            "database": self.address, "table": "orders", "column": "id", "columns": COLUMNS, "every": 0.1,
            "start": "oldest", **config})

    def _run(self, statement: str, *values: Any) -> None:
        with psycopg.connect(self.address) as connection:
            connection.execute(statement, values)

    def send(self, numbers: Sequence[int]) -> None:
        with psycopg.connect(self.address) as connection, connection.cursor() as cursor:
            cursor.executemany(
                "insert into orders (n, text) values (%s, %s)", [(str(n), event(n)["text"]) for n in numbers])

    def send_garbage(self) -> None:
        self._run("insert into orders (n, text) values ('none', 'such')")

    def send_other(self, number: int) -> None:
        self._run("alter table orders add column if not exists later text")
        self._run("insert into orders (n, later) values (%s, 'new')", str(number))

    def leave(self) -> None:
        self._control("-m", "immediate", "stop")

    def return_(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c fsync=off -c max_connections=50"
        self._control("-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def _control(self, *arguments: str) -> None:
        prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        done = subprocess.run(
            [*prefix, postgresql_program("pg_ctl"), "-D", str(self._folder / "data"), *arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, cwd="/")
        assert done.returncode == 0

    def close(self) -> None:
        return


_SIMPLE = {"kafka": lambda _: KafkaRig(), "files": FolderRig, "files of S3": BucketRig,
           "of a package": PackageRig}


@contextmanager
def rig_of(kind: str) -> Iterator[Any]:
    """A rig of that kind, ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="weir-rig-"))
    if kind == "postgresql":
        with cluster() as address:
            yield PostgresqlRig(address)
        return
    rig = _SIMPLE[kind](folder) if kind in _SIMPLE else MqttRig(
        folder, version="3.1.1" if kind == "mqtt 3.1.1" else "5", qos=2 if kind.endswith("QoS 2") else 1)
    try:
        yield rig
    finally:
        rig.close()
        shutil.rmtree(folder, ignore_errors=True)


def take(reader: Any, count: int) -> list[Any]:
    """The messages that come, as soon as there are so many."""
    messages: list[Any] = []
    for _ in range(50):
        messages += reader.poll(0.2).messages
        reader.written()
        if len(messages) >= count:
            break
    return messages
