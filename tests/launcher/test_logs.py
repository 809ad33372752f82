"""Logs: a new file a start, some kept, none without bound."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from workers.launcher.process_logs import KEPT, Logs


def test_each_start_begins_a_file_and_the_last_ones_are_kept(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    for run in range(KEPT + 3):
        logs.begin("web")
        with logs.open("web") as file:
            file.write(f"run {run}\n".encode())
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert texts.pop("web.log") == f"run {KEPT + 2}\n"
    assert texts == {f"web.log.{number}": f"run {KEPT + 2 - number}\n" for number in range(1, KEPT + 1)}


def test_a_start_that_wrote_nothing_pushes_nothing_out(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    for _ in range(3):
        logs.begin("web")
        logs.open("web").close()
    assert [path.name for path in tmp_path.iterdir()] == ["web.log"]


def test_a_file_past_the_limit_is_emptied_under_its_writer(tmp_path: Path) -> None:
    logs = Logs(tmp_path, limit_bytes=1000)
    with logs.open("web") as file:
        file.write(b"x" * 1001)
        logs.bound()
        file.write(b"after\n")
        logs.bound()
    assert logs.path("web").read_bytes() == b"after\n"
    assert (tmp_path / "web.log.1").stat().st_size == 1001


def test_the_ending_is_the_last_lines_even_of_a_long_file(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    with logs.open("web") as file:
        file.write(b"".join(b"line %d\n\n" % number for number in range(5000)))
    assert logs.ending("web", lines=2).splitlines()[1:] == ["line 4998", "line 4999"]


def test_on_a_full_disk_a_log_past_the_limit_is_emptied_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("workers.launcher.process_logs.shutil.copyfile", full)
    logs = Logs(tmp_path, limit_bytes=1000)
    logs.path("web").write_bytes(b"x" * 1001)
    logs.bound()
    assert logs.path("web").stat().st_size == 0, "that the supervisor could not keep it must not end everything"
