"""Archiving in files: whole, each event once, whatever is repeated."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.library.archive import write_file


def events(numbers, **columns):
    stream = {name: pa.array(numbers, pa.int64()) for name in ("_seq", "_time", "_born")}
    return pa.RecordBatch.from_pydict({**stream, **{name: pa.array(values) for name, values in columns.items()}})


def test_a_repeated_batch_writes_nothing_twice(tmp_path):
    batch = events([5, 6], a=["ä", None])
    first = write_file(batch, ["_seq", "a"], tmp_path / "new", kind="json")
    written = first.stat().st_mtime_ns
    assert write_file(batch, ["_seq", "a"], tmp_path / "new", kind="json") == first
    assert first.stat().st_mtime_ns == written and list((tmp_path / "new").iterdir()) == [first]
    assert [json.loads(line) for line in first.read_text().splitlines()] == [
        {"_seq": 5, "a": "ä"}, {"_seq": 6, "a": None}]
    assert first.name.startswith("000000000005-")


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_other_events_with_the_same_content_have_a_file_of_their_own(tmp_path, kind):
    names = {write_file(events([number], a=["same"]), ["a"], tmp_path, kind=kind).name for number in (1, 2, 3)}
    assert len(names) == 3 == len(list(tmp_path.iterdir()))


def test_parquet_holds_the_columns(tmp_path):
    file = write_file(events([1, 2], a=[1.5, None]), ["a", "_seq"], tmp_path, kind="parquet")
    assert pq.read_table(file).to_pydict() == {"a": [1.5, None], "_seq": [1, 2]}


def test_a_file_that_could_not_be_written_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_file(events([1], a=["x"]), ["a"], tmp_path, kind="json")
    assert [path for path in tmp_path.iterdir() if not path.name.startswith(".")] == []
