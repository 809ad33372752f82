"""Whatever moment of its preparation a start is killed at, the next one goes on from there."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from django.contrib.auth.hashers import check_password

from .waiting import ROOT, wait_until


def prepare(data_dir: Path, *options: str) -> subprocess.Popen[str]:
    variables = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return subprocess.Popen(
        (sys.executable, "-P", str(ROOT / "manage.py"), "prepare", *options),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**variables, "WEIR_DATA_DIR": str(data_dir)})


def tables(data_dir: Path) -> int:
    """How many the database has by now."""
    try:
        with closing(sqlite3.connect(f"file:{data_dir / 'weir.sqlite3'}?mode=ro", uri=True)) as database:
            return database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
    except sqlite3.OperationalError:  # not there yet, or just being written
        return 0


# In their order: each start begins with what the one before it has left.
MOMENTS: dict[str, Callable[[Path], bool]] = {
    "while files are collected": lambda data_dir: any((data_dir / "static").rglob("*.js")),
    "when they are collected": lambda data_dir: (data_dir / "static" / ".collected").exists(),
    "when the database has its first tables": lambda data_dir: tables(data_dir) > 0,
    "in the middle of the migrations": lambda data_dir: tables(data_dir) > 20,
    "when passwords are written and people are not": lambda data_dir: (data_dir / "logins.json").exists(),
}


def until_it_comes(has_come: Callable[[Path], bool], data_dir: Path, process: subprocess.Popen[str]) -> None:
    wait_until(lambda: has_come(data_dir) or process.poll() is not None, limit_s=300)


@pytest.mark.long
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_a_start_that_was_killed_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker_url: str
) -> None:
    monkeypatch.setenv("REDIS_URL", broker_url)
    for moment, has_come in MOMENTS.items():
        process = prepare(tmp_path, "--migrate")
        until_it_comes(has_come, tmp_path, process)
        process.kill()
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (0, -9), f"{moment}: {errors}"
    process = prepare(tmp_path)
    lines, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    with closing(sqlite3.connect(tmp_path / "weir.sqlite3")) as database:
        hashes = dict(database.execute("SELECT username, password FROM teams_user"))
    logins = json.loads((tmp_path / "logins.json").read_text())
    assert {login["username"] for login in logins} == set(hashes) and "dataflow" in lines
    assert all(check_password(login["password"], hashes[login["username"]]) for login in logins)
    manifest = json.loads((tmp_path / "static" / "staticfiles.json").read_text())
    assert all((tmp_path / "static" / name).exists() for name in manifest["paths"].values())
    again = prepare(tmp_path)
    lines, errors = again.communicate(timeout=300)
    assert (again.returncode, lines.splitlines()) == (0, ["node n1 with 2 slots"]), errors
