"""Parquet from outside, looked at before Arrow unpacks it: what its footer and its pages say that they come to.

A few hundred bytes can hold gigabytes: a page is unpacked whole, a value that a dictionary has once is there as often
as rows name it, and a row's list has no end. Arrow reads a column's part of a row group at once; its pages' headers
(``PageHeader`` of parquet.thrift, in Thrift's compact protocol) are read from those very bytes first.
"""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf
from typing import BinaryIO, NamedTuple

import pyarrow.parquet as pq

from scheduler.model.bounds import FILE_BYTES, FILE_FIXED, FILE_FOOTER, FILE_GROUP, FILE_ITEMS, FILE_VALUES

from .arrow_messages import TooMuch, require_schema_in

DECIMAL_PAGE_BYTES = 2 << 20  # of decimals that are bytes: one of them may be as long as its page
DECIMAL_ROWS = FILE_BYTES.most // DECIMAL_PAGE_BYTES  # that are read at a time, where there are any
MOST_LEVELS = 32  # of structs in a header
_STOP, _I16_TO_I64, _BINARY, _LISTS, _MAP, _STRUCT = 0, (4, 5, 6), 8, (9, 10), 11, 12
_UNPACKED, _PACKED = 2, 3  # fields of a header: bytes of its page, unpacked and as they are
_OF_DATA, _VALUES = (5, 8), 1  # fields of a header that say what its data is, and of these how many values
_ELEMENTS, _OF_ELEMENTS, _CHILDREN = 2, 2, 5  # fields of a footer and of its schema's elements, and their level
_MAGIC, _SCHEMA_KEY = b"PAR1", b"ARROW:schema"
LONG_TEXT = 1_000  # bytes of a text that may be a schema of Arrow which comes to much
SMALL_FOOTER = 8 << 10  # bytes of one that comes to little, if no list in it has more items than that: 70 MB at most


def metadata_of(file: BinaryIO) -> pq.FileMetaData:
    """A file's metadata, of the very footer that was looked at: a store may give another the second time.

    A column's part takes three bytes there and 700 of memory, and its list is made as long as it says before the first
    is read. The names around a column are written out for each, and a schema of Arrow is in it as a text.

    Raises
    ------
    TooMuch
        The footer is too large, lists too much, or has a schema that is too large once it is made.
    pyarrow.ArrowException, ValueError, OSError
        It is none.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - 8))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if len(end) < 8 or end[4:] != _MAGIC or length > size - 8:
        raise ValueError("it has no footer of Parquet that is not encrypted")
    if length > FILE_FOOTER.most:
        raise TooMuch(f"has a footer of {length:,} bytes, where {FILE_FOOTER.most:,} may be")
    file.seek(size - 8 - length)
    content = file.read(length)
    if length > SMALL_FOOTER:
        _require_footer(content)
    return pq.ParquetFile(
        io.BytesIO(_MAGIC + content + end), thrift_container_size_limit=max(1, length)).metadata


def _require_footer(content: bytes) -> None:
    footer = _Footer(content, 0)
    footer.struct(0)
    if sum(footer.path_lengths()) > FILE_FOOTER.most:
        raise TooMuch(f"has columns whose paths have more than {FILE_FOOTER.most:,} characters together")
    if footer.has_schema:
        for text in footer.long_texts:
            with suppress(struct.error):  # another text, or one that Arrow says is none
                require_schema_in(text)


def dictionaries_of(metadata: pq.FileMetaData, names: Sequence[str]) -> list[str]:
    """The paths of texts and bytes within these columns: they stay dictionaries until it is known how long they are."""
    return [column.path for column in _columns_of(metadata, names) if column.physical_type == "BYTE_ARRAY"]


def has_json(metadata: pq.FileMetaData, names: Sequence[str]) -> bool:
    """True if one of these columns holds JSON texts. Arrow has a type of its own for them, and repeats a text for each
    row that names it before anybody can count."""
    return any(column.logical_type.type == "JSON" for column in _columns_of(metadata, names))


def has_written_decimals(metadata: pq.FileMetaData, names: Sequence[str]) -> bool:
    """True where one of these columns holds decimals as bytes of any length, which Arrow reads for each row before it
    says that they are too long."""
    return any(map(_is_written_decimal, _columns_of(metadata, names)))


def _is_written_decimal(column: pq.ColumnSchema) -> bool:
    return column.physical_type == "BYTE_ARRAY" and column.logical_type.type == "DECIMAL"


def _columns_of(metadata: pq.FileMetaData, names: Sequence[str]) -> Iterator[pq.ColumnSchema]:
    columns, is_within = map(metadata.schema.column, range(metadata.num_columns)), _within(names)
    return (column for column in columns if is_within(column.path))


def _within(names: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path is one of these columns, or within one; in a time that does not grow with their number."""
    wanted = frozenset(names)
    lengths = sorted({len(name) for name in wanted})

    def is_within(path: str) -> bool:
        fitting = lengths[:bisect_right(lengths, len(path))]
        return any(path[length:length + 1] in ("", ".") and path[:length] in wanted for length in fitting)

    return is_within


class ColumnPart(NamedTuple):
    """A column's part of a row group: its bytes, how many values it may have, and how many bytes a page of it."""

    length: int
    most_values: float
    most_page: float = inf


def require_bounds(metadata: pq.FileMetaData, group: int, names: Sequence[str]) -> dict[int, ColumnPart]:
    """A row group's parts of these columns, by where they begin.

    Raises
    ------
    TooMuch
        A value's fixed length is too large, or all that is to be read of the group.
    """
    parts: dict[int, ColumnPart] = {}
    row_group, stored_bytes, is_within = metadata.row_group(group), 0, _within(names)
    for number in range(row_group.num_columns):
        column, part = metadata.schema.column(number), row_group.column(number)
        if not is_within(column.path):
            continue
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY" and column.length > FILE_FIXED.most:
            # A dictionary has it once, and Arrow has it as often as rows name it.
            raise TooMuch(f"has values of {column.length:,} bytes each, where {FILE_FIXED.most:,} may be")
        stored_bytes += part.total_compressed_size  # all that Arrow holds at a time
        if stored_bytes > FILE_GROUP.most:
            raise TooMuch(f"has {stored_bytes:,} bytes of columns together, where {FILE_GROUP.most:,} may be")
        begin = part.data_page_offset  # as Arrow has it
        if part.dictionary_page_offset and 0 < part.dictionary_page_offset < begin:
            begin = part.dictionary_page_offset
        parts[begin] = ColumnPart(
            part.total_compressed_size, FILE_VALUES.most if column.max_repetition_level else inf,
            DECIMAL_PAGE_BYTES if _is_written_decimal(column) else inf)
    return parts


class PagedFile(io.RawIOBase):
    """The same file, of which no column's part is given on before its pages were looked at."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.parts: dict[int, ColumnPart] = {}  # of the row group that is read

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        begin = self._file.tell()
        content = self._file.read(size)
        if any(first < begin < first + part.length for first, part in self.parts.items()):
            raise ValueError("a part of a column is read from its middle")
        for first, part in self.parts.items():
            if begin <= first < begin + len(content):
                require_pages(content[first - begin:first - begin + part.length], part)
        return content


def require_pages(content: bytes, part: ColumnPart) -> None:
    """Raise ``TooMuch`` where a page comes to more than a batch may have, or all lists of them; ``ValueError`` where a
    page's header is none."""
    if len(content) < part.length:
        raise ValueError("a part of a column is not read whole")
    at = values = 0
    while at < len(content):
        header = _Header(content, at)
        header.struct(0)
        if header.unpacked > (most := min(part.most_page, FILE_BYTES.most)):
            raise TooMuch(f"has a page of {header.unpacked:,} bytes, where {most:,} may be decoded")
        values += header.values
        if values > part.most_values:
            raise TooMuch(f"has lists of {values:,} values, where {part.most_values:,} may be")
        if header.packed < 0:
            raise ValueError("a page has no length")
        at = header.at + header.packed


class _Header:
    """A page's header, read so far: the largest that any field of that number says, for a reader may take either."""

    def __init__(self, content: bytes, at: int) -> None:
        self._content, self.at = content, at
        self.unpacked, self.packed, self.values = 0, -1, 0

    def struct(self, level: int, within: int = 0) -> None:
        """Read a struct's fields up to its end; ``within`` is the field of the header that it is."""
        if level > MOST_LEVELS:
            raise ValueError("a page's header has too many levels")
        field = 0
        while (head := self._byte()) != _STOP:
            kind = head & 15
            field = field + (head >> 4) if head >> 4 else self._signed()
            value = self._value(kind, level, field)
            if level == 1 and within in _OF_DATA and field == _VALUES and value is not None:
                self.values = max(self.values, abs(value))
            if level == 0 and field == _UNPACKED and value is not None:
                self.unpacked = max(self.unpacked, value) if value >= 0 else FILE_BYTES.most + 1
            elif level == 0 and field == _PACKED and value is not None:
                if self.packed not in (-1, value):
                    raise ValueError("a page has two lengths")
                self.packed = value

    def _value(self, kind: int, level: int, field: int = 0) -> int | None:
        """Read a value; returns it if it is a whole number."""
        if kind in _I16_TO_I64:
            return self._signed()
        if kind == 3:
            self.at += 1
        elif kind == 7:
            self.at += 8
        elif kind == _BINARY:
            self._text(self._unsigned())
        elif kind in _LISTS:
            head = self._byte()
            count, inner = (self._unsigned() if head >> 4 == 15 else head >> 4), head & 15
            for _ in range(self._counted(count, inner)):
                self._item(inner, level)
        elif kind == _MAP:
            count = self._counted(self._unsigned(), _STRUCT)
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._item(kinds >> 4, level)
                self._item(kinds & 15, level)
        elif kind == _STRUCT:
            self.struct(level + 1, field)
        elif kind not in (1, 2):  # booleans are in the kind itself
            raise ValueError("a page's header cannot be read")
        return None

    def _item(self, kind: int, level: int) -> None:
        """Read an item of a list or map, where a boolean has a byte."""
        if level > MOST_LEVELS:
            raise ValueError("a page's header has too many levels")
        if kind in (1, 2):
            self.at += 1
        else:
            self._value(kind, level + 1)

    def _text(self, length: int) -> None:
        self.at += length

    def _counted(self, count: int, kind: int) -> int:
        if count > len(self._content) - self.at:  # an item has a byte at least
            raise ValueError("a page's header cannot be read")
        return count

    def _byte(self) -> int:
        if self.at >= len(self._content):
            raise ValueError("a page's header is cut short")
        self.at += 1
        return self._content[self.at - 1]

    def _unsigned(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a page's header has a number that is too long")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


class _Footer(_Header):
    """A file's footer, read as a header is: how much it lists, its long texts, and the lengths of its columns' paths,
    which Arrow and its Python write out for each column."""

    def __init__(self, content: bytes, at: int) -> None:
        super().__init__(content, at)
        self.has_schema, self.long_texts = False, list[bytes]()
        self._items, self._part = 0, 0  # what is listed so far; the field of the footer that is read
        self._elements: list[list[int]] = []  # of its schema: the length of each name, and how many are within it

    def struct(self, level: int, within: int = 0) -> None:
        if self._part == _ELEMENTS and level == _OF_ELEMENTS:
            self._elements.append([0, 0])
        super().struct(level, within)

    def path_lengths(self) -> Iterator[int]:
        """The length of each column's path, in the order of columns."""
        around: list[list[int]] = []  # of the groups that the next element is in: how many are missing, and the length
        for name, children in self._elements[1:]:
            length = (around[-1][1] if around else 0) + name + 1
            if around:
                around[-1][0] -= 1
            if children > 0:
                around.append([children, length])
            else:
                yield length
            while around and around[-1][0] <= 0:
                around.pop()

    def _value(self, kind: int, level: int, field: int = 0) -> int | None:
        if level == 0:
            self._part = field
        value = super()._value(kind, level, field)
        if self._part == _ELEMENTS and level == _OF_ELEMENTS and field == _CHILDREN:
            self._elements[-1][1] = value or 0
        return value

    def _text(self, length: int) -> None:
        if self._part == _ELEMENTS and self._elements:
            self._elements[-1][0] += length
        text = self._content[self.at:self.at + length]
        self.has_schema = self.has_schema or text == _SCHEMA_KEY
        if length > LONG_TEXT:
            self.long_texts.append(text)
        super()._text(length)

    def _counted(self, count: int, kind: int) -> int:
        self._items += count if kind in (_BINARY, _STRUCT) else 0
        if self._items > FILE_ITEMS.most:
            raise TooMuch(f"has a footer that lists more than {FILE_ITEMS.most:,} items")
        return super()._counted(count, kind)
