"""Formats: every event is read or becomes a dead letter with a reason, in the order of the input."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.columns import number_of, partition_of
from workers.engine.connectors.contract import Message
from workers.engine.connectors.formats import MessageLayout, decode, layout_of

NOW_MS = 1_700_000_000_000
FIELDS = {"name": "string", "value": "double", "count": "bigint", "on": "boolean", "at": "timestamp"}
ROWS = st.fixed_dictionaries({
    "name": st.none() | st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1),
    "value": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "count": st.none() | st.integers(-(2**63), 2**63 - 1),
    "on": st.none() | st.booleans(),
    "at": st.none() | st.datetimes().map(lambda time: time.isoformat() + "+00:00"),
})


def read(body: bytes, layout: MessageLayout):
    return decode([Message(body, "here")], layout, now_ms=NOW_MS)


def as_rows(decoded, layout: MessageLayout) -> list[dict]:
    rows = decoded.block(layout, first=0, born_ms=NOW_MS).to_pylist()
    for row in rows:
        if row.get("at") is not None:
            row["at"] = row["at"].isoformat()
    return rows


def expected(rows: list[dict]) -> list[dict]:
    return [{"_seq": n, "_time": NOW_MS, "_born": NOW_MS, **row} for n, row in enumerate(rows)]


@given(st.lists(ROWS, max_size=5))
def test_json_lines_and_arrow_give_the_rows_that_were_written(rows):
    layouts = {name: MessageLayout(name, FIELDS) for name in ("json", "ndjson", "arrow")}
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
    layout = MessageLayout("csv", {"name": "string", "count": "bigint"})
    decoded = read(text.getvalue().encode(), layout)
    assert not decoded.dead and list(decoded.rows) == rows


@given(st.binary(max_size=60), st.sampled_from(["json", "ndjson", "csv", "arrow", "text", "bytes"]))
def test_whatever_comes_is_read_or_told(body, format):
    layout = MessageLayout(format, {} if format in ("text", "bytes") else {"a": "bigint"})
    decoded = read(body, layout)
    assert all(letter.reason and letter.place == "here" for letter in decoded.dead)
    if body.strip() and format not in ("csv", "ndjson") and body != b"[]":
        assert decoded.rows or decoded.dead or format == "arrow" or body.strip().startswith(b"[")


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.sampled_from(["\ud800", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+14:00"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2), max_leaves=4)


@given(st.lists(st.fixed_dictionaries({name: ODD for name in FIELDS}), max_size=3), st.sampled_from([None, *FIELDS]))
def test_no_event_whatever_keeps_others_from_being_written(rows, time_field):
    layout = MessageLayout("json", FIELDS, time_field=time_field)
    good = {"name": "n", "value": 1.0, "count": 1, "on": True, "at": "2026-05-01T00:00:00Z"}
    is_timed = time_field in (None, "value", "count", "at")
    decoded = read(json.dumps([*rows, good]).encode(), layout)
    block = decoded.block(layout, first=0, born_ms=NOW_MS)
    assert block.num_rows + len(decoded.dead) == len(rows) + 1
    if is_timed:
        assert block.to_pylist()[-1]["name"] == "n"
    for letter in decoded.dead:
        assert letter.reason.encode()


@pytest.mark.parametrize(("value", "unit"), [(9e18, "s"), (2**62, "s"), (-1e300, "ms"), ("NaN", "ms")])
def test_a_time_beyond_all_years_is_no_time(value, unit):
    layout = MessageLayout("json", {"at": "double"}, time_field="at", time_unit=unit)
    [letter] = read(json.dumps({"at": value}).encode(), layout).dead
    assert "which is no time" in letter.reason


def test_arrow_whose_offsets_lead_out_of_its_buffers_is_told():
    batch = pa.RecordBatch.from_pydict({"a": ["x" * 100, "y"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body = bytearray(sink.getvalue().to_pybytes())
    at = body.index((100).to_bytes(4, "little") + (101).to_bytes(4, "little"))
    body[at:at + 4] = (2**30).to_bytes(4, "little")
    decoded = read(bytes(body), MessageLayout("arrow", {"a": "string"}))
    assert not decoded.rows and "no Arrow" in decoded.dead[0].reason


def test_what_a_source_knows_beside_the_content_is_added_to_each_event():
    extras = {"kafka_key": "string", "kafka_time": "timestamp"}
    layout = MessageLayout("json", {"a": "bigint"}, time_field="kafka_time", extras=extras)
    message = Message(b'[{"a": 1, "kafka_key": "not this"}, {"a": 2}]', extras={"kafka_key": b"k", "kafka_time": 5})
    decoded = decode([message], layout, now_ms=NOW_MS)
    assert [row[:2] for row in decoded.rows] == [(1, "k"), (2, "k")] and list(decoded.times_ms) == [5, 5]
    assert decoded.block(layout, first=0, born_ms=0).schema == layout.arrow
    [letter] = decode([Message(b'{"a": 1}', extras={"kafka_key": b"\xff"})], layout, now_ms=NOW_MS).dead
    assert "kafka_key" in letter.reason


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
    decoded = read(body, MessageLayout("json", fields))
    [letter] = decoded.dead
    assert not decoded.rows and why in letter.reason and letter.sample == body


def test_one_bad_event_of_many_leaves_the_others():
    decoded = read(b'{"a": 1}\n{"a": "x"}\n\n{"a": 3, "b": 4}', MessageLayout("ndjson", {"a": "bigint"}))
    assert decoded.rows == [(1,), (3,)] and len(decoded.dead) == 1


@pytest.mark.parametrize(("unit", "value", "at_ms"), [
    ("s", 1_700_000_000, 1_700_000_000_000), ("ms", 1_700_000_000_123, 1_700_000_000_123),
    ("us", 1_700_000_000_123_000, 1_700_000_000_123), ("ms", "2023-11-14T22:13:20Z", 1_700_000_000_000)])
def test_event_time_comes_from_a_field(unit, value, at_ms):
    kind = "string" if isinstance(value, str) else "bigint"
    layout = MessageLayout("json", {"at": kind}, time_field="at", time_unit=unit)
    assert list(read(json.dumps({"at": value}).encode(), layout).times_ms) == [at_ms]


@pytest.mark.parametrize(("ahead_s", "is_dead"), [(-86_400, False), (0, False), (300, False), (301, True)])
def test_an_event_whose_time_is_too_far_ahead_of_its_arrival_is_a_dead_letter(ahead_s, is_dead):
    layout = layout_of({"columns": ["at:bigint"], "time_field": "at"})
    decoded = read(json.dumps([{"at": NOW_MS + 1000 * ahead_s}, {"at": NOW_MS}]).encode(), layout)
    assert list(decoded.times_ms)[-1] == NOW_MS and len(decoded.dead) == is_dead
    if is_dead:
        assert "is 301 s ahead of its arrival" in decoded.dead[0].reason
    lets = layout_of({"columns": ["at:bigint"], "time_field": "at", "ahead": 400})
    assert not read(json.dumps({"at": NOW_MS + 1000 * ahead_s}).encode(), lets).dead


@pytest.mark.parametrize(("at_ms", "is_dead"), [
    (NOW_MS, False), (NOW_MS + 300_000, False), (NOW_MS + 301_000, True), (2**63 - 1, True), (-(2**63), True)])
def test_a_time_that_a_message_has_instead_of_its_event_is_held_to_the_same(at_ms, is_dead):
    """Its sender chooses it as well: one deletion of a key with a far time, and windows of all readers closed."""
    layout = layout_of({"columns": ["at:bigint"], "time_field": "at"})
    decoded = decode([Message(place="p", values={}, at_ms=at_ms)], layout, now_ms=NOW_MS)
    assert list(decoded.times_ms) == ([] if is_dead else [at_ms]) and len(decoded.dead) == is_dead
    assert all("the time of its message" in letter.reason for letter in decoded.dead)


def test_a_number_says_which_partition_of_which_source_an_event_is_of():
    layout = MessageLayout("text")
    messages = [Message(b"x", partition=name) for name in ("t[0]", "t[1]", "t[0]")]
    decoded = decode(messages, layout, now_ms=NOW_MS)
    blocks = [decoded.block(layout, first=5, born_ms=NOW_MS, source=source).column("_seq").to_pylist()
              for source in ("one", "one", "other")]
    assert blocks[0] == blocks[1] and [number_of(seq) for seq in blocks[0]] == [5, 6, 7]
    first, second, third = (partition_of(seq) for seq in blocks[0])
    assert first == third != second and first < 1 << 21
    assert not {first, second} & {partition_of(seq) for seq in blocks[2]}, "of another source"


@pytest.mark.parametrize(("format", "unit", "value", "at"), [
    ("json", "s", 1_700_000_000, "2023-11-14T22:13:20+00:00"),
    ("json", "us", 1_700_000_000_000_500, "2023-11-14T22:13:20.000500+00:00"),
    ("csv", "s", 1_700_000_000, "2023-11-14T22:13:20+00:00"), ("csv", "ms", "2023-11-14", "2023-11-14T00:00:00+00:00"),
    ("json", "s", -11_644_473_600, "1601-01-01T00:00:00+00:00")])
def test_a_number_in_a_column_of_type_timestamp_counts_the_unit(format, unit, value, at):
    decoded = read(f'{{"at": {value}}}'.encode() if format == "json" else str(value).encode(),
                   MessageLayout(format, {"at": "timestamp"}, time_field="at", time_unit=unit))
    assert [row[0].isoformat() for row in decoded.rows] == [at]


@settings(deadline=None)
@given(micros=st.integers(0, 253_402_300_799_999_999), format=st.sampled_from(("json", "csv")))
def test_a_whole_number_is_that_very_time_or_none_of_microseconds(micros, format):
    for unit, times in (("us", 1), ("ns", 1000)):
        for more in (0, 1) if unit == "ns" else (0,):
            value = max(micros, 10**9) * times + more  # with fewer digits CSV may mean a date
            decoded = read((f'{{"at": {value}}}' if format == "json" else str(value)).encode(),
                           MessageLayout(format, {"at": "timestamp"}, time_unit=unit))
            expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value // times)
            assert [row[0] for row in decoded.rows] == ([] if more else [expected])
            assert len(decoded.dead) == more


@pytest.mark.parametrize(("kind", "value", "at"), [
    ("timestamp", "2024-07-01T12:00:00", "2024-07-01T10:00:00+00:00"),
    ("string", "2024-01-01T12:00:00", "2024-01-01T11:00:00+00:00"),
    ("timestamp", "2024-07-01T12:00:00+05:00", "2024-07-01T07:00:00+00:00"),
    ("timestamp", "2024-10-27T02:30:00", "2024-10-27T00:30:00+00:00"),  # it comes twice: the first
    ("string", "2024-03-31T02:30:00", None), ("timestamp", "2024-03-31T02:30:00", None)])  # left out
def test_a_time_without_a_zone_is_of_the_one_that_is_named(kind, value, at):
    layout = MessageLayout("json", {"at": kind}, time_field="at", time_zone="Europe/Berlin")
    decoded = read(json.dumps({"at": value}).encode(), layout)
    times = [datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in decoded.times_ms]
    assert times == ([at] if at else []) and len(decoded.dead) == (not at)


def test_an_event_without_its_time_is_a_dead_letter():
    decoded = read(b'[{"at": null}, {"at": "soon"}]', MessageLayout("json", {"at": "string"}, time_field="at"))
    assert not decoded.rows and len(decoded.dead) == 2


def test_without_fields_an_event_is_its_text():
    assert read(b'[{"a": 1}, 2]', MessageLayout("json")).rows == [('{"a": 1}',), ("2",)]
    assert read("wär".encode(), MessageLayout("text")).rows == [("wär",)]
    assert read(b"\xff", MessageLayout("bytes")).rows == [(b"\xff",)]
    assert len(read(b"\xff", MessageLayout("text")).dead) == 1
