"""Damage: of mutated requests, messages and files what is not damaged comes out, and what is damaged is told once."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.connectors.contract import Message
from workers.engine.connectors.file_pieces import FilePieces, FileReading
from workers.engine.connectors.formats import MessageLayout, decode
from workers.engine.sinks.rows import as_key
from workers.library import lookups
from workers.library.arrow_types import rows_in
from workers.library.casting import cast_to
from workers.library.json_values import WrittenNumber, json_ready, not_finite

FIELDS = {"n": "bigint", "text": "string"}
MARKS = st.text(alphabet='a ",[]{}:\\\n', max_size=8)
EVENTS = st.lists(MARKS, min_size=1, max_size=6)
# Lines that are no JSON of the fields, whatever stands around them.
DAMAGE = st.sampled_from([
    '{"n":NaN}', '{"n":}', '{"n":1,}', '{"n":1', '{"n":"x"}', '{"n":1.5}', "}", '"', '{"text":"\\x"}', "[1]", "nul",
    '{"n":' + "9" * 5000 + "}", '{"n":"1_000"}', '{"text":"open}', "\x01", '{"n":1}{"n":2}', "[" * 5000])


def requested(body: bytes, layout: MessageLayout) -> tuple[list[tuple], list[str]]:
    decoded = decode([Message(body, "posted")], layout, now_ms=0)
    return list(decoded.rows), [letter.reason for letter in decoded.dead]


def filed(body: bytes, format: str, *, header: bool = False, name: str = "f") -> tuple[list[tuple], list[str]]:
    pieces = FilePieces(io.BytesIO(body), FileReading(name, format, header, tuple(FIELDS)))
    rows, reasons = [], []
    while True:
        piece = pieces.take()
        decoded = decode(piece.messages, MessageLayout(format, FIELDS), now_ms=0)
        rows += decoded.rows
        reasons += [letter.reason for letter in (*piece.dead, *decoded.dead)]
        assert all(letter.place for letter in (*piece.dead, *decoded.dead))
        if piece.is_over:
            return rows, reasons


def as_rows(texts: list[str]) -> list[tuple]:
    return list(enumerate(texts))


def as_items(texts: list[str]) -> list[str]:
    return [json.dumps({"n": n, "text": text}) for n, text in enumerate(texts)]


@given(EVENTS, DAMAGE, st.integers(0, 5), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_a_damaged_line_takes_no_other_with_it(texts, damage, place, end, has_mark):
    lines = as_items(texts)
    lines.insert(place % (len(lines) + 1), damage)
    body = ("\ufeff" * has_mark + end.join(lines)).encode()
    for rows, reasons in (requested(body, MessageLayout("ndjson", FIELDS)), filed(body, "ndjson")):
        assert rows == as_rows(texts) and len(reasons) == 1
    packed = gzip.compress(body, mtime=0)
    for behind, further in ((b"", 0), (bytes(600), 0), (b"behind", 1)):
        rows, reasons = filed(packed + behind, "ndjson", name="f.gz")
        assert rows == as_rows(texts) and len(reasons) == 1 + further


@given(EVENTS, DAMAGE, st.integers(0, 5), st.sampled_from([",", " ,\n"]))
def test_a_damaged_item_of_a_list_takes_none_before_it_with_it_and_invents_none(texts, damage, place, comma):
    items = as_items(texts)
    place %= len(items) + 1
    items.insert(place, damage)
    rows, reasons = requested(f"[{comma.join(items)}]".encode(), MessageLayout("json", FIELDS))
    assert rows[:place] == as_rows(texts)[:place]
    assert len(reasons) == 1 and all(row in as_rows(texts) for row in rows)
    is_closed = damage.count("[") == damage.count("]") and damage.count("{") == damage.count("}") and (
        damage.count('"') - damage.count('\\"')) % 2 == 0
    if is_closed:
        assert rows == as_rows(texts)


@given(EVENTS, st.integers(0, 200), st.sampled_from(["", "x", '"', "{", "]", ",", "\\", "\x00"]), st.integers(0, 3))
def test_whatever_is_changed_in_a_list_nothing_is_lost_untold(texts, at, put, gone):
    whole = json.dumps([{"n": n, "text": text} for n, text in enumerate(texts)])
    at %= len(whole)
    body = whole[:at] + put + whole[at + gone:]
    rows, reasons = requested(body.encode(), MessageLayout("json", FIELDS))
    assert reasons or len(rows) == len(texts) or _is_a_list_of(body, len(rows))


def _is_a_list_of(body: str, count: int) -> bool:
    """Whether the change made another list, of so many objects: then nothing is damaged."""
    document = json.loads(body)
    return len(document if isinstance(document, list) else [document]) == count


CSV_DAMAGE = st.sampled_from([
    '7,"open', '"7,open', "7", "7,a,b", 'x,a', '"7"x,a', '7,a"b"c,d', '""",', "1.5,a", "1_0,a"])


@given(st.lists(st.tuples(st.integers(0, 99), st.text("ab,\n\r\"", min_size=1, max_size=6)), max_size=5), CSV_DAMAGE,
       st.integers(0, 5), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_a_damaged_record_takes_no_other_with_it(rows, damage, place, end, has_mark):
    records = []
    for row in rows:
        text = io.StringIO()
        csv.writer(text).writerow(row)
        records.append(text.getvalue().removesuffix("\r\n"))
    place %= len(records) + 1
    records.insert(place, damage)
    opens = damage.count('"') % 2
    mark = "\ufeff" * has_mark
    body = end.join(records)
    header = end.join(["n,text", body])
    for seen, reasons in (requested((mark + body).encode(), MessageLayout("csv", FIELDS)),
                          filed((mark + body).encode(), "csv"), filed((mark + header).encode(), "csv", header=True)):
        assert seen[:place] == rows[:place] and reasons
        if not opens or not any('"' in record for record in records[place + 1:]):
            assert seen == rows and len(reasons) == 1


@pytest.mark.parametrize(("header", "reason"), [
    ("ID, TEXT", "has none of the columns n, text, but ID,  TEXT"), ("n,n", "has n twice"), ('"n', "is no CSV"),
    ("n\x00text", "none of the columns"), ("n," * 2_000_000 + "text", "has n twice")],
    ids=["others", "twice", "a quote", "zeros", "very often"])
def test_a_header_that_does_not_fit_is_told_and_no_event_of_nulls_comes(header, reason):
    rows, reasons = filed(f"{header}\n1,x\n2,y\n".encode(), "csv", header=True)
    assert not rows and len(reasons) == 1 and reason in reasons[0]


def test_a_long_field_is_one_and_a_record_beyond_the_bound_is_told_alone():
    long = "x" * 1_000_000
    assert requested(f"1,{long}\n2,b\n".encode(), MessageLayout("csv", FIELDS)) == ([(1, long), (2, "b")], [])


TIMES = st.lists(st.integers(-4, 4) | st.sampled_from([2**62, -(2**62)]), max_size=6)


@given(TIMES)
def test_a_row_of_a_table_with_a_time_that_is_none_takes_no_other_with_it(times):
    table = pa.table({"n": list(range(len(times))), "at": pa.array(times, pa.timestamp("us"))})
    good = [n for n, time in enumerate(times) if abs(time) < 100]
    sink, parquet = pa.BufferOutputStream(), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    pq.write_table(table, parquet)
    layout = MessageLayout("arrow", {"n": "bigint", "at": "timestamp"})
    rows, reasons = requested(sink.getvalue().to_pybytes(), layout)
    assert [row[0] for row in rows] == good and len(reasons) == len(times) - len(good)
    for body, format in ((sink.getvalue().to_pybytes(), "arrow"), (parquet.getvalue().to_pybytes(), "parquet")):
        piece = FilePieces(io.BytesIO(body), FileReading("f", format, columns=("n", "at"))).take()
        assert [message.values["n"] for message in piece.messages] == good
        assert len(piece.dead) == len(times) - len(good)


@pytest.mark.parametrize("value", ["1e99999", "-1e999990", "0e999990", "1" * 5_000])
def test_a_number_that_is_no_time_is_not_written_out(value):
    """Eight characters took half a minute, in which Python did nothing else of the process that reads all sources."""
    with pytest.raises(ValueError):
        cast_to("timestamp")(WrittenNumber(value))
    rows, reasons = requested(f'[{{"n":1,"at":{value}}},{{"n":2,"at":0}}]'.encode(), MessageLayout(
        "json", {"n": "bigint", "at": "timestamp"}))
    assert [row[0] for row in rows] == [2] and "is no timestamp" in reasons[0]


@pytest.mark.parametrize("value", ["1e200000", "-1e-200000", "9e999999999"])
def test_a_decimal_of_another_system_is_not_written_out(value):
    with pytest.raises(ValueError):
        cast_to("string")(Decimal(value))
    assert lookups._text(Decimal(value)) == str(Decimal(value))


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../../etc/passwd", "+99:99", "UTC\0", "."])
def test_times_of_a_zone_that_nobody_knows_take_no_other_message_with_them(zone):
    """One such message ended its source, and came again whenever that was opened anew."""
    times = pa.array([0], pa.int64())
    schema = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", zone))])
    table = pa.Table.from_arrays(
        [pa.array([1]), pa.Array.from_buffers(schema.field("at").type, 1, times.buffers())], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    layout = MessageLayout("arrow", {"n": "bigint", "at": "string"})
    decoded = decode([Message(body, "m0"), Message(body[:-30], "m1")], layout, now_ms=0)
    assert [letter.place for letter in decoded.dead] == ["m0", "m1"] and "field at" in decoded.dead[0].reason
    [letter] = FilePieces(io.BytesIO(body), FileReading("f", "arrow", columns=("n", "at"))).take().dead
    assert "cannot be read" in letter.reason
    assert rows_in(table) == [{"n": 1, "at": f"what cannot be shown (timestamp[us, tz={zone}])"}]


@given(st.integers(0, 3), st.integers(0, 400), st.binary(min_size=8, max_size=40), st.sampled_from(["snappy", "none"]))
def test_a_damaged_group_of_parquet_takes_no_other_with_it(group, at, garbage, codec):
    table, sink = pa.table({"n": list(range(40)), "text": [f"{n:08}" for n in range(40)]}), pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=10, compression=codec, write_statistics=False)
    body = bytearray(sink.getvalue().to_pybytes())
    column = pq.ParquetFile(io.BytesIO(body)).metadata.row_group(group).column(at % 2)
    begin = column.dictionary_page_offset or column.data_page_offset
    at = begin + at % column.total_compressed_size
    end = min(at + len(garbage), begin + column.total_compressed_size)
    body[at:end] = garbage[:end - at]
    rows, reasons = filed(bytes(body), "parquet")
    others = [row for row in rows if not group * 10 <= (row[0] or 0) < group * 10 + 10]
    assert set(as_rows([f"{n:08}" for n in range(40)])) - set(others) <= {
        (n, f"{n:08}") for n in range(group * 10, group * 10 + 10)}
    assert len(rows) + 10 * len(reasons) >= 40


@given(st.lists(st.sampled_from(["good", "bad"]), max_size=6),
       st.sampled_from(["json", "ndjson", "csv", "arrow", "text"]))
def test_a_damaged_message_takes_no_other_of_its_poll_with_it(kinds, format):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("n", pa.int64()), ("text", pa.string())])) as writer:
        writer.write_table(pa.table({"n": [1], "text": ["a"]}))
    good = {"json": b'{"n":1,"text":"a"}', "ndjson": b'{"n":1,"text":"a"}', "csv": b"1,a",
            "arrow": sink.getvalue().to_pybytes(), "text": b"a"}[format]
    bad = {"arrow": good[:-30]}.get(format, b'"\xff{')
    messages = [Message(good if kind == "good" else bad, f"m{place}") for place, kind in enumerate(kinds)]
    decoded = decode(messages, MessageLayout(format, {} if format == "text" else FIELDS), now_ms=0)
    assert len(decoded.rows) == kinds.count("good")
    assert [letter.place for letter in decoded.dead] == [f"m{n}" for n, kind in enumerate(kinds) if kind == "bad"]


@pytest.mark.parametrize(("column", "kind", "right"), [
    (pa.array([Decimal("8.5"), Decimal("8.0")]), "bigint", [None, 8]),
    (pa.array([Decimal("8.5")]), "decimal(10,2)", [Decimal("8.50")]),
    (pa.array([Decimal("8.555"), Decimal("123456789")], pa.decimal128(20, 3)), "decimal(10,2)", [None, None]),
    (pa.array([2**53 + 1]), "bigint", [2**53 + 1]), (pa.array([2**64 - 1], pa.uint64()), "bigint", [None]),
    (pa.array([b"\xff"]), "binary", [b"\xff"]), (pa.array([b"\xff"]), "string", [None]),
    (pa.array([math.inf, 1.5]), "double", [math.inf, 1.5]), (pa.array([math.inf, 1.5]), "bigint", [None, None]),
    (pa.array([math.nan]), "decimal(3,1)", [None]),
    (pa.array([1_000_000_001], pa.timestamp("ns")), "timestamp", [None])])
def test_a_type_keeps_a_value_of_a_table_or_its_event_is_a_dead_letter(column, kind, right):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("v", column.type)])) as writer:
        writer.write_table(pa.table({"v": column}))
    rows, reasons = requested(sink.getvalue().to_pybytes(), MessageLayout("arrow", {"v": kind}))
    assert [row[0] for row in rows] == [value for value in right if value is not None]
    assert len(reasons) == right.count(None)


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-10**20, max_value=10**20)


@given(st.lists(NUMBERS, max_size=4))
def test_numbers_of_json_and_csv_are_what_their_text_says(numbers):
    texts = [f"{number:f}" for number in numbers]
    layout = {"v": "decimal(30,4)", "text": "string"}
    body = "[" + ",".join(f'{{"v":{text},"text":{text}}}' for text in texts) + "]"
    assert requested(body.encode(), MessageLayout("json", layout)) == (list(zip(numbers, texts, strict=True)), [])
    body = "\n".join(f"{text},{text}" for text in texts)
    assert requested(body.encode(), MessageLayout("csv", layout)) == (list(zip(numbers, texts, strict=True)), [])


@pytest.mark.parametrize(("text", "as_string"), [
    ("1.10", "1.10"), ("-0", "-0"), ("1E5", "1E5"), ("12345678901234567890123456789012345.67", None),
    ('{"a": [1.10, -0]}', '{"a": [1.10, -0]}'), ("true", "true")])
def test_a_value_of_json_as_text_is_its_text(text, as_string):
    rows, reasons = requested(f'{{"v": {text}}}'.encode(), MessageLayout("json", {"v": "string"}))
    assert rows == [(as_string or text,)] and not reasons


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_a_text_of_json_from_source_to_sink(value):
    text = not_finite(value)
    assert json_ready({"v": value}) == {"v": text}
    for body in (json.dumps({"v": text}), json.dumps([{"v": text}])):
        [(read,)], reasons = requested(body.encode(), MessageLayout("json", {"v": "double"}))
        assert repr(read) == repr(value) and not reasons
    assert requested(json.dumps({"v": value}).encode(), MessageLayout("json", {"v": "double"}))[0] == []


@pytest.mark.parametrize(("body", "why"), [
    (b"\0\0\0\0\x07\x02\x06\xffabc", "framed for a schema registry (schema 7)"),
    (gzip.compress(b"{}", mtime=0), "packed by gzip"),
    (b'{"a":"\xff"}', "is no text in UTF-8")])
@pytest.mark.parametrize("format", ["json", "ndjson", "csv"])
def test_a_message_of_another_kind_is_told_as_that(body, why, format):
    rows, reasons = requested(body, MessageLayout(format, FIELDS))
    assert not rows and why in reasons[0] and "codec" not in reasons[0]


def test_a_decimal_may_be_the_time_of_an_event():
    layout = MessageLayout("json", {"at": "decimal(20,3)"}, time_field="at", time_unit="s")
    assert list(decode([Message(b'{"at": 1700000000.123}')], layout, now_ms=0).times_ms) == [1_700_000_000_123]


@pytest.mark.parametrize("levels", [100, 900, 990, 5000])
def test_a_value_of_many_levels_is_told_alone(levels):
    body = b'[{"n":1},{"n":' + b"[" * levels + b"]" * levels + b'},{"text":' + b"[" * levels + b"]" * levels + b"}]"
    rows, reasons = requested(body, MessageLayout("json", FIELDS))
    assert rows == [(1, None)] and len(reasons) == 2


def test_text_in_utf_16_is_told_where_no_format_says_that_it_may_be():
    assert "UTF-16" in requested("a,ü".encode("utf-16"), MessageLayout("csv", FIELDS))[1][0]
    assert requested('{"n": 1}'.encode("utf-16"), MessageLayout("json", FIELDS)) == ([(1, None)], [])


def test_what_json_has_no_value_for_is_written_so_that_it_is_read_again():
    at = datetime(2026, 5, 1, tzinfo=UTC)
    event = json_ready({"at": at, "raw": b"\xff\x00", "cost": Decimal("1.10"), "big": 2**63 - 1})
    kinds = {"at": "timestamp", "raw": "binary", "cost": "decimal(10,2)", "big": "bigint"}
    assert requested(json.dumps(event).encode(), MessageLayout("json", kinds)) == (
        [(at, b"\xff\x00", Decimal("1.10"), 2**63 - 1)], [])


@pytest.mark.parametrize(("value", "key"), [
    (-0.0, b"0.0"), (0.0, b"0.0"), (math.nan, b"NaN"), (Decimal("0E-10"), b"0.0000000000"), (b"\xff", b"\xff"),
    ("ü", "ü".encode()), (2**63 - 1, b"9223372036854775807"), (True, b"True"),
    (Decimal("12345678901234567890123456789012345.678"), b"12345678901234567890123456789012345.678")])
def test_the_key_of_a_message_is_the_text_of_its_value(value, key):
    assert as_key(value) == key
