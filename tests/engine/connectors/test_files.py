"""Files: every format in pieces from any place on, what is remembered of files, and where they may lie."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.connectors import csv_records, file_pieces, file_source
from workers.engine.connectors.contract import Opening, SourceAway, SourceRefused
from workers.engine.connectors.file_pieces import FilePieces, FileReading
from workers.engine.connectors.file_source import FilesReader, ReadFiles, open_files
from workers.engine.connectors.file_stores import ListedFile, PathPattern
from workers.engine.connectors.formats import MessageLayout, decode
from workers.library.config import InvalidConfig

from .file_rigs import BucketRig, FolderRig

FIELDS = {"n": "bigint", "text": "string"}
ROWS = [{"n": n, "text": f"line {n}\nand “more”, \"quoted\"" if n % 3 == 0 else None} for n in range(50)]


def as_csv(rows: list[dict], *, header: bool = False) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows(([["text", "other", "n"]] if header else []) + [
        [row["text"], "x", row["n"]] if header else [row["n"], row["text"]] for row in rows])
    return text.getvalue().encode()


def as_parquet(rows: list[dict]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=7)
    return sink.getvalue().to_pybytes()


def as_arrow(rows: list[dict], make: Callable = pa.ipc.new_stream) -> bytes:
    sink, table = pa.BufferOutputStream(), pa.Table.from_pylist(rows)
    with make(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=11)
    return sink.getvalue().to_pybytes()


BODIES = {
    ("a.ndjson", "ndjson", False): "\n".join(map(json.dumps, ROWS)).encode(),
    ("a.ndjson.gz", "ndjson", False): gzip.compress(("\r\n\n".join(map(json.dumps, ROWS)) + "\n").encode()),
    ("a.csv", "csv", False): as_csv(ROWS), ("b.csv", "csv", True): as_csv(ROWS, header=True),
    ("a.json", "json", False): json.dumps(ROWS).encode(),
    ("a.parquet", "parquet", False): as_parquet(ROWS), ("a.arrow", "arrow", False): as_arrow(ROWS),
    ("b.arrow", "arrow", False): as_arrow(ROWS, pa.ipc.new_file),
}


def read(body: bytes, reading: FileReading) -> tuple[list[dict], list[str]]:
    """All events of a file, each piece by a reader of its own, as after an end at any moment."""
    layout = MessageLayout(reading.format, FIELDS if reading.columns else {})
    rows, reasons, at = [], [], None
    for _ in range(1000):
        whole = FilePieces(io.BytesIO(body), reading, at=json.loads(json.dumps(at)))
        piece = whole.take()
        decoded = decode(piece.messages, layout, now_ms=0)
        rows += [dict(zip(layout.content, row, strict=True)) for row in decoded.rows]
        reasons += [letter.reason for letter in (*piece.dead, *decoded.dead)]
        at = piece.at
        if piece.is_over:
            return rows, reasons
    raise AssertionError("it does not end")


@pytest.mark.parametrize(("name", "format", "header"), BODIES)
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_every_format_gives_each_event_once_however_it_is_cut(name, format, header, most, monkeypatch):
    monkeypatch.setattr(file_pieces, "MOST_MESSAGES", most)
    rows, reasons = read(BODIES[name, format, header], FileReading(name, format, header, tuple(FIELDS)))
    assert rows == ROWS and not reasons


@pytest.mark.parametrize(("format", "body", "rows", "why"), [
    ("ndjson", b'{"n": 1}\n{bad\n{"n": 2}', [1, 2], "is no JSON"),
    ("csv", b'1,a\n2,"open\n3,c\n', [1, 3], "CSV"),
    ("csv", b'1,a\n"2\n"3,c\n4,d\n', [1, 4], ""),
    ("csv", b"1,a\n2\n3,c\n", [1, 3], "has 1 values"),
    ("parquet", as_parquet(ROWS)[:200], [], "is no parquet"),
    ("parquet", as_parquet([{"other": 1}]), [], "none of the columns n, text"),
    ("arrow", as_arrow(ROWS)[:700], None, "is no arrow"), ("arrow", b"garbage" * 20, [], "is no arrow"),
    ("json", b"[1, 2", [], "is no JSON")])
def test_what_cannot_be_read_is_told_and_the_rest_is_read(format, body, rows, why):
    seen, reasons = read(body, FileReading("f", format, columns=tuple(FIELDS)))
    assert any(why in reason for reason in reasons)
    if rows is not None:
        assert [row["n"] for row in seen] == rows


def test_a_packed_file_that_is_cut_off_is_told():
    body = gzip.compress(b"".join(b'{"n": %d}\n' % n for n in range(20_000)))
    seen, reasons = read(body[:-3000], FileReading("a.ndjson.gz", "ndjson", columns=("n",)))
    assert 0 < len(seen) < 20_000 and "not all of it" in reasons[-1]


def test_a_line_without_end_takes_no_memory_and_is_told(monkeypatch):
    for module in (file_pieces, csv_records):
        monkeypatch.setattr(module, "FILE_RECORD", replace(module.FILE_RECORD, most=1000))
    rows, reasons = read(b'{"n": 1}\n' + b"x" * 5000 + b'\n{"n": 2}\n', FileReading("f", "ndjson", columns=("n",)))
    assert [row["n"] for row in rows] == [1, 2] and "over" in reasons[0]
    assert "over" in read(b" " * 2000, FileReading("f", "json", columns=("n",)))[1][0]


@given(st.text(alphabet='a",\n\r', max_size=60), st.integers(1, 3))
def test_csv_of_whatever_quotes_ends_and_gives_or_tells_something(text, most):
    body = text.encode()
    before = file_pieces.MOST_MESSAGES
    file_pieces.MOST_MESSAGES = most
    try:
        rows, reasons = read(body, FileReading("f", "csv", columns=("n",)))
    finally:
        file_pieces.MOST_MESSAGES = before
    assert bool(rows or reasons) == bool(body.strip())


# -- what is remembered ------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60))
def test_no_file_within_the_time_is_read_twice_or_forgotten(arrivals):
    """Files appear with whatever time within 10 of the newest; each is read exactly once, and few are remembered."""
    done, present, read_files, newest = ReadFiles(late_ms=10), [], [], 0
    for number, (age, looks) in enumerate(arrivals):
        modified = max(0, newest - age % 10) if age < 30 else newest + age % 10
        newest = max(newest, modified)
        present.append(ListedFile(modified, f"f{number}", 1))
        if looks:
            for path in sorted(file for file in present if file not in done):
                read_files.append(path)
                done.add(path, now_ms=10**12)
                done = ReadFiles(done.floor_ms, json.loads(json.dumps(done.names)), late_ms=10)
    missing = [file for file in present if file not in read_files]
    assert len(read_files) == len(set(read_files))
    assert all(file not in done for file in missing), "what was not read yet will be"
    assert all(at_ms >= done.floor_ms for at_ms in done.names.values())


def test_what_is_remembered_is_bounded_and_none_comes_twice(monkeypatch):
    monkeypatch.setattr(file_source, "MOST_NAMES", 100)
    done = ReadFiles(late_ms=10**9)
    listing = [ListedFile(number, f"f{number}", 1) for number in range(1000)]
    for file in listing:
        done.add(file, now_ms=10**12)
    assert len(done.names) == 100 and all(file in done for file in listing)
    assert ListedFile(2000, "new", 1) not in done


def test_a_file_of_the_future_does_not_hide_those_of_now():
    done = ReadFiles(late_ms=1000)
    done.add(ListedFile(10**13, "future", 1), now_ms=50_000)
    assert ListedFile(49_500, "now", 1) not in done and ListedFile(10**13, "future", 1) in done


@pytest.mark.parametrize(("match", "names"), [
    ("**", {"a.csv", "x/b.csv", "x/y/c.json"}), ("*.csv", {"a.csv"}), ("**/*.csv", {"a.csv", "x/b.csv"}),
    ("x/*", {"x/b.csv"}), ("x/**", {"x/b.csv", "x/y/c.json"}), ("?.csv", {"a.csv"})])
def test_stars_match_within_a_name_and_two_of_them_any_folders(match, names):
    paths = ("a.csv", "x/b.csv", "x/y/c.json")
    assert {name for name in paths if PathPattern(match).fullmatch(name)} == names


@given(st.text("ab/*?", max_size=9), st.text("ab/?\n", max_size=8))
def test_a_path_matches_as_a_regular_expression_says(match, path):
    parts = re.findall(r"\*\*/|\*\*|.", match)
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pattern = "".join(words.get(part) or re.escape(part) for part in parts)
    assert PathPattern(match).fullmatch(path) is bool(re.fullmatch(pattern, path, re.DOTALL))


@pytest.mark.parametrize("match", ["*a" * 60 + "~", "**a" * 60 + "~", "**/" * 60 + "~", "*" * 199 + "~"])
def test_a_path_that_nearly_matches_does_not_take_for_ever(match):
    assert not PathPattern(match).fullmatch("a" * 1000) and not PathPattern(match).fullmatch("a/" * 500)


# -- stores ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["folder", "bucket"])
def rig(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FolderRig]:
    rig = FolderRig(tmp_path) if request.param == "folder" else BucketRig(tmp_path)
    for name, value in rig.environment.items():
        monkeypatch.setenv(name, value)
    rig.anew()
    yield rig
    rig.close()


def opening(rig: FolderRig, position: Any = None, **config: Any) -> Opening:
    return Opening("t", {
        "match": "**", "format": "ndjson", "header": False, "late": 3600, "endpoint": None, "region": "us-east-1",
        "tls": True, "access_key": None, "secret_key": None, "include": (), **rig.task().config, "every": 0.0,
        "columns": ["n"], **config}, json.loads(json.dumps(position)))


def numbers(reader: FilesReader) -> list[int]:
    seen = []
    for _ in range(3):
        polled = reader.poll(0.0)
        seen += [json.loads(message.body)["n"] for message in polled.messages]
    return seen


def test_newest_begins_with_what_appears_and_a_time_with_what_was_written_since(rig: FolderRig) -> None:
    rig.send([1])
    reader = open_files(opening(rig, start="newest"))
    assert numbers(reader) == []
    rig.send([2])
    assert numbers(reader) == [2]
    again = open_files(opening(rig, reader.position(), start="newest"))
    assert numbers(again) == []
    assert sorted(numbers(open_files(opening(rig, start="oldest")))) == [1, 2]
    assert sorted(numbers(open_files(opening(rig, start="2001-01-01T00:00:00Z")))) == [1, 2]
    assert numbers(open_files(opening(rig, start="2990-01-01T00:00:00Z"))) == []


def test_a_large_file_is_gone_on_with_where_it_was_left(rig: FolderRig, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (file_source, file_pieces):
        monkeypatch.setattr(module, "MOST_MESSAGES", 30)
    rig.send(range(100))
    seen, position = [], None
    for _ in range(5):
        reader = open_files(opening(rig, position))
        polled = reader.poll(0.0)
        seen += [json.loads(message.body)["n"] for message in polled.messages]
        position = polled.position or position
        reader.close(for_good=False)
    assert seen == list(range(100)) and position["now"] is None


def test_a_file_that_is_replaced_under_way_is_told_and_read_anew(
    rig: FolderRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (file_source, file_pieces):
        monkeypatch.setattr(module, "MOST_MESSAGES", 30)
    rig.send(range(100))
    position = open_files(opening(rig)).poll(0.0).position
    rig._files -= 1
    rig.put(b'{"n": 1000}\n')
    reader = open_files(opening(rig, position))
    polled = reader.poll(0.0)
    assert "was changed while it was read: the rest of it is not read" in polled.lost[0].reason
    seen = [json.loads(message.body)["n"] for message in polled.messages] + numbers(reader)
    assert seen == [1000]


def test_what_is_included_of_a_file_is_its_name_and_time(rig: FolderRig) -> None:
    rig.send([1])
    [message] = open_files(opening(rig, include=("file_name", "file_time"))).poll(0.0).messages
    assert message.extras["file_name"] == "000001.ndjson"
    assert abs(message.extras["file_time"] - time.time() * 1000) < 600_000


def test_parquet_is_read_where_it_lies(rig: FolderRig) -> None:
    rig.put(as_parquet(ROWS), ".parquet")
    polled = open_files(opening(rig, format="parquet", columns=["n", "text"])).poll(0.0)
    assert [message.values for message in polled.messages] == ROWS and not polled.lost


def test_a_place_that_is_away_is_told_without_its_address(rig: FolderRig) -> None:
    reader = open_files(opening(rig))
    rig.leave()
    with pytest.raises(SourceAway) as away:
        reader.poll(0.0)
    assert "127.0.0.1" not in away.value.full_message and "/" not in away.value.full_message
    rig.return_()
    rig.send([1])
    assert numbers(open_files(opening(rig))) == [1]


def test_a_key_that_is_no_path_takes_no_other_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    rig = BucketRig(tmp_path)
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", rig.environment["WEIR_CONNECTOR_HOSTS"])
    rig.anew()
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{rig.port}", aws_access_key_id="AKIA",
                          aws_secret_access_key="geheim", region_name="us-east-1")
    good = ["a.txt", "deep/er/b.txt", "sp ace+plus%41&=ü'.txt", "z.txt"]
    bad = ["ctrl\x01.txt", "/x.txt", "a//b.txt", "//"]
    for name in [*good, *bad, "folder/", "_hidden.txt"]:
        client.put_object(Bucket=rig._bucket, Key=f"in/{name}", Body=b"" if name == "folder/" else name.encode())
    client.put_object(Bucket=rig._bucket, Key="input.txt", Body=b"beside")
    reader = open_files(opening(rig, format="text", columns=[]))
    read, lost = [], []
    for _ in range(3):
        polled = reader.poll(0.0)
        read += [message.body.decode() for message in polled.messages]
        lost += polled.lost
    rig.close()
    assert sorted(read) == sorted(good)
    assert sorted(letter.place for letter in lost) == sorted(bad)
    assert all("copy it to another key" in letter.reason for letter in lost)


def test_a_bucket_that_is_not_there_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = BucketRig(tmp_path)
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", rig.environment["WEIR_CONNECTOR_HOSTS"])
    rig.anew()
    with pytest.raises(SourceRefused, match="bucket nowhere is not there"):
        open_files(opening(rig, path="s3://nowhere/in")).poll(0.0)
    rig.close()
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "elsewhere")
    with pytest.raises(InvalidConfig, match="may not reach"):
        open_files(opening(rig))


def test_nothing_outside_of_the_inbox_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox, outside = tmp_path / "inbox", tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.ndjson").write_text('{"n": 1}')
    rig = FolderRig(inbox)
    inbox.mkdir()
    rig.anew()
    monkeypatch.setenv("WEIR_INBOX_DIRS", str(inbox))
    (rig.drop / "link.ndjson").symlink_to(outside / "secret.ndjson")
    (rig.drop / "folder").symlink_to(outside)
    (rig.drop / "_hidden.ndjson").write_text('{"n": 2}')
    os.mkfifo(rig.drop / "pipe.ndjson")
    polled = open_files(opening(rig)).poll(0.0)
    assert not polled.messages and [letter.reason for letter in polled.lost] == [
        "leads out of the inbox, and is not read: it is not read"]
    (inbox / "away").symlink_to(outside)
    for path in ("away", "../outside", str(outside), "a\0b"):
        with pytest.raises(InvalidConfig):
            open_files(opening(rig, path=path))
    monkeypatch.delenv("WEIR_INBOX_DIRS")
    with pytest.raises(InvalidConfig, match="No folder may be read"):
        open_files(opening(rig))
