"""Schemas of Arrow that are larger than what came: many of their fields are one and the same, at one place."""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scheduler.model.bounds import FILE_FOOTER, FILE_GROUP, MESSAGE_BYTES, MESSAGE_VALUES
from workers.engine.connectors import parquet_pages
from workers.engine.connectors.arrow_messages import FlatTable, messages_of, require_schema_in
from workers.engine.connectors.arrow_streams import DecodingRoom, TooMuch, batches_of, schema_of
from workers.engine.connectors.file_pieces import FilePieces, FileReading

HEAD, END = 8, b"\xff\xff\xff\xff\0\0\0\0"
LONG = "x" * 1_000_000


def message(schema: pa.Schema) -> bytearray:
    return bytearray(schema.serialize().to_pybytes())


def share(table: Callable[[FlatTable], FlatTable | None], number: int, written: bytearray) -> bytearray:
    """Let all parts of a vector be its first part."""
    owner = table(FlatTable.root(bytes(written[HEAD:])))
    assert owner is not None
    first = HEAD + owner._target(number) + 4
    count = owner.length(number)
    target = first + struct.unpack_from("<I", written, first)[0]
    for at in range(first, first + 4 * count, 4):
        struct.pack_into("<I", written, at, max(0, target - at))
    return written


def one_long_name() -> bytearray:
    """A field with a long name, which stands behind all that lead to it; that is where the last one is written."""
    schema = pa.schema([pa.field(LONG, pa.int8()), *(pa.field(str(number), pa.int8()) for number in range(50))])
    return share(lambda root: root.table(2), 1, message(schema))


def one_long_text() -> bytearray:
    pairs = {LONG: "", **{str(number): "" for number in range(50)}}
    return share(lambda root: root.table(2), 2, message(pa.schema([]).with_metadata(pairs)))


def one_record() -> bytearray:
    """A thousand fields, each the same record of a hundred fields."""
    record = pa.struct([pa.field(str(number), pa.int8()) for number in range(100)])
    schema = pa.schema([pa.field("a", record), *(pa.field(str(number), pa.int8()) for number in range(1_000))])
    return share(lambda root: root.table(2), 1, message(schema))


def long_zones() -> bytearray:
    return message(pa.schema([pa.field(str(number), pa.timestamp("s", LONG)) for number in range(34)]))


def metadata_of_batches() -> bytearray:
    sink, batch = io.BytesIO(), pa.record_batch({"a": [1]})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch, custom_metadata={"a": LONG * 34})
    return bytearray(sink.getvalue())


MUCH: dict[str, Callable[[], bytearray]] = {
    "a name": one_long_name, "a text": one_long_text, "a record": one_record, "zones": long_zones,
    "batches": metadata_of_batches,
    "fields": lambda: message(pa.schema([pa.field(str(number), pa.int8()) for number in range(34_000)]))}


@pytest.mark.parametrize("what", MUCH)
def test_a_schema_that_comes_to_much_is_never_made(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 MiB, which anybody with a source's token might post, came to 5 GB in the site."""
    body = bytes(MUCH[what]()) + END
    with pytest.raises(TooMuch, match="schema of more than 33,554,432 bytes"):
        list(batches_of(io.BytesIO(body), DecodingRoom(10, MESSAGE_VALUES.most, MESSAGE_BYTES.most)))


@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_a_schema_is_read_alone_unless_it_comes_to_much(new: Callable[..., pa.ipc.RecordBatchStreamWriter]) -> None:
    sink, schema = io.BytesIO(), pa.schema([pa.field("a", pa.list_(pa.string()))]).with_metadata({"b": "c"})
    new(sink, schema).close()
    body = sink.getvalue()
    assert schema_of(io.BytesIO(body), len(body)).equals(schema, check_metadata=True)
    begin = body[:HEAD] if body.startswith(b"ARROW1") else b""
    for content, why in ((bytes(one_long_name()), "schema of more than"), (END, "no schema"), (body[HEAD:40], None)):
        with pytest.raises((ValueError, pa.ArrowInvalid), match=why):
            schema_of(io.BytesIO(begin + content), 1 << 24)


def test_a_wide_table_is_read_as_it_is() -> None:
    table, sink = pa.table({f"column {number}": [number] for number in range(5_000)}), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    room = DecodingRoom(10, MESSAGE_VALUES.most, MESSAGE_BYTES.most)
    assert pa.Table.from_batches(batches_of(io.BytesIO(sink.getvalue()), room)) == table
    assert len(list(messages_of(io.BytesIO(sink.getvalue()), 1 << 20))) == 2


# Parquet, which keeps a schema of Arrow as a text ---------------------------------------------------------------------


def read(content: bytes) -> list[str]:
    piece = FilePieces(io.BytesIO(content), FileReading("a.parquet", "parquet")).take()
    return [letter.reason for letter in piece.dead] or [str(message.values) for message in piece.messages]


def with_schema(text: bytes) -> bytes:
    file, table = io.BytesIO(), pa.table({"a": [1]})
    with pq.ParquetWriter(file, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"ARROW:schema": text})
    return file.getvalue()


def test_a_schema_of_arrow_in_parquet_is_never_made_either() -> None:
    [reason] = read(with_schema(base64.b64encode(bytes(one_long_name()))))
    assert "schema of more than" in reason
    assert read(with_schema(base64.b64encode(bytes(message(pa.schema([pa.field("a", pa.int64())])))))) == ["{'a': 1}"]
    with pytest.raises(TooMuch):  # Arrow stops at what is no base64, and reads what stands before
        require_schema_in(base64.b64encode(bytes(one_long_name())).rstrip(b"=") + b"\n!")


def number(value: int) -> bytes:
    """A number as Thrift's compact protocol has it."""
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def footer(parts: int, listed: int) -> bytes:
    """A file of Parquet whose group lists so many parts of columns, of which some are there."""
    schema = b"\x48\x04root\x15\x02\x00" + b"\x15\x02\x25\x00\x18\x01a\x00"
    group = b"\x19\xfc" + number(listed) + b"\x26\x00\x00" * parts + b"\x16\x00\x16\x00\x00"
    body = b"\x15\x02\x19\x2c" + schema + b"\x16\x00\x19\x1c" + group + b"\x00"
    return b"PAR1" + body + struct.pack("<I", len(body)) + b"PAR1"


@pytest.mark.parametrize(("content", "why"), [
    (footer(0, 1_000), "deserialize"), (footer(0, 1_000_000), "deserialize"),
    (footer(9_000, 200_000), "cannot be read"), (footer(300_000, 300_000), "lists more than 250,000 items"),
    (b"PAR1" + bytes(9 << 20) + struct.pack("<I", 9 << 20) + b"PAR1", f"where {FILE_FOOTER.most:,} may be"),
    (b"PAR1" + struct.pack("<I", 1_000) + b"PAR1", "no footer"), (b"PAR1", "no footer")],
    ids=["parts that are not there", "a million of them", "many that are not there", "very many parts", "a long one",
         "one that is not there", "none"])
def test_a_footer_that_comes_to_much_is_never_made(content: bytes, why: str) -> None:
    """Of 50 bytes that said a million columns Arrow made 700 MB, and for each 3 MB behind them as much again."""
    [reason] = read(content)
    assert why in reason


def test_names_that_stand_around_many_columns_are_not_written_out_for_each() -> None:
    """120 kB, with a name of 100,000 characters around 2,000 columns, came to 600 MB."""
    columns = b"".join(b"\x15\x02\x25\x00\x18\x04" + b"%04d\x00" % at for at in range(2_000))
    around = b"\x35\x00\x18" + number(100_000) + b"x" * 100_000 + b"\x15" + number(4_000) + b"\x00"
    body = (b"\x15\x02\x19\xfc" + number(2_002) + b"\x48\x04root\x15\x02\x00" + around + columns
            + b"\x16\x00\x19\x0c\x00")
    [reason] = read(b"PAR1" + body + struct.pack("<I", len(body)) + b"PAR1")
    assert "paths have more than" in reason


@pytest.mark.parametrize("kind", [pa.int8(), pa.struct([("x", pa.int8()), ("y.z", pa.list_(pa.string()))])], ids=str)
def test_the_lengths_of_paths_are_those_of_arrow(kind: pa.DataType) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({f"a.{at}": pa.array([None], kind) for at in range(5)}), file)
    footer = parquet_pages._Footer(file.getvalue()[-8 - int.from_bytes(file.getvalue()[-8:-4], "little"):-8], 0)
    footer.struct(0)
    schema = pq.ParquetFile(file).schema
    assert list(footer.path_lengths()) == [len(schema.column(at).path) + 1 for at in range(len(schema))]


def test_a_group_of_more_bytes_than_may_be_held_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow holds all that it reads of a group, and a file in a folder may be of holes alone."""
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1], "b": [2]}), file)
    assert read(file.getvalue()) == ["{'a': 1, 'b': 2}"]
    part = pq.ParquetFile(file).metadata.row_group(0).column(0).total_compressed_size
    monkeypatch.setattr(parquet_pages, "FILE_GROUP", replace(FILE_GROUP, most=part))
    [reason] = read(file.getvalue())
    assert "bytes of columns together" in reason


def test_a_store_that_gives_another_footer_the_second_time_gains_nothing() -> None:
    """What was looked at is what is read."""
    class Changing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            content = super().read(size)
            ends = content.endswith(b"PAR1") and len(content) > 8
            return content if not ends else bytes(len(content))

    table, file = pa.table({"a": [1, 2]}), Changing()
    pq.write_table(table, file)
    piece = FilePieces(file, FileReading("a.parquet", "parquet")).take()
    assert [message.values for message in piece.messages] == [{"a": 1}, {"a": 2}]
