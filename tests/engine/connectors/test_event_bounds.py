"""Events that decode to more than may be: told as dead letters or refused, while what came with them is taken."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import bounds
from workers.engine.connectors import formats
from workers.engine.connectors.arrow_streams import DecodingRoom, TooMuch, batches_of
from workers.engine.connectors.contract import Message
from workers.engine.connectors.file_pieces import FilePieces, FileReading
from workers.engine.connectors.formats import Decoded, MessageLayout, decode

HONEST = b'{"a": 1}'


def stream(table: pa.Table, *, compression: str | None = "zstd", as_file: bool = False) -> bytes:
    sink = io.BytesIO()
    new = pa.ipc.new_file if as_file else pa.ipc.new_stream
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def shared_text() -> pa.Array:
    """A megabyte of text that each of many events has, at one place."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array(["x" * 1_000_000]))


def shared_otherwise(way: str) -> pa.Array:
    """The same by types that are stored as another, or that have a place for each value."""
    places = pa.array([0] * 100_000, pa.int32())
    if way == "fixed":
        return pa.DictionaryArray.from_arrays(places, pa.array([b"x" * 1_000_000], pa.binary(1_000_000)))
    if way == "union":
        return pa.UnionArray.from_dense(
            pa.array([0] * 100_000, pa.int8()), places, [pa.array(["x" * 1_000_000])])
    extended = pa.ExtensionArray.from_storage(pa.opaque(shared_text().type, "a", "b"), shared_text())
    return extended if way == "extended" else pa.StructArray.from_arrays([extended], ["inner"])


def shared_view() -> pa.Array:
    buffers = pa.array(["x" * 1_000_000], pa.string_view()).buffers()
    views = pa.py_buffer(buffers[1].to_pybytes()[:16] * 100_000)
    return pa.Array.from_buffers(pa.string_view(), 100_000, [None, views, *buffers[2:]])


EVENTS, VALUES = bounds.MESSAGE_EVENTS.most, bounds.MESSAGE_VALUES.most
MUCH: list[tuple[str, str, Callable[[], bytes], str]] = [
    ("one compressed column", "arrow", lambda: stream(pa.table({"a": pa.array([0] * 4_000_000)})), "events"),
    ("the same by LZ4", "arrow", lambda: stream(pa.table({"a": [0] * 4_000_000}), compression="lz4"), "events"),
    ("nulls, which take no bytes", "arrow", lambda: stream(pa.table({"a": pa.nulls(4_000_000)})), "events"),
    ("one long text", "arrow", lambda: stream(pa.table({"a": ["x" * 100_000_000]})), "bytes"),
    ("one list of nulls", "arrow", lambda: stream(pa.table({"a": [[None] * 3_000_000]})), "values"),
    ("a text that many have", "arrow", lambda: stream(pa.table({"a": shared_text()})), "bytes"),
    ("a view that many have", "arrow", lambda: stream(pa.table({"a": shared_view()}), compression=None), "bytes"),
    ("a value of fixed length that many have", "arrow",
     lambda: stream(pa.table({"a": shared_otherwise("fixed")})), "bytes"),
    ("empty records", "json", lambda: b"[" + b"{}," * EVENTS + b"{}]", "events"),
    ("empty lists in one event", "json", lambda: b'{"a": [' + b"[]," * VALUES + b"[]]}", "values"),
    ("a text that does not end", "json", lambda: b"[" + b"," * VALUES + b'"' + b'\\"' * 200_000, "values"),
    ("behind a quote in the line before", "ndjson", lambda: b'"\n[' + b"0," * VALUES + b'0]\n"', "values"),
    ("quotes of UTF-16", "json", lambda: ('["\\"", ' + "0," * VALUES + '"x"]').encode("utf-16"), "values"),
    ("empty records in lines", "ndjson", lambda: b"{}\n" * (EVENTS + 1), "events"),
    ("lines of CSV", "csv", lambda: b"1\n" * (EVENTS + 1), "events")]


def decoded(*bodies: bytes, format: str, **more: bool) -> Decoded:
    messages = [Message(body, f"message {number}") for number, body in enumerate(bodies)]
    return decode(messages, MessageLayout(format, {"a": "string"}), now_ms=1, **more)


@pytest.mark.parametrize(("what", "format", "body", "word"), MUCH, ids=[what for what, *_ in MUCH])
def test_a_message_that_decodes_to_too_much_is_a_dead_letter_and_takes_no_other_with_it(
    what: str, format: str, body: Callable[[], bytes], word: str
) -> None:
    honest = stream(pa.table({"a": ["1"]})) if format == "arrow" else b"1" if format == "csv" else HONEST
    got = decoded(honest, body(), honest, format=format)
    [letter] = got.dead
    assert list(got.rows) == [("1",), ("1",)] and letter.place == "message 1"
    assert word in letter.reason and "of what may be" in letter.reason
    with pytest.raises(TooMuch, match=word):
        decoded(body(), format=format, refuses=True)


def test_messages_that_come_together_have_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "POLL_EVENTS", bounds.InputBound("", "", 5, ""))
    got = decoded(b"[{}, {}, {}]", b"[{}, {}, {}]", b"[{}, {}]", format="json")
    assert len(got.rows) == 5 and [letter.place for letter in got.dead] == ["message 1"]


def test_commas_and_brackets_in_texts_are_no_values() -> None:
    text = b'["' + b'[,{\\"' * 1_000_000 + b'"]'
    assert len(decoded(b'[{"a": ' + text + b"}]", format="json").rows) == 1


@pytest.mark.parametrize("fields", [{"a": "string"}, {}])
@pytest.mark.parametrize("levels", [bounds.MESSAGE_DEPTH.most, 400, 100_000])
def test_a_value_nested_too_deep_is_a_dead_letter(levels: int, fields: dict[str, str]) -> None:
    body = b'{"a": ' + b"[" * levels + b"]" * levels + b"}"
    got = decode([Message(HONEST), Message(body), Message(HONEST)], MessageLayout("json", fields), now_ms=1)
    is_read = bool(fields) and levels == bounds.MESSAGE_DEPTH.most
    assert (len(got.rows), len(got.dead)) == ((3, 0) if is_read else (2, 1))


@pytest.mark.parametrize("way", ["extended", "within a record", "union"])
def test_values_that_are_at_one_place_are_not_read_under_another_name(way: str) -> None:
    """824 bytes, which anybody with a source's token might post, took as much of the site's memory as they liked."""
    body = stream(pa.table({"a": shared_otherwise(way)}))
    got = decode([Message(body), Message(stream(pa.table({"a": ["x"]})))], MessageLayout(
        "arrow", {"a": "string"}), now_ms=1)
    assert got.rows == [("x",)] and "write it plain" in got.dead[0].reason


def test_a_zone_with_a_very_long_name_is_not_looked_for() -> None:
    times = pa.array([1] * 10).cast(pa.timestamp("us")).view(pa.timestamp("us", "z" * 1_000_000))
    body = stream(pa.table({"a": times}))
    got = decode([Message(body)], MessageLayout("arrow", {"a": "timestamp"}), now_ms=1)
    assert not got.rows and len(got.dead) == 1 and "time zone's name" in got.dead[0].reason


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_what_is_within_the_bounds_is_read_as_it_is(compression: str | None, as_file: bool) -> None:
    table = pa.table({
        "a": list(range(5000)), "t": [f"text {n}" for n in range(5000)], "l": [[1, 2], None, []] * 1666 + [[3], [4]],
        "d": pa.array(["q", "r"] * 2500).dictionary_encode(), "v": pa.array(["abc"] * 5000, pa.string_view())})
    body = stream(table, compression=compression, as_file=as_file)
    batches = list(batches_of(io.BytesIO(body), DecodingRoom(5000, 100_000, 1 << 20), names=table.column_names))
    assert pa.Table.from_batches(batches).to_pylist() == table.to_pylist()


BASE = stream(pa.table({"a": pa.array(["q", "r"] * 500).dictionary_encode(), "l": [[1]] * 1000}))


@given(st.lists(st.tuples(st.integers(0, len(BASE) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_whatever_an_arrow_message_says_it_is_read_or_told(changes: list[tuple[int, int]]) -> None:
    body = bytearray(BASE)
    for place, value in changes:
        body[place] = value
    got = decode([Message(bytes(body))], MessageLayout("arrow", {"a": "string", "l": "string"}), now_ms=1)
    assert got.rows or got.dead or body


def of_file(body: bytes, format: str) -> tuple[int, list[str]]:
    """How many events a file gave, and why the rest of it could not be read."""
    pieces, rows, reasons = FilePieces(io.BytesIO(body), FileReading("f", format, columns=("a",))), 0, []
    while True:
        piece = pieces.take()
        rows += len(piece.messages)
        reasons += [letter.reason for letter in piece.dead]
        if piece.is_over:
            return rows, reasons


def parquet(column: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": column}), sink)
    return sink.getvalue()


@pytest.mark.parametrize(("what", "body", "format"), [
    ("values", lambda: stream(pa.table({"a": pa.ListArray.from_arrays(
        [0, bounds.FILE_VALUES.most + 1], pa.nulls(bounds.FILE_VALUES.most + 1))})), "arrow"),
    ("bytes", lambda: stream(pa.table({"a": shared_text()})), "arrow"),
    ("bytes", lambda: stream(pa.table({"a": shared_text()}), as_file=True), "arrow"),
    ("bytes", lambda: parquet(pa.array(["x" * 1_000_000]).take(pa.array([0] * 2000))), "parquet"),
    ("bytes", lambda: parquet(pa.ExtensionArray.from_storage(
        pa.json_(pa.utf8()), pa.array(["x" * 1_000_000]).take(pa.array([0] * 300)))), "parquet")])
def test_a_file_that_decodes_to_too_much_ends_there(what: str, body: Callable[[], bytes], format: str) -> None:
    rows, reasons = of_file(body(), format)
    assert rows == 0 and what in reasons[0] and "of what may be" in reasons[0]


def test_a_record_of_csv_over_too_many_lines_ends_as_its_first() -> None:
    rows, reasons = of_file(b'"open\n' + b"x\n" * bounds.FILE_LINES.most + b"last\n", "csv")
    assert rows == bounds.FILE_LINES.most + 2 and reasons == []
