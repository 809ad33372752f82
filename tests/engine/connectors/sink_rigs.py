"""A system of each kind to write to, with a real server behind it: what the contract suite of sinks takes away, brings
back, and looks into."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import boto3
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from scheduler.model.dataflow import Task
from tests.postgresql import cluster
from workers.processes import spawn, stop

from .rigs import PostgresqlRig

REFUSED = 13  # an event with this number is not taken, where a system can refuse events


class SinkRig(Protocol):
    """A system to write to. ``exact`` where each event is there once whatever dies, else at least once; ``refuses``
    where it may take some events and not others."""

    exact: bool
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

    def break_(self) -> None:
        """Take nothing any more, though it is there; ``mend`` takes it back."""

    def mend(self) -> None:
        """Take events again, refused ones too."""


class Elsewhere:
    """What is not on the node's own disk."""

    def hosted_in(self, data_dir: Path) -> None:
        return


class PostgresqlSink(Elsewhere, PostgresqlRig):
    """A table in a cluster of its own; with ``key`` rows are put in by it."""

    exact, refuses = True, True

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

    def break_(self) -> None:
        self._run(f"alter table {self.name} rename column text to other")

    def mend(self) -> None:
        with psycopg.connect(self.address) as connection:
            names = {row[0] for row in connection.execute(
                "select attname from pg_attribute where attrelid = to_regclass(%s)", (self.name,))}
            if "other" in names:
                connection.execute(f"alter table {self.name} rename column other to text")
            connection.execute(f"alter table {self.name} drop constraint if exists {self.name}_n_check")


SERVER = """
import os, sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


class S3Server:
    """moto's S3, in a process of its own: real HTTP, conditional puts; all in memory."""

    def __init__(self) -> None:
        self._process = spawn(
            [sys.executable, "-c", SERVER, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        port = int(self._process.stdout.readline())
        self.endpoint, self.environment = f"http://127.0.0.1:{port}", {"WEIR_CONNECTOR_HOSTS": f"127.0.0.1:{port}"}
        self.config = {"endpoint": self.endpoint, "access_key": "one", "secret_key": "two"}
        self.client = boto3.client(
            "s3", endpoint_url=self.endpoint, aws_access_key_id="one", aws_secret_access_key="two",
            region_name="us-east-1")

    def leave(self) -> None:
        """Answer nothing: what is under way may be done, or not."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def return_(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        self.return_()
        stop(self._process, timeout_s=1, sig=signal.SIGKILL)


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
        self._taken: list[int] = []

    def task(self, **config: Any) -> Task:
        return Task(f"o{self._bucket}", "to_s3", {
            **self._server.config, "bucket": self.name, "prefix": "a/b", "format": self._format, "every": 0.1, **config})

    def numbers(self) -> Counter[int]:
        counts = Counter(self._taken)
        try:
            found = self._server.client.list_objects_v2(Bucket=self.name, Prefix="a/b/").get("Contents", [])
        except self._server.client.exceptions.NoSuchBucket:
            return counts
        for entry in found:
            body = self._server.client.get_object(Bucket=self.name, Key=entry["Key"])["Body"].read()
            rows = pq.read_table(io.BytesIO(body)).to_pylist() if self._format == "parquet" else [
                json.loads(line) for line in body.splitlines()]
            assert all(row == {"n": row["n"], "text": f"event {row['n']}"} for row in rows)
            counts.update(row["n"] for row in rows)
        return counts

    def break_(self) -> None:
        """Whoever reads the bucket takes what is in it, and the bucket with it."""
        self._taken = list(self.numbers().elements())
        for entry in self._server.client.list_objects_v2(Bucket=self.name).get("Contents", []):
            self._server.client.delete_object(Bucket=self.name, Key=entry["Key"])
        self._server.client.delete_bucket(Bucket=self.name)

    def mend(self) -> None:
        self._server.client.create_bucket(Bucket=self.name)


class DeltaSink:
    """A table in a folder; or, with ``server``, in moto's S3."""

    exact, refuses = True, False

    def __init__(self, server: S3Server | None) -> None:
        self._server, self._table = server, 0
        self.environment = server.environment if server else {}

    def anew(self) -> None:
        self._table += 1
        self._place, self._taken = "", []
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
        assert all(row["text"] == f"event {row['n']}" for row in rows)
        return Counter(self._taken) + Counter(row["n"] for row in rows)

    def leave(self) -> None:
        if self._server is None:
            pytest.skip("a folder of the node's own is not away")
        self._server.leave()

    def return_(self) -> None:
        self._server.return_()

    def break_(self) -> None:
        """The table gets other columns, and loses its rows."""
        self._taken = list(self.numbers().elements())
        self._overwrite(pa.table({"n": pa.array([], pa.int64()), "other": pa.array([], pa.string())}))

    def mend(self) -> None:
        self._overwrite(pa.table({"n": pa.array([], pa.int64()), "text": pa.array([], pa.string())}))

    def _overwrite(self, rows: pa.Table) -> None:
        write_deltalake(self._open(), rows, mode="overwrite", schema_mode="overwrite")

    def close(self) -> None:
        if self._server:
            self._server.close()


@contextmanager
def sink_rig_of(kind: str) -> Iterator[Any]:
    """A rig of that kind, ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="weir-rig-"))  # noqa: F841
    try:
        if kind.startswith("postgresql"):
            with cluster() as address:
                yield PostgresqlSink(address, key=kind.endswith("upsert"))
            return
        rig: Any = S3Sink(kind.removeprefix("s3 ")) if kind.startswith("s3") else DeltaSink(
            S3Server() if kind == "delta s3" else None)
        try:
            yield rig
        finally:
            rig.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
