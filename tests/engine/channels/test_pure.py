"""What needs neither broker nor Spark: schedules, histograms, blocks, and the build of the jar."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.written_blocks import block_rows
from workers.engine.channels import block_codec, histogram
from workers.engine.channels.jvm import build
from workers.engine.channels.tick_schedule import TickSchedule, read_schedule, write_schedule


@given(due=st.lists(st.integers(0, 1_000), max_size=50).map(sorted))
def test_a_file_is_as_good_as_its_numbers(tmp_path_factory, due) -> None:
    path = write_schedule(tmp_path_factory.mktemp("s") / "schedule", due_ms=due)
    schedule = TickSchedule(file=path)
    assert schedule.size == len(due)
    assert schedule.due_ms(np.arange(len(due), dtype=np.int64)).tolist() == due


def test_a_schedule_file_brings_its_times_back(tmp_path: Path) -> None:
    path = write_schedule(tmp_path / "s", due_ms=[0, 5, 5], time_ms=[100, 90, 2**53 + 1])
    due, times = read_schedule(path)
    assert due.tolist() == [0, 5, 5]
    assert times.tolist() == [100, 90, 2**53 + 1]


def test_an_empty_schedule_is_no_error(tmp_path: Path) -> None:
    assert TickSchedule(file=write_schedule(tmp_path / "a", due_ms=[]), repeat_ms=100).size == 0
    assert TickSchedule(file=write_schedule(tmp_path / "b", due_ms=[], time_ms=[])).size == 0


@pytest.mark.parametrize("wrong", [{"due_ms": [1, 0]}, {"due_ms": [0, 1], "time_ms": [5]}])
def test_a_schedule_that_makes_no_sense_is_refused(tmp_path: Path, wrong) -> None:
    with pytest.raises(ValueError):
        write_schedule(tmp_path / "s", **wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_histogram_is_read_from_meters() -> None:
    assert histogram.histogram_of({"1:lat:3": 5, "11:lat:4": 1, "1:n": 9, "throttled_by": "c"}, "1:lat") == {3: 5}


def test_a_block_brings_its_events_back() -> None:
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    rows = [{"x": 1, "at": at, "list": [1, None]}, {"x": None, "at": None, "list": []}]
    assert block_rows(block_codec.encode_block(pa.RecordBatch.from_pylist(rows))) == rows


@pytest.fixture
def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the jar of a new environment will stand."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    (tmp_path / "venv").mkdir()
    return tmp_path / "venv" / "jvm"


def test_the_jar_is_built_once_for_all_data_folders_and_again_when_a_source_changes(
    tmp_path: Path, beside: Path, monkeypatch
) -> None:
    jar = build.build(tmp_path / "data")
    assert jar == beside / build.JAR_NAME
    with zipfile.ZipFile(jar) as archive:
        assert {"weir/Valve.class", "weir/ChannelProvider.class", "weir/lua/write.lua"} <= set(archive.namelist())
    first = jar.stat().st_ino
    assert build.build(tmp_path / "other") == jar and jar.stat().st_ino == first
    monkeypatch.setattr(build, "sources_digest", lambda: "another")
    assert build.build(tmp_path / "data").stat().st_ino != first
    assert [path.name for path in beside.iterdir()] == [build.JAR_NAME]
    assert not (tmp_path / "data").exists() and not (tmp_path / "other").exists()


@pytest.mark.parametrize("case", ["cannot be written", "is no virtual environment"])
def test_what_cannot_stand_beside_the_environment_stands_in_the_data_folder(
    tmp_path: Path, beside: Path, monkeypatch, case: str
) -> None:
    if case == "cannot be written":
        monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may be root's, who may write everywhere
    else:
        monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    assert build.folder_to_write(tmp_path / "data") == tmp_path / "data" / "jvm"
    assert not beside.exists()


def a_jar(path: Path, *, digest: str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", build._manifest(digest or build.sources_digest()))
    return path


def test_a_jar_of_another_machine_needs_no_compiler(tmp_path: Path, beside: Path, without_compiler: None) -> None:
    jar = a_jar(tmp_path / "jvm" / build.JAR_NAME)
    assert build.provide(tmp_path) == jar
    a_jar(beside / build.JAR_NAME, digest="0" * 64)  # of an earlier version
    assert build.provide(tmp_path) == jar
    assert build.provide(tmp_path / "empty", built_jar=jar) == jar
    jar = a_jar(beside / build.JAR_NAME)
    assert build.provide(tmp_path / "empty") == jar
    elsewhere = a_jar(tmp_path / "elsewhere.jar")
    assert build.provide(tmp_path / "empty", built_jar=elsewhere) == elsewhere


def test_a_missing_compiler_is_said_in_one_line(tmp_path: Path, beside: Path, without_compiler: None, capsys) -> None:
    assert build.main(["--data-dir", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert "is missing" in errors and "openjdk-17-jdk-headless" in errors
    assert str(tmp_path / "jvm" / build.JAR_NAME) in errors and errors.count("\n") == 1


def test_who_may_not_write_the_jar_is_told_what_to_do(
    tmp_path: Path, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a slot behind its wall, where the code is newer than the jar."""
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    a_jar(beside / build.JAR_NAME, digest="0" * 64)
    monkeypatch.setattr(build.tempfile, "TemporaryDirectory", refused)
    with pytest.raises(build.BuildFailed, match=r"is of another version .* start the node again"):
        build.provide(tmp_path)


def test_a_jar_of_another_version_is_not_used(
    tmp_path: Path, beside: Path, without_compiler: None, monkeypatch, capsys
) -> None:
    a_jar(tmp_path / "jvm" / build.JAR_NAME, digest="0" * 64)
    assert build.main(["--data-dir", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert "is of another version" in errors and "copy the jar" in errors
    broken = tmp_path / "broken.jar"
    broken.write_bytes(b"no archive")
    for path, problem in ((broken, "another version"), (tmp_path / "none.jar", "there is no file")):
        monkeypatch.setenv(build.JAR_VARIABLE, str(path))
        assert build.main(["--data-dir", str(tmp_path)]) == 1
        assert problem in (errors := capsys.readouterr().err) and str(path) in errors and errors.count("\n") == 1


def test_the_compiler_of_java_home_comes_first(tmp_path: Path, monkeypatch) -> None:
    compiler = tmp_path / "bin" / "javac"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-jdk"))
    monkeypatch.setenv("PATH", str(compiler.parent))
    assert build.find_compiler() == str(compiler)
    monkeypatch.setenv("PATH", "/nowhere")
    assert build.find_compiler() is None
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert build.find_compiler() == str(compiler)
