"""The services that the tasks of a measurement ask, on this machine: an object store and a PostgreSQL table.

Both answer after a set time. Whoever waits for them takes no CPU, and they take next to none themselves.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from workers.engine.worker_settings import ROOT
from workers.launcher.broker import free_port
from workers.processes import spawn, stop

PATIENCE_S = 60.0
CONNECTIONS = 300


class NotInstalled(RuntimeError):
    """A program that a measurement needs is not there."""


@contextmanager
def object_store(*, service_s: float, size: int) -> Iterator[tuple[str, int]]:
    """An object store; its address and its process."""
    process = spawn(
        [sys.executable, "-m", "tests.benches.object_store", "--service-ms", f"{1000 * service_s:g}", "--bytes",
         str(size)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        address = process.stdout.readline().decode().strip()
        if not address:
            raise RuntimeError("the object store did not start")
        yield address, process.pid
    finally:
        process.stdin.close()
        stop(process, timeout_s=2)


@contextmanager
def database(*, rows: int) -> Iterator[tuple[str, int]]:
    """A PostgreSQL cluster of its own with a table ``places`` (key, name, height); its address and its process.

    Raises
    ------
    NotInstalled
        PostgreSQL's programs are not there.
    """
    initdb, postgres = postgresql_program("initdb"), postgresql_program("postgres")
    # PostgreSQL refuses to run as root: Debian's package brings a user for it. The kernel forgets at a change of users
    # that the server is to end with this process, and is told again.
    folder = Path(tempfile.mkdtemp(prefix="weir-pg-"))
    prefix = [
        "setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=INT",
    ] if os.geteuid() == 0 else []
    if prefix:
        shutil.chown(folder, "postgres")
    port = free_port()
    address = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    made = subprocess.run(
        [*prefix, initdb, "-D", str(folder / "data"), "-U", "postgres", "--auth=trust", "--encoding=UTF8",
         "--locale=C.UTF-8", "--no-sync"], capture_output=True, text=True, cwd="/")
    if made.returncode:
        raise RuntimeError(made.stderr)
    server = spawn([
        *prefix, postgres, "-D", str(folder / "data"), "-c", "listen_addresses=127.0.0.1", "-c", f"port={port}",
        "-c", f"unix_socket_directories={folder}", "-c", "fsync=off", "-c", f"max_connections={CONNECTIONS}",
        "-c", "jit=off", "-c", "shared_buffers=32MB",
    ], cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _fill(address, rows=rows)
        yield address, server.pid
    finally:
        stop(server, timeout_s=5)
        shutil.rmtree(folder, ignore_errors=True)


def _fill(address: str, *, rows: int) -> None:
    with _connected(address) as connection:
        connection.execute("create table places (key bigint primary key, name text, height double precision)")
        connection.execute(
            "insert into places select n, 'place ' || n, n * 0.5 from generate_series(0, %s) as n", (rows - 1,))


def _connected(address: str) -> psycopg.Connection:
    """A connection, once the server takes it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return psycopg.connect(address, connect_timeout=2)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def postgresql_program(name: str) -> str:
    """A PostgreSQL program, also where Debian keeps it out of the path; the newest.

    Raises
    ------
    NotInstalled
        Where this machine has no PostgreSQL server.
    """
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    program = str(versions[-1]) if versions else shutil.which(name)
    if program is None:
        raise NotInstalled(f"This needs a PostgreSQL server, and {name} is not installed: apt install postgresql")
    return program


def until_open(port: int) -> None:
    """Wait until somebody listens on a port of the loopback address; TimeoutError after a minute."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody listens on port {port}")
        time.sleep(0.02)
