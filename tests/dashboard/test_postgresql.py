"""The same tests on PostgreSQL: on a cluster made for them, in a process of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.config.environment import ROOT

WITHOUT_DATABASE = ("test_settings.py", "test_live_protocol.py")
# What locks rows, races for them and rolls back; the long run takes the whole site.
TRANSACTIONS = ("concurrency", "enacting", "reservations", "transitions")
WHOLE_S = 2_400  # within which the whole site's tests end, beside others on slow cores


def binary(name: str) -> str | None:
    """A PostgreSQL program, also where Debian keeps it out of the path; the newest."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(versions[-1]) if versions else shutil.which(name)


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    """A cluster in a folder of its own, reached over a socket there; skipped where PostgreSQL is not installed."""
    initdb, pg_ctl = binary("initdb"), binary("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not installed")
    # PostgreSQL refuses to run as root: Debian's package brings a user for it, who cannot enter pytest's own folders.
    folder = Path(tempfile.mkdtemp(prefix="weir-pg-"))
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if prefix:
        shutil.chown(folder, "postgres")
    data = str(folder / "data")
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c max_connections=50"
    _run(*prefix, initdb, "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8")
    _run(*prefix, pg_ctl, "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgres://postgres:any@{str(folder).replace('/', '%2F')}:5432/postgres"
    finally:
        _run(*prefix, pg_ctl, "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


HERE = Path(__file__).parent
PROFILES = HERE.parent / "profiles"
ON_ITS_OWN = pytest.mark.skipif("DATABASE_URL" in os.environ, reason="this run is already on DATABASE_URL's database")


@pytest.mark.broker
@ON_ITS_OWN
def test_transactions_hold_on_postgresql(database_url: str):
    files = [HERE / f"test_{name}.py" for name in TRANSACTIONS] + [PROFILES / "test_hindrances.py"]
    assert passed_on(database_url, *map(str, files)) > 40


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.timeout(WHOLE_S + 20)
@ON_ITS_OWN
def test_the_sites_tests_pass_on_postgresql(database_url: str):
    left_out = (f"--ignore={HERE / name}" for name in (Path(__file__).name, *WITHOUT_DATABASE))
    assert passed_on(database_url, str(HERE), str(PROFILES), *left_out, within_s=WHOLE_S) > 200


def passed_on(database_url: str, *arguments: str, within_s: float = 880) -> int:
    """How many tests pass in a process of their own; none may fail."""
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments),
        cwd=ROOT, env=os.environ | {"DATABASE_URL": database_url}, capture_output=True, text=True, timeout=within_s)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return int(re.search(r"(\d+) passed", done.stdout)[1])
