"""The data folder: this user's alone, whoever made it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launcher.waiting import ROOT
from tests.small_disk import fill, small_disk
from workers.launcher import state_folder
from workers.launcher.state_folder import CannotStart


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    made.chmod(0o755)
    return made


def test_a_new_folder_is_closed_to_others(tmp_path: Path):
    with state_folder.lock(tmp_path / "new" / "data"):
        assert mode(tmp_path / "new" / "data") == 0o700


@pytest.mark.parametrize("holds", [(), ("lock", "secret_key", "weir.sqlite3"), ("replay",)])
def test_a_folder_that_was_there_is_closed(folder: Path, holds: tuple[str, ...]):
    for name in holds:
        (folder / name).touch()
    with state_folder.lock(folder):
        assert mode(folder) == 0o700


@pytest.mark.parametrize(("holds", "bits"), [(("letters.txt",), 0o755), ((), 0o1777), (("lock",), 0o1777)])
def test_a_folder_of_others_is_refused_and_left_as_it_is(folder: Path, holds: tuple[str, ...], bits: int):
    for name in holds:
        (folder / name).touch()
    folder.chmod(bits)
    with pytest.raises(CannotStart, match="chmod 700"):
        state_folder.lock(folder)
    assert mode(folder) == bits and {path.name for path in folder.iterdir()} == set(holds)


def test_one_that_is_not_ours_to_close_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "chmod", lambda self, bits: (_ for _ in ()).throw(PermissionError()))
    with pytest.raises(CannotStart, match="its owner"):
        state_folder.lock(folder)


@pytest.mark.parametrize("bits", [0o700, 0o710])
def test_a_command_leaves_slots_their_way_through_the_folder(folder: Path, bits: int, monkeypatch: pytest.MonkeyPatch):
    """A command beside a running system closed it to slots, which are another user, and all of them died."""
    monkeypatch.setattr(os, "umask", lambda _: 0)
    folder.chmod(bits)
    state_folder.keep_private({"WEIR_DATA_DIR": str(folder)})
    with state_folder.lock(folder):
        assert mode(folder) == bits
    folder.chmod(0o750)
    state_folder.keep_private({"WEIR_DATA_DIR": str(folder)})
    assert mode(folder) == 0o700, "more than a way through is closed"


def test_what_is_closed_already_is_left_as_it_is(folder: Path):
    folder.chmod(0o700)
    (folder / "letters.txt").touch()
    with state_folder.lock(folder):
        assert mode(folder) == 0o700


def test_a_full_disk_is_a_reason_not_to_start_in_one_line(tmp_path: Path, free_port: int):
    with small_disk(tmp_path / "small", megabytes=1) as disk:
        (disk / "data").mkdir(mode=0o700)
        fill(disk)
        ended = subprocess.run(
            (sys.executable, "-P", "-m", "workers.launcher", "--port", str(free_port), "--data-dir",
             str(disk / "data")),
            capture_output=True, text=True, timeout=120, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "REDIS_URL": ""})
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.splitlines() == [
        f"weir: The disk of the data folder {disk / 'data'} is full: make room there, or name another folder with "
        "--data-dir."]


def test_what_a_management_command_writes_is_its_users_alone(folder: Path):
    """`migrate` makes the database: in a folder that others may read, and by a umask that lets them."""
    environment = os.environ | {"WEIR_DATA_DIR": str(folder), "DATABASE_URL": ""}
    subprocess.run(
        ["sh", "-c", f"umask 022 && exec {sys.executable} manage.py migrate teams --verbosity 0"],
        cwd=ROOT, env=environment, check=True, timeout=300)
    assert mode(folder) == 0o700 and (folder / "weir.sqlite3").is_file()
    assert {path.name: mode(path) & 0o077 for path in folder.iterdir() if path.is_file()} == {
        path.name: 0 for path in folder.iterdir() if path.is_file()}
