"""Replays: the recording's events in order, at the times that were asked for, the same in every batch."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.canonical import canonical_config
from scheduler.model.dataflow import Task
from workers.engine.channels.tick_schedule import read_schedule
from workers.engine.spark.compile import due_ms
from workers.library import replay as replay_module
from workers.library.config import InvalidConfig
from workers.library.registry import task_types
from workers.library.replay import replay_schedule

from .conftest import build

LINES = [f'{1_400_000_000_000 + 500 * n},{{"e":[{{"n":"id","sv":"s{n}"}}],"bt":{1_400_000_000_000 + 500 * n}}}'
         for n in range(10)]


@pytest.fixture
def folder(data_dir):
    folder = data_dir / "replay"
    folder.mkdir()
    (folder / "city.csv").write_text("\n".join(LINES) + "\n\n")
    (folder / "trips.csv").write_text("id,at,n\n" + "\n".join(f"t{n},2013-01-13T00:00:{n:02d}Z,{n}" for n in range(5)))
    (folder / "trips.jsonl").write_text("\n".join(json.dumps({"at": 1_358_035_200 + n, "n": n}) for n in range(5)))
    (folder / "trips.xml").write_text("\n".join(f"<t><at>{1_358_035_200 + n}</at></t>" for n in range(5)))
    table = pa.table({
        "n": range(5), "at": pa.array([1000 * n for n in range(5)], pa.timestamp("ms", tz="UTC")),
        "kind": pa.array(["x"] * 5).dictionary_encode(),
    })
    pq.write_table(table, folder / "trips.parquet")
    (folder / "parts").mkdir()
    (folder / "parts" / "2.senml").write_text("\n".join(LINES[5:]))
    (folder / "parts" / "1.senml").write_text("\n".join(LINES[:5]))
    return folder


def due_and_times(data_dir, **config):
    schedule = replay_schedule(config, data_dir)
    due, times = read_schedule(schedule.file)
    return list(map(int, due)), None if times is None else list(map(int, times)), schedule


def test_a_rate_spaces_events_evenly(folder, data_dir):
    due, times, schedule = due_and_times(data_dir, path="city.csv", rate_per_s=4)
    assert due == [250 * n for n in range(10)]
    assert times == [1_400_000_000_000 + 500 * n for n in range(10)]
    assert schedule.repeat_ms == 0


def test_a_paused_recording_goes_on_at_the_number_that_is_due(folder, data_dir):
    types, config = task_types(), {"path": "city.csv", "rate_per_s": 4.0, "repeat": True}
    source = Task("s", "replay", canonical_config(types["replay"], config))
    due = [due_ms(source, types["replay"], number, folder=data_dir) for number in range(25)]
    assert due == [250 * number for number in range(25)]


def test_queries_that_start_at_once_keep_one_recording(folder, data_dir):
    """Dataflows of one slot that replay the same new file make its copy at the same moment, each in a thread."""
    for number in range(5):
        (folder / f"new-{number}.senml").write_text("\n".join(LINES * 300))
        gate = threading.Barrier(8)

        def started(path, barrier=gate):
            barrier.wait()
            due, times, _ = due_and_times(data_dir, path=path, rate_per_s=100)
            return len(due), len(times)

        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(started, [f"new-{number}.senml"] * 8)) == {(3000, 3000)}


def test_own_speed_keeps_the_gaps(folder, data_dir):
    due, _, _ = due_and_times(data_dir, path="city.csv", speed=5)
    assert due == [100 * n for n in range(10)]
    due, _, _ = due_and_times(data_dir, path="trips.csv", speed=0.5, time_column="at")
    assert due == [2000 * n for n in range(5)]


def test_a_repeated_recording_goes_on_where_it_ended(folder, data_dir):
    _, _, schedule = due_and_times(data_dir, path="city.csv", rate_per_s=4, repeat=True)
    assert schedule.repeat_ms == 2500
    assert schedule.repeat_time_ms > 9 * 500


@pytest.mark.parametrize("config", [
    {"path": "trips.csv", "time_column": "at"}, {"path": "trips.jsonl", "time_column": "at"},
    {"path": "trips.xml", "time_column": "at"},
])
def test_recorded_times_are_found_in_every_format(config, folder, data_dir):
    _, times, _ = due_and_times(data_dir, rate_per_s=1, **config)
    assert times == [1_358_035_200_000 + 1000 * n for n in range(5)]


@pytest.mark.parametrize("config,match", [
    ({"path": "trips.csv", "speed": 1}, "no recorded times"),
    ({"path": "trips.csv", "time_column": "when"}, "no column when"),
    ({"path": "trips.csv", "time_column": "id"}, "no time that can be read"),
    ({"path": "../x"}, "leads out"),
    ({"path": "trips.csv", "format": "parquet"}, "cannot be read as Parquet"),
])
def test_what_cannot_be_replayed_is_said(config, match, folder, data_dir):
    with pytest.raises(InvalidConfig, match=match) as caught:
        replay_schedule(config, data_dir)
    assert caught.value.remedy


def test_a_long_recording_is_kept_block_by_block(folder, data_dir, monkeypatch):
    """Whatever the blocks: every event once and in order, files that lack a column among them, and its time."""
    first, second = range(11), range(11, 17)
    (folder / "long").mkdir()
    pq.write_table(pa.table({"at": list(first), "kind": pa.array(["a"] * 11).dictionary_encode()}),
                   folder / "long/1.parquet")
    pq.write_table(pa.table({"at": list(second), "kind": ["b"] * 6, "late": [1.0] * 6}), folder / "long/2.parquet")
    (folder / "long.csv").write_text("n,at\n" + "".join(f"{number},{number}\n" for number in range(17)))
    for path in ("long", "long.csv"):
        blocks = []
        for rows in (4_096, 4):
            monkeypatch.setattr(replay_module, "BLOCK_ROWS", rows)
            for recording in (data_dir / "recordings").glob("*"):
                recording.unlink()
            _, times, _ = due_and_times(data_dir, path=path, time_column="at", rate_per_s=1)
            assert times == [1_000 * number for number in range(17)]
            file, = (data_dir / "recordings").glob("*.arrow")
            blocks.append(pa.ipc.open_file(file).read_all())
        assert blocks[0].equals(blocks[1]) and blocks[0].num_rows == 17
    monkeypatch.setattr(replay_module, "BLOCK_ROWS", 4)
    (folder / "long.csv").write_text("n,at\n" + "0,0\n" * 9 + "9,soon\n")
    with pytest.raises(InvalidConfig, match="Event 10 of"):
        due_and_times(data_dir, path="long.csv", time_column="at", rate_per_s=1)
    assert not [path for path in (data_dir / "recordings").glob("*") if "-" in path.name and path.suffix != ".due"], \
        "nothing half-written stays"


@given(st.integers(1, 40), st.integers(1, 9), st.lists(st.integers(0, 10_000), max_size=30), st.integers(0, 50))
def test_a_batch_reads_its_own_events_of_the_recording_and_no_more(count, rows, others, run):
    """Whatever numbers it has, in whatever blocks the recording is; a stretch of it takes no memory of its own."""
    column = pa.chunked_array([[f"e{n}" for n in range(first, min(count, first + rows))]
                               for first in range(0, count, rows)])
    events = pa.table({"e": column, "n": pa.chunked_array([pa.array(range(count))])})
    for numbers in (np.array(others, dtype="int64") % count, np.arange(count - 1, count + run) % count):
        chosen = replay_module._chosen(events, numbers)
        assert chosen["e"].to_pylist() == [f"e{n}" for n in numbers] and chosen["n"].to_pylist() == numbers.tolist()
    before = pa.total_allocated_bytes()
    stretch = replay_module._chosen(events, np.arange(count))
    assert stretch.num_rows == count and pa.total_allocated_bytes() == before


def test_a_changed_recording_is_another(folder, data_dir):
    before, _, _ = due_and_times(data_dir, path="city.csv", rate_per_s=1)
    (folder / "city.csv").write_text("\n".join(LINES[:3]))
    os.utime(folder / "city.csv", (1, 1))
    after, _, _ = due_and_times(data_dir, path="city.csv", rate_per_s=1)
    assert (len(before), len(after)) == (10, 3)


@pytest.mark.spark
@pytest.mark.parametrize("path", ["city.csv", "parts"])
def test_events_come_by_their_number(path, folder, ticks):
    rows = build("replay", ticks(10), path=path).collect()
    assert [(row._seq, row.senml) for row in rows] == list(enumerate(LINES))
    later = build("replay", ticks(8, start=7), path=path, repeat=True).collect()
    assert [row.senml for row in later] == [LINES[n % 10] for n in range(7, 15)]


@pytest.mark.spark
def test_other_formats(folder, ticks):
    assert build("replay", ticks(5), path="trips.csv", time_column="at").first().csv == "t0,2013-01-13T00:00:00Z,0"
    assert json.loads(build("replay", ticks(5), path="trips.jsonl").first().json)["n"] == 0
    assert build("replay", ticks(5), path="trips.xml").first().xml == "<t><at>1358035200</at></t>"
    parquet = build("replay", ticks(5), path="trips.parquet")
    assert parquet.columns == ["_seq", "_time", "_born", "n", "at", "kind"]
    assert [(row.n, row.at.timestamp(), row.kind) for row in parquet.collect()] == [(n, n, "x") for n in range(5)]


@pytest.mark.spark
def test_a_recording_replays_through_a_stream(folder, stream, ticks):
    events = stream("_seq bigint, _time bigint, _born bigint")
    events.add([tuple(row) for row in ticks(10).collect()], sizes=[3, 1, 4])
    results = events.run(lambda frame: build("senml_parse", build("replay", frame, path="city.csv"), schema="own",
                                           id_field="id", fields=["x"]))
    assert [row[4] for row in results] == [f"s{n}" for n in range(10)]
    assert np.all(np.diff([row[0] for row in results]) == 1)
