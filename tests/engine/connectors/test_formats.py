"""Formats: every event is read or becomes a dead letter with a reason, in the order of the input."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.connectors.contract import Message
from workers.engine.connectors.formats import Layout, decode

NOW_MS = 1_700_000_000_000
FIELDS = {"name": "string", "value": "double", "count": "bigint", "on": "boolean", "at": "timestamp"}
ROWS = st.fixed_dictionaries({
    "name": st.none() | st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1),
    "value": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "count": st.none() | st.integers(-(2**63), 2**63 - 1),
    "on": st.none() | st.booleans(),
    "at": st.none() | st.datetimes().map(lambda time: time.isoformat() + "+00:00"),
})


def read(body: bytes, layout: Layout):
    return decode([Message(body, "here")], layout, now_ms=NOW_MS)


def as_rows(decoded, layout: Layout) -> list[dict]:
    rows = decoded.block(layout, first=0, born_ms=NOW_MS).to_pylist()
    for row in rows:
        if row.get("at") is not None:
            row["at"] = row["at"].isoformat()
    return rows


def expected(rows: list[dict]) -> list[dict]:
    return [{"_seq": n, "_time": NOW_MS, "_born": NOW_MS, **row} for n, row in enumerate(rows)]


@given(st.lists(ROWS, max_size=5))
def test_json_lines_and_arrow_give_the_rows_that_were_written(rows):
    layouts = {name: Layout(name, FIELDS) for name in ("json", "ndjson", "arrow")}
    table = pa.Table.from_pylist(
        rows, pa.schema([("name", pa.string()), ("value", pa.float64()), ("count", pa.int64()), ("on", pa.bool_()),
                         ("at", pa.string())]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    bodies = {
        "json": json.dumps(rows).encode(), "ndjson": "\n".join(map(json.dumps, rows)).encode(),
        "arrow": sink.getvalue().to_pybytes()}
    for name, layout in layouts.items():
        decoded = read(bodies[name], layout)
        assert not decoded.dead
        assert as_rows(decoded, layout) == expected([
            {**row, "at": row["at"] and as_iso(row["at"])} for row in rows]), name


def as_iso(text: str) -> str:
    from datetime import datetime

    return datetime.fromisoformat(text).isoformat()


@given(st.lists(st.tuples(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1),
                          st.integers(-1000, 1000)), max_size=5))
def test_csv_gives_the_rows_that_were_written(rows):
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    layout = Layout("csv", {"name": "string", "count": "bigint"})
    decoded = read(text.getvalue().encode(), layout)
    assert not decoded.dead and list(decoded.rows) == rows


@given(st.binary(max_size=60), st.sampled_from(["json", "ndjson", "csv", "arrow", "text", "bytes"]))
def test_whatever_comes_is_read_or_told(body, format):
    layout = Layout(format, {} if format in ("text", "bytes") else {"a": "bigint"})
    decoded = read(body, layout)
    assert all(letter.reason and letter.place == "here" for letter in decoded.dead)
    if body.strip() and format not in ("csv", "ndjson") and body != b"[]":
        assert decoded.rows or decoded.dead or format == "arrow" or body.strip().startswith(b"[")


@pytest.mark.parametrize(("body", "fields", "why"), [
    (b'{"a": "x"}', {"a": "double"}, "field a is 'x', which is no double"),
    (b'{"a": 1.5}', {"a": "bigint"}, "which is no bigint"),
    (b'{"a": true}', {"a": "bigint"}, "which is no bigint"),
    (b'{"a": "maybe"}', {"a": "boolean"}, "which is no boolean"),
    (b'{"a": "tomorrow"}', {"a": "timestamp"}, "which is no timestamp"),
    (b'{"a": 99999999999999999999}', {"a": "bigint"}, "which is no bigint"),
    (b"[1]", {"a": "bigint"}, "no JSON object"),
    (b"{", {"a": "bigint"}, "is no JSON"),
])
def test_a_value_that_does_not_fit_is_told_with_its_field(body, fields, why):
    decoded = read(body, Layout("json", fields))
    [letter] = decoded.dead
    assert not decoded.rows and why in letter.reason and letter.sample == body


def test_one_bad_event_of_many_leaves_the_others():
    decoded = read(b'{"a": 1}\n{"a": "x"}\n\n{"a": 3, "b": 4}', Layout("ndjson", {"a": "bigint"}))
    assert decoded.rows == [(1,), (3,)] and len(decoded.dead) == 1


@pytest.mark.parametrize(("unit", "value", "at_ms"), [
    ("s", 1_700_000_000, 1_700_000_000_000), ("ms", 1_700_000_000_123, 1_700_000_000_123),
    ("us", 1_700_000_000_123_000, 1_700_000_000_123), ("ms", "2023-11-14T22:13:20Z", 1_700_000_000_000)])
def test_event_time_comes_from_a_field(unit, value, at_ms):
    kind = "string" if isinstance(value, str) else "bigint"
    layout = Layout("json", {"at": kind}, time_field="at", time_unit=unit)
    assert list(read(json.dumps({"at": value}).encode(), layout).times_ms) == [at_ms]


def test_an_event_without_its_time_is_a_dead_letter():
    decoded = read(b'[{"at": null}, {"at": "soon"}]', Layout("json", {"at": "string"}, time_field="at"))
    assert not decoded.rows and len(decoded.dead) == 2


def test_without_fields_an_event_is_its_text():
    assert read(b'[{"a": 1}, 2]', Layout("json")).rows == [('{"a": 1}',), ("2",)]
    assert read("wär".encode(), Layout("text")).rows == [("wär",)]
    assert read(b"\xff", Layout("bytes")).rows == [(b"\xff",)]
    assert len(read(b"\xff", Layout("text")).dead) == 1
