"""What needs neither broker nor Spark: schedules, histograms, blocks, and the build of the jar."""

from __future__ import annotations

import datetime as dt
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.channels import codec, histogram
from workers.engine.channels.config import choose_implementation
from workers.engine.channels.jvm import build
from workers.engine.channels.schedule import Schedule, read_schedule, write_schedule
from workers.engine.channels.source import ChannelLost, check_unbroken


@given(rate_per_s=st.floats(0.01, 100_000), limit=st.integers(0, 5_000), elapsed_ms=st.integers(-10, 10_000))
def test_as_many_are_due_as_have_their_time(rate_per_s, limit, elapsed_ms) -> None:
    schedule = Schedule(rate_per_s=rate_per_s, limit=limit)
    due = schedule.due_ms(np.arange(limit, dtype=np.int64))
    assert schedule.due_by(elapsed_ms, start=0, most=10**9) == np.count_nonzero(due <= elapsed_ms)


@given(due=st.lists(st.integers(0, 1_000), max_size=50).map(sorted), elapsed_ms=st.integers(0, 1_000),
       start=st.integers(0, 60), room=st.integers(0, 60))
def test_a_file_is_as_good_as_its_numbers(tmp_path_factory, due, elapsed_ms, start, room) -> None:
    path = write_schedule(tmp_path_factory.mktemp("s") / "schedule", due_ms=due)
    schedule = Schedule(file=path)
    assert schedule.size == len(due)
    expected = max(start, min(start + room, len(due), sum(1 for each in due if each <= elapsed_ms)))
    if start <= sum(1 for each in due if each <= elapsed_ms):
        assert schedule.due_by(elapsed_ms, start=start, most=start + room) == expected


def test_a_schedule_file_brings_its_times_back(tmp_path: Path) -> None:
    path = write_schedule(tmp_path / "s", due_ms=[0, 5, 5], time_ms=[100, 90, 2**53 + 1])
    due, times = read_schedule(path)
    assert due.tolist() == [0, 5, 5]
    assert times.tolist() == [100, 90, 2**53 + 1]


def test_an_empty_schedule_is_no_error(tmp_path: Path) -> None:
    assert Schedule(file=write_schedule(tmp_path / "a", due_ms=[]), repeat_ms=100).size == 0
    assert Schedule(file=write_schedule(tmp_path / "b", due_ms=[], time_ms=[])).size == 0


@pytest.mark.parametrize("wrong", [{"due_ms": [1, 0]}, {"due_ms": [0, 1], "time_ms": [5]}])
def test_a_schedule_that_makes_no_sense_is_refused(tmp_path: Path, wrong) -> None:
    with pytest.raises(ValueError):
        write_schedule(tmp_path / "s", **wrong)
    assert list(tmp_path.iterdir()) == []


@given(st.floats(0, 1e7))
def test_a_bucket_stands_for_its_latencies(latency_ms) -> None:
    index = histogram.bucket(latency_ms)
    assert 2 ** (index / 4) <= (latency_ms + 1) * 1.0000001 < 2 ** ((index + 1) / 4) * 1.000001


def test_a_histogram_is_read_from_meters() -> None:
    assert histogram.histogram_of({"1:lat:3": 5, "11:lat:4": 1, "1:n": 9, "throttled_by": "c"}, "1:lat") == {3: 5}


def test_a_block_brings_its_events_back() -> None:
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    rows = [{"x": 1, "at": at, "list": [1, None]}, {"x": None, "at": None, "list": []}]
    assert codec.block_rows(codec.encode_block(pa.RecordBatch.from_pylist(rows))) == rows


def test_the_implementation_is_chosen_by_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_implementation("python") == "python"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert choose_implementation("auto") == "python"
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert choose_implementation("auto") == "jvm"


@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java compiler here")
def test_the_jar_is_built_once_and_again_when_a_source_changes(tmp_path: Path, monkeypatch) -> None:
    jar = build.build(tmp_path)
    with zipfile.ZipFile(jar) as archive:
        assert {"weir/Valve.class", "weir/ChannelProvider.class", "weir/lua/write.lua"} <= set(archive.namelist())
    first = jar.stat().st_ino
    assert build.build(tmp_path).stat().st_ino == first
    monkeypatch.setattr(build, "sources_digest", lambda: "another")
    assert build.build(tmp_path).stat().st_ino != first
    assert sorted(path.name for path in (tmp_path / "jvm").iterdir()) == ["weir-channels.jar", "weir-channels.sha256"]


def test_a_missing_compiler_is_said_in_one_line(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert build.main(["--data-dir", str(tmp_path)]) == 1
    assert "install a JDK" in capsys.readouterr().err


@pytest.mark.parametrize(("start", "trimmed", "last", "how"), [
    ("4-0", "4-0", "9-1", ""), ("5-1", "4-0", "9-1", ""), ("9-1", "0-0", "9-1", ""), ("9-0", "8-2", "10-0", ""),
    ("4-0", "4-1", "9-1", "up to 4-1 was freed"), ("9-9", "10-0", "12-0", "up to 10-0 was freed"),
    ("9-2", "4-0", "9-1", "the channel ends at 9-1"), ("1-0", "0-0", "0-0", "the channel ends at 0-0"),
])
def test_a_reader_that_lacks_entries_is_told_which(start: str, trimmed: str, last: str, how: str) -> None:
    if not how:
        return check_unbroken("a.0", start, trimmed=trimmed, last=last)
    with pytest.raises(ChannelLost, match=how):
        check_unbroken("a.0", start, trimmed=trimmed, last=last)
