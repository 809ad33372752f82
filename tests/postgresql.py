"""A PostgreSQL cluster for tests, made and ended by them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.benches.services import NotInstalled, postgresql_program


@contextmanager
def cluster(
    *, folder: Path | None = None, certificate: str = "", private_key: str = "", port: int = 5432
) -> Iterator[str]:
    """The address of a cluster in a folder of its own, reached over a socket; skips where PostgreSQL is not there.

    With a certificate (PEM) it speaks TLS on that port of 127.0.0.1, too. A folder that is given is empty, and goes.
    """
    try:
        initdb, pg_ctl = postgresql_program("initdb"), postgresql_program("pg_ctl")
    except NotInstalled as error:
        pytest.skip(f"PostgreSQL is optional: {error}")
    # PostgreSQL refuses to run as root: Debian's package brings a user for it, who cannot enter pytest's own folders.
    folder = folder or Path(tempfile.mkdtemp(prefix="weir-pg-"))
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if prefix:
        shutil.chown(folder, "postgres")
        folder.chmod(0o755)  # its socket is for other users, too: looks run as one
    data = str(folder / "data")
    options = (
        f"-c listen_addresses={'127.0.0.1' if certificate else ''} -c port={port} -c unix_socket_directories={folder} "
        f"-c fsync=off -c max_connections=50")
    _run(*prefix, initdb, "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8")
    if certificate:
        for name, text in (("server.crt", certificate), ("server.key", private_key)):
            path = folder / "data" / name
            path.write_text(text)
            path.chmod(0o600)
            if prefix:
                shutil.chown(path, "postgres")
        options += " -c ssl=on"
    _run(*prefix, pg_ctl, "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgres://postgres:any@{str(folder).replace('/', '%2F')}:{port}/postgres"
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            _run(*prefix, pg_ctl, "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


class Standby:
    """A standby of a cluster, which has what its primary commits before the primary says so."""

    def __init__(self, folder: Path, primary: Path, *, port: int) -> None:
        self._folder, self._primary, self._port = folder, primary, port
        self._prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        self._socket = f"-h {primary} -p {port} -U postgres"
        self._programs = {name: postgresql_program(name) for name in ("pg_basebackup", "pg_ctl", "psql")}
        self._call("pg_basebackup", "-D", str(folder / "data"), "-R", "-c", "fast", *self._socket.split())
        self._control(
            folder, "-l", str(folder / "log"), "start", "-o",
            f"-c listen_addresses= -c port={port} -c unix_socket_directories={folder} -c fsync=off")
        self._say("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self._say("SELECT pg_reload_conf()")
        self._say("CREATE TABLE waited ()")  # returns when the standby has it

    def kill_primary(self) -> None:
        """End the primary as its machine's end would."""
        self._control(self._primary, "-m", "immediate", "stop")

    def promote(self) -> None:
        """Make this the primary."""
        self._control(self._folder, "promote")

    def stop(self) -> None:
        self._control(self._folder, "-m", "immediate", "stop")

    def _say(self, sql: str) -> None:
        self._call("psql", *self._socket.split(), "-c", sql)

    def _control(self, folder: Path, *arguments: str) -> None:
        self._call("pg_ctl", "-w", "-t", "240", "-D", str(folder / "data"), *arguments)

    def _call(self, program: str, *arguments: str) -> None:
        _run(*self._prefix, self._programs[program], *arguments)


@contextmanager
def with_standby() -> Iterator[tuple[str, Standby]]:
    """The address of a primary and its standby, and the standby; skips where PostgreSQL is not there."""
    folder = Path(tempfile.mkdtemp(prefix="weir-pg-"))
    with cluster() as address:
        primary = Path(unquote(urlsplit(address).netloc.rpartition("@")[2].rpartition(":")[0]))
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        standby = Standby(folder, primary, port=5432)
        try:
            yield address.removesuffix("/postgres") + (
                f",{str(folder).replace('/', '%2F')}:5432/postgres"), standby
        finally:
            standby.stop()
            shutil.rmtree(folder)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
