"""When files are closed, how large they are, and what is let go."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.small_disk import fill, small_disk
from workers.engine.files import folder as folders
from workers.engine.files.closing import FileLimits, close_due
from workers.engine.files.folder import META, FolderBusy, staged_in
from workers.engine.files.keeper import FileKeeper, sink_folders
from workers.engine.files.retention import Retention, let_go
from workers.engine.files.staging import Staging, begin_run, stage
from workers.engine.worker_settings import from_environment

from .played_sink import batches_of, read

NEVER = FileLimits(1 << 40, 1e12)


def staged(folder: Path, *, batches: int, format: str = "json", events: int = 3, first: int = 0) -> Staging:
    """A folder in which so many batches are staged."""
    staging = Staging(folder, format, begin_run(folder, folder.parent / f"{folder.name}.checkpoint"))
    for batch in range(batches):
        stage(staging, batch, batches_of(format, list(range(first + batch * events, first + (batch + 1) * events))))
    return staging


def age(folder: Path, seconds: float, *, now_s: float) -> None:
    for batch in staged_in(folder):
        os.utime(batch.path, (now_s - seconds, now_s - seconds))


def test_nothing_is_closed_before_it_is_large_or_old_enough(tmp_path):
    staged(tmp_path / "f", batches=3)
    age(tmp_path / "f", 59.0, now_s=1e6)
    assert close_due(tmp_path / "f", FileLimits(1 << 30, 60.0), now_s=1e6) == []
    age(tmp_path / "f", 60.0, now_s=1e6)
    assert close_due(tmp_path / "f", FileLimits(1 << 30, 60.0), now_s=1e6) == [
        "events-0-000000000000-000000000002.json"]


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_files_have_the_size_that_was_asked_for(tmp_path, format):
    folder = tmp_path / "f"
    staged(folder, batches=40, format=format, events=50, first=10_000)
    size = staged_in(folder)[0].size
    names = close_due(folder, FileLimits(10 * size - size // 2, 1e12), now_s=0.0)
    assert [name.split("-")[3].split(".")[0].lstrip("0") for name in names] == ["9", "19", "29", "39"]
    assert [event for name in names for event in read(folder / name)] == list(range(10_000, 12_000))


def test_many_small_batches_become_one_row_group(tmp_path):
    staged(tmp_path / "f", batches=30, format="parquet")
    [name] = close_due(tmp_path / "f", NEVER, now_s=0.0, all_of_it=True)
    assert pq.ParquetFile(tmp_path / "f" / name).num_row_groups == 1


def test_other_columns_begin_another_file(tmp_path):
    staging = staged(tmp_path / "f", batches=2, format="parquet")
    stage(staging, 2, [pa.record_batch({"_seq": [6], "more": ["x"]})])
    names = close_due(tmp_path / "f", NEVER, now_s=0.0, all_of_it=True)
    assert [pq.read_schema(tmp_path / "f" / name).names for name in names] == [["_seq"], ["_seq", "more"]]


def test_a_batch_without_events_leaves_nothing(tmp_path):
    staging = staged(tmp_path / "f", batches=0)
    assert stage(staging, 0, [pa.record_batch({"line": pa.array([], pa.string())})]) == 0
    assert {path.name for path in (tmp_path / "f" / META).iterdir()} == {"lock", "state.json"}


def test_readers_that_know_nothing_of_weir_leave_out_what_is_staged(tmp_path):
    folder = tmp_path / "f"
    staging = staged(folder, batches=4, format="parquet")
    close_due(folder, NEVER, now_s=0.0, all_of_it=True)
    stage(staging, 4, batches_of("parquet", [98, 99]))
    (folder / META / "events-0-4-4.parquet.closing").write_bytes(b"half")
    assert ds.dataset(folder, format="parquet").to_table()["_seq"].to_pylist() == list(range(12))
    assert [path.parent.name for path in tmp_path.rglob("*.parquet")] == ["f"]


def test_who_moves_closed_files_away_gets_none_twice(tmp_path):
    folder, taken = tmp_path / "f", []
    staging = staged(folder, batches=0)
    for batch in range(6):
        stage(staging, batch, batches_of("json", [batch]))
        close_due(folder, NEVER, now_s=0.0, all_of_it=True)
        for path in folder.glob("*.json"):
            taken += read(path)
            path.unlink()
        begin_run(folder, tmp_path / "f.checkpoint")
    assert taken == list(range(6))


def test_a_folder_that_somebody_holds_is_left_for_later(tmp_path):
    folder = tmp_path / "f"
    staged(folder, batches=2)
    with folders.locked(folder):
        with pytest.raises(FolderBusy):
            close_due(folder, NEVER, now_s=0.0, all_of_it=True)
        FileKeeper(tmp_path, NEVER, Retention(), report=pytest.fail).turn(now_s=0.0, all_of_it=True)
    assert close_due(folder, NEVER, now_s=0.0, all_of_it=True)


def test_a_keeper_tells_once_what_is_wrong_with_a_folder_and_serves_the_others(tmp_path):
    for name in ("a", "b", "c"):
        staged(tmp_path / "x-0123" / name, batches=2, format="parquet")
    next((tmp_path / "x-0123" / "b" / META).glob("*.staged")).write_bytes(b"ARROW1 and then nothing")
    reports: list[tuple[str, dict]] = []
    keeper = FileKeeper(tmp_path, NEVER, Retention(), report=lambda what, **facts: reports.append((what, facts)))
    for _ in range(3):
        keeper.turn(now_s=0.0, all_of_it=True)
    assert sorted(path.parent.name for path in tmp_path.rglob("*.parquet")) == ["a", "c"]
    assert [facts["folder"] for _, facts in reports] == [str(tmp_path / "x-0123" / "b")]


def test_a_keeper_finds_sinks_in_nested_folders_and_leaves_trials_alone(tmp_path):
    for name in ("a/b-01/f1-0", "a/c-02/f2-0", "a/c-02/trial-7"):
        staged(tmp_path / name, batches=1)
    (tmp_path / "a" / "d-03" / "f3-0" / "_spark_metadata").mkdir(parents=True)
    sinks = {str(path.relative_to(tmp_path)) for path in sink_folders(tmp_path)}
    assert sinks == {"a/b-01/f1-0", "a/c-02/f2-0", "a/d-03/f3-0"}
    assert list(sink_folders(tmp_path / "nowhere")) == []


# -- retention ---------------------------------------------------------------------------------------------------------

NAMES = (
    "f1-0/part-00000-3f3a0f4e-7c57-4a8e-9c4a-000000000000-c000.snappy.parquet",
    "f1-0/events-0-000000000000-000000000009.parquet", "f2-0/events-0-000000000010-000000000019.parquet")
OTHERS = ("notes.txt", "f1-0/mine.parquet", "f1-0/.weir/0-000000000001.staged")


def outputs_with(tmp_path: Path, sink: str, *names: str) -> None:
    for day, name in enumerate(names):
        path = tmp_path / sink / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (day * 86_400, day * 86_400))


def left(tmp_path: Path) -> set[str]:
    return {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}


def test_by_default_all_is_kept_for_ever(tmp_path):
    outputs_with(tmp_path, "a-01", *NAMES, *OTHERS)
    assert let_go(tmp_path, Retention(), now_s=1e12) == []
    settings = from_environment({})
    assert (settings.files_keep_days, settings.files_keep_mb) == (0.0, 0)


def test_old_files_go_and_those_of_others_stay(tmp_path):
    outputs_with(tmp_path, "a/b-01", *NAMES)
    outputs_with(tmp_path, "a/b-01", *OTHERS)
    outputs_with(tmp_path, "c-02", "000000000001-0123456789abcdef.jsonl", "000000000002-0123456789abcdef.jsonl")
    let_go(tmp_path, Retention(days=1.5), now_s=2 * 86_400 + 1)
    assert left(tmp_path) == {
        "a/b-01/" + NAMES[1], "a/b-01/" + NAMES[2], *(f"a/b-01/{name}" for name in OTHERS),
        "c-02/000000000002-0123456789abcdef.jsonl"}


def test_of_each_sink_so_many_bytes_are_kept_the_newest(tmp_path):
    for sink in ("a-01", "b-02"):
        outputs_with(tmp_path, sink, *NAMES)
    let_go(tmp_path, Retention(most_bytes=250), now_s=1e9)
    assert left(tmp_path) == {f"{sink}/{name}" for sink in ("a-01", "b-02") for name in NAMES[1:]}


def test_what_trials_were_fed_with_goes_after_a_month(tmp_path):
    outputs_with(tmp_path, "feeds", "a.arrow", "b.arrow")
    FileKeeper(tmp_path / "outputs", NEVER, Retention(), report=pytest.fail).turn(now_s=30.5 * 86_400)
    assert left(tmp_path) == {"feeds/b.arrow"}


# -- a full disk -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_a_full_disk_loses_nothing_and_goes_on_when_there_is_room(tmp_path, format):
    with small_disk(tmp_path / "small", megabytes=1) as disk:
        check_full(disk, format)


def check_full(disk: Path, format: str) -> None:
    folder = disk / "out" / "f"
    staging = staged(folder, batches=5, format=format, events=500)
    ballast = fill(disk)
    before = {path.name for path in (folder / META).iterdir()}
    reports: list[dict] = []
    keeper = FileKeeper(disk / "out", NEVER, Retention(), report=lambda what, **facts: reports.append(facts))
    for _ in range(2):
        with pytest.raises(OSError) as full:
            stage(staging, 5, batches_of(format, list(range(2500, 6000))))
        assert full.value.errno == errno.ENOSPC
        keeper.turn(now_s=0.0, all_of_it=True)
    assert "No space left" in reports[0]["error"] and len(reports) == 1
    assert {path.name for path in (folder / META).iterdir()} == before, "nothing half written takes the last room"
    ballast.unlink()
    stage(staging, 5, batches_of(format, list(range(2500, 6000))))
    keeper.turn(now_s=0.0, all_of_it=True)
    [path] = folder.glob("events-*")
    assert read(path) == list(range(6000))


@pytest.mark.parametrize("megabytes, fits", [(20, False), (8, True)])
def test_a_sink_leaves_room_for_the_checkpoints_of_others(tmp_path: Path, megabytes: int, fits: bool) -> None:
    """Before, one team's file sink took the last byte, and no query of the node went on."""
    with small_disk(tmp_path / "small", megabytes=megabytes) as disk:
        fill(disk)
        os.truncate(disk / "ballast", (disk / "ballast").stat().st_size - (700 << 10))  # 700 KiB are left
        (disk / "out").mkdir()
        staging = Staging(disk / "out", "json")
        if fits:
            assert stage(staging, 0, batches_of("json", [1])) == 1
        else:
            with pytest.raises(OSError, match="No space left"):
                stage(staging, 0, batches_of("json", [1]))
        (disk / "checkpoint").write_bytes(b"x" * (600 << 10))


def test_lines_are_as_they_came(tmp_path):
    folder = tmp_path / "f"
    staging = staged(folder, batches=0)
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in ("Wien", "Straße \u2028 x", "")]
    stage(staging, 0, [pa.record_batch({"line": lines})])
    [name] = close_due(folder, NEVER, now_s=0.0, all_of_it=True)
    assert (folder / name).read_bytes() == "".join(f"{line}\n" for line in lines).encode()
