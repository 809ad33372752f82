"""Parquet whose pages are looked at before they are unpacked: bombs are dead letters, honest files are as before."""

from __future__ import annotations

import io
import uuid
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.connectors import parquet_pages
from workers.engine.connectors.contract import DeadLetter
from workers.engine.connectors.file_pieces import FileReading, _parquet
from workers.engine.connectors.parquet_pages import ColumnPart, require_pages

MOST = 1 << 20
BIG = b"a" * (2 * MOST)
AGAIN = pa.array([0] * 100, pa.int32())
ROWS = [{"n": i, "t": "x" * (i % 50), "s": {"x": i / 2}, "l": list(range(i % 4)), "a.b": b"q", "d": i % 3 or None}
        for i in range(3000)]
BOMBS = {
    "a page": (pa.array([BIG]), "a page of"),
    "a page of many values": (pa.array([BIG[:MOST // 10]] * 20), "a page of"),
    "a value of fixed length": (
        pa.DictionaryArray.from_arrays(AGAIN, pa.array([BIG[:2000]], pa.binary(2000))), "values of 2,000 bytes each"),
    "a text within a record": (pa.StructArray.from_arrays(
        [pa.DictionaryArray.from_arrays(AGAIN, pa.array(["long"]))], ["x"]), "write it plain"),
    "a list": (pa.ListArray.from_arrays(pa.array([0, 20_000], pa.int32()), pa.nulls(20_000, pa.bool_())), "lists of"),
    "lists": (pa.array([[None] * 1000] * 20, pa.list_(pa.bool_())), "lists of")}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test need not fill memory to pass."""
    monkeypatch.setattr(parquet_pages, "FILE_BYTES", replace(parquet_pages.FILE_BYTES, most=MOST))
    monkeypatch.setattr(parquet_pages, "FILE_VALUES", replace(parquet_pages.FILE_VALUES, most=10_000))


def written(table: pa.Table, **options: object) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(table, file, **{"compression": "zstd", "data_page_size": 1 << 30, **options})
    file.seek(0)
    return file


def read(file: io.BytesIO) -> list[object]:
    return [event if isinstance(event, DeadLetter) else dict(event.values)
            for _, _, event in _parquet(file, FileReading("x.parquet", "parquet"), None)]


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_bomb_is_a_dead_letter(bomb: str, version: str) -> None:
    column, words = BOMBS[bomb]
    file = written(pa.table({"v": column}), data_page_version=version,
                   use_dictionary=isinstance(column, pa.DictionaryArray) or bomb == "a text within a record")
    [dead] = read(file)
    assert isinstance(dead, DeadLetter) and words in dead.reason


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_an_honest_file_is_read_whole(compression: str, version: str, dictionary: bool) -> None:
    file = written(pa.Table.from_pylist(ROWS), compression=compression, data_page_version=version,
                   use_dictionary=dictionary, row_group_size=1100, data_page_size=2000)
    assert read(file) == ROWS


def test_texts_of_json_and_identifiers_are_read_as_they_are() -> None:
    texts, ids = ['{"a": 1}', None, "[]"], [uuid.UUID(int=number) for number in range(3)]
    json_texts = pa.ExtensionArray.from_storage(pa.json_(pa.utf8()), pa.array(texts))
    identifiers = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([identifier.bytes for identifier in ids], pa.binary(16)))
    assert read(written(pa.table({"j": json_texts}))) == [{"j": text} for text in texts]
    assert read(written(pa.table({"u": identifiers}))) == [{"u": identifier} for identifier in ids]


def decimals(values: list[bytes]) -> io.BytesIO:
    """A file whose bytes its footer says to be decimals of nine digits, as other writers have them."""
    body = written(pa.table({"text": pa.array(values, pa.binary())}), store_schema=False).getvalue()
    size = int.from_bytes(body[-8:-4], "little")
    footer = body[-8 - size:-8]
    behind = footer.index(b"\x04text") + 5
    footer = footer[:behind] + bytes.fromhex("250a15001512") + footer[behind:]
    return io.BytesIO(body[:-8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def test_a_decimal_that_is_bytes_of_any_length_is_bounded_by_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow read one of a megabyte for each of 10,000 rows, and then said that it is too long for a decimal."""
    assert read(decimals([bytes([1, 44])] * 300)) == [{"text": Decimal(300)}] * 300
    monkeypatch.setattr(parquet_pages, "DECIMAL_PAGE_BYTES", 1_000)
    [dead] = read(decimals([b"x" * 2_000] * 300))
    assert isinstance(dead, DeadLetter) and "where 1,000 may be" in dead.reason


def test_a_file_without_rows_has_none() -> None:
    assert read(written(pa.table({"n": pa.array([], pa.int64()), "t": pa.array([], pa.string())}))) == []


def test_a_footer_that_says_less_than_the_pages_hides_nothing() -> None:
    """The pages' own headers count, not what the footer says of them."""
    table = pa.table({"v": pa.array([[None] * 1000] * 20, pa.list_(pa.bool_()))})
    whole = written(table).getvalue()
    part = pq.ParquetFile(io.BytesIO(whole)).metadata.row_group(0).column(0)
    begin = part.dictionary_page_offset or part.data_page_offset
    pages = whole[begin:begin + part.total_compressed_size]
    require_pages(pages, ColumnPart(len(pages), 20_000))
    with pytest.raises(parquet_pages.TooMuch):
        require_pages(pages, ColumnPart(len(pages), 19_999))


@given(st.binary(max_size=300))
def test_no_bytes_take_the_reader_of_headers_elsewhere(content: bytes) -> None:
    with suppress(ValueError):  # TooMuch is one
        require_pages(content, ColumnPart(len(content), 10.0))
