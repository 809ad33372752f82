"""A file in pieces: a few thousand events at a time, from any place between two of them on, however large it is."""

from __future__ import annotations

import gzip
import io
import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from scheduler.model.bounds import FILE_BYTES, FILE_RECORD, FILE_VALUES
from workers.library.json_values import UnreadableMessage

from .arrow_streams import DecodingRoom, batches_of, require_room, rows_of
from .contract import MOST_BYTES, MOST_MESSAGES, DeadLetter, Message
from .csv_records import lines_of, records_of, values_of
from .parquet_pages import (
    DECIMAL_ROWS,
    PagedFile,
    dictionaries_of,
    has_json,
    has_written_decimals,
    metadata_of,
    require_bounds,
)

SAMPLE_BYTES = 2_000
TAIL_BYTES = 1 << 20  # that are read of a long file of lines for its last events
LINES = frozenset({"ndjson", "text", "csv"})

At = Any  # JSON: a place between two events; None at the beginning


@dataclass(slots=True)
class FilePiece:
    """Some events of a file in order, what of it could not be read, the place behind both, and whether that is the
    file's end."""

    messages: list[Message] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    at: At = None
    is_over: bool = False
    size: int = 0

    def add(self, message: Message, size: int) -> None:
        self.messages.append(message)
        self.size += size

    @property
    def is_full(self) -> bool:
        return len(self.messages) + len(self.dead) >= MOST_MESSAGES or self.size >= MOST_BYTES


@dataclass(frozen=True, slots=True)
class FileReading:
    """The reading of a file: its name, for places; format; whether csv has a header; the columns that are wanted, all
    unless some are named; what is included of the file itself."""

    name: str
    format: str
    header: bool = False
    columns: Sequence[str] = ()
    extras: Mapping[str, Any] | None = None


class FilePieces:
    """A file that is being read. ``take`` gives the next piece.

    Parameters
    ----------
    file : binary file
        It is closed with this.
    """

    def __init__(self, file: BinaryIO, reading: FileReading, *, at: At = None) -> None:
        self._file, self._reading = file, reading
        self._unpacked = _Unpacked(file) if reading.name.endswith(".gz") else None
        content: Any = file if self._unpacked is None else io.BufferedReader(self._unpacked)
        self._parts = _READERS[reading.format](content, reading, at)
        self._place = at

    def take(self) -> FilePiece:
        """The next piece. What the file's format does not allow ends it, as a dead letter."""
        piece = FilePiece(at=self._place)
        try:
            for at, size, event in self._parts:
                piece.at = self._place = at
                if isinstance(event, DeadLetter):
                    piece.dead.append(event)
                else:
                    piece.add(event, size)
                if piece.is_full:
                    return piece
        except _DAMAGED as error:
            if _is_of_store(error):
                raise
            piece.dead.append(DeadLetter(
                f"is no {self._reading.format}, or not all of it: {_words(error)}", self._reading.name))
        if self._unpacked is not None and self._unpacked.has_more:
            piece.dead.append(DeadLetter(
                "has bytes behind its end that are not packed: they are not read", self._reading.name))
        piece.is_over = True
        return piece

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


# Of a file's content; Arrow says some of it by an OSError, which is the store's own where it has a number.
_DAMAGED = (pa.ArrowException, ValueError, EOFError, zlib.error, OSError, MemoryError)


def _is_of_store(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno is not None


def _words(error: BaseException) -> str:
    return str(error).encode(errors="backslashreplace").decode()[:200]


class _Unpacked(io.RawIOBase):
    """What a packed file holds: all that comes before damage is given first. ``has_more``: bytes follow its end that
    are no part of it, and that are not zeros, which tapes and copies put there."""

    def __init__(self, file: BinaryIO) -> None:
        self._packed = gzip.GzipFile(fileobj=file)
        self._has_begun = self.has_more = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._packed.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._packed.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        try:
            part = b"" if self.has_more else self._packed.read1(len(buffer))
        except gzip.BadGzipFile as error:
            if not self._has_begun or "Not a gzipped" not in str(error):  # else its own content is damaged
                raise
            self.has_more, part = True, b""
        self._has_begun = self._has_begun or bool(part)
        buffer[:len(part)] = part
        return len(part)


def place_before_last(file: BinaryIO, reading: FileReading, size: int, count: int) -> At:
    """A place in an open file with not much more than ``count`` events behind it. It is None, the beginning, for a
    small file, or if no other place is known without reading it.

    Parameters
    ----------
    file : binary file
        As it is stored; it may be left at any place.
    """
    if reading.format == "parquet":
        try:
            metadata = metadata_of(file)
        except _DAMAGED as error:
            if _is_of_store(error):
                raise
            return None  # who reads it hears so
        group, missing_rows = metadata.num_row_groups - 1, count
        while group > 0 and metadata.row_group(group).num_rows < missing_rows:
            missing_rows -= metadata.row_group(group).num_rows
            group -= 1
        return [group, max(0, metadata.row_group(group).num_rows - missing_rows)] if group >= 0 else None
    if reading.format not in LINES or reading.name.endswith(".gz") or size <= TAIL_BYTES:
        return None
    begin = size - TAIL_BYTES
    file.seek(begin)
    tail = file.read(TAIL_BYTES)
    if reading.format == "csv" and b'"' in tail:  # the line that begins there may be in the middle of a record
        return None
    end_of_first = tail.find(b"\n") + 1
    return begin + end_of_first if 0 < end_of_first < len(tail) else None  # else it is one long line


Event = tuple[At, int, Message | DeadLetter]


def _lines(file: BinaryIO, reading: FileReading, at: At) -> Iterator[Event]:
    """Each line is an event."""
    is_text = reading.format == "text"
    for begin, end, line in lines_of(file, at or 0):
        place = f"{reading.name}, byte {begin}"
        if line is None:
            yield end, 0, DeadLetter(f"is a line of over {FILE_RECORD.most >> 20} MiB", place)
        elif is_text or line.strip():
            body = line.rstrip(b"\r\n") if is_text else line
            yield end, len(line), Message(body, place, extras=reading.extras)


def _csv(file: BinaryIO, reading: FileReading, at: At) -> Iterator[Event]:
    """Each record is an event; with a header its values go by the names there."""
    names: list[str] | None = None
    count = len(reading.columns) or None
    if reading.header:
        first = next(records_of(file), None)
        if first is None:
            return
        _, end, record = first
        names = _header(record, reading)
        at, count = max(at or 0, end), len(names)
    for begin, end, record in records_of(file, at or 0, values=count):
        place = f"{reading.name}, byte {begin}"
        if record is None:
            yield end, 0, DeadLetter(f"is a record of over {FILE_RECORD.most >> 20} MiB", place)
        elif not record.strip():
            continue
        elif names is None:
            yield end, len(record), Message(record, place, extras=reading.extras)
        else:
            yield end, len(record), _named(record, place, names, reading)


def _header(record: bytes | None, reading: FileReading) -> list[str]:
    """The names of a file's fields; raises if a column could be several of them."""
    if record is None:
        raise UnreadableMessage(f"its header is a line of over {FILE_RECORD.most >> 20} MiB")
    names = values_of(record)
    counts = Counter(names)
    for name in _present(names, reading):
        if counts[name] > 1:
            raise UnreadableMessage(f"its header has {name[:200]} twice")
    return names


def _named(body: bytes, place: str, names: list[str], reading: FileReading) -> Message | DeadLetter:
    try:
        values = values_of(body)
    except UnreadableMessage as error:
        return DeadLetter(str(error), place, body[:SAMPLE_BYTES])
    if len(values) != len(names):
        return DeadLetter(f"has {len(values)} values where the header has {len(names)}", place, body[:SAMPLE_BYTES])
    by_name = {name: value or None for name, value in zip(names, values, strict=True)}
    return Message(place=place, values=by_name, extras=reading.extras)


def _whole_file(file: BinaryIO, reading: FileReading, at: At) -> Iterator[Event]:
    """The file is one message."""
    if at:
        return
    body = file.read(FILE_RECORD.most + 1)
    if len(body) > FILE_RECORD.most:
        yield 1, 0, DeadLetter(
            f"is a file of over {FILE_RECORD.most >> 20} MiB; as lines (ndjson) it may have any size", reading.name)
    else:
        yield 1, len(body), Message(body, reading.name, extras=reading.extras)


def _parquet(file: BinaryIO, reading: FileReading, at: At) -> Iterator[Event]:
    """Rows by their group and their number in it. Texts stay dictionaries until it is known how long they are."""
    first = pq.ParquetFile(file, metadata=metadata_of(file))
    names, paged = _present(first.schema_arrow.names, reading), PagedFile(file)
    parquet = pq.ParquetFile(
        paged, read_dictionary=dictionaries_of(first.metadata, names), metadata=first.metadata,
        arrow_extensions_enabled=not has_json(first.metadata, names))
    most_rows = DECIMAL_ROWS if has_written_decimals(first.metadata, names) else MOST_MESSAGES
    group, done = at or (0, 0)
    for number in range(group, parquet.num_row_groups):
        try:
            if not first.metadata.row_group(number).num_rows:
                continue  # it has no pages
            paged.parts = require_bounds(first.metadata, number, names)
            batches = parquet.iter_batches(most_rows, row_groups=[number], columns=names)
            yield from _rows(map(_within, batches), reading, number, done if number == group else 0)
        except _DAMAGED as error:
            if _is_of_store(error):
                raise
            reason = f"a group of its rows cannot be read, or not all of it: {_words(error)}"
            yield [number + 1, 0], 0, DeadLetter(reason, f"{reading.name}, group {number}")


def _within(batch: pa.RecordBatch) -> pa.RecordBatch:
    require_room(batch, DecodingRoom(FILE_VALUES.most, FILE_VALUES.most, FILE_BYTES.most))
    return batch


def _arrow(file: BinaryIO, reading: FileReading, at: At) -> Iterator[Event]:
    """The same of an IPC file or stream, by its batches."""
    group, done = at or (0, 0)
    room = DecodingRoom(FILE_VALUES.most, FILE_VALUES.most, FILE_BYTES.most)
    batches = batches_of(file, room, names=reading.columns or None, first=group, afresh=True)
    for number, batch in enumerate(batches, start=group):
        _present(batch.schema.names, reading)
        slices = (batch.slice(begin, MOST_MESSAGES) for begin in range(0, batch.num_rows, MOST_MESSAGES))
        yield from _rows(slices, reading, number, done if number == group else 0)


def _present(names: Sequence[str], reading: FileReading) -> list[str]:
    wanted = frozenset(reading.columns)
    present = [name for name in names if name in wanted] if wanted else list(names)
    if not present:
        raise UnreadableMessage(
            f"it has none of the columns {', '.join(reading.columns)}, but {', '.join(names)[:200]}")
    return present


def _rows(batches: Iterator[pa.RecordBatch], reading: FileReading, group: int, done: int) -> Iterator[Event]:
    rows = ((row, batch.nbytes // max(1, batch.num_rows)) for batch in batches for row in rows_of(batch))
    for number, (row, size) in enumerate(itertools.islice(rows, done, None), start=done):
        place = f"{reading.name}, group {group}, row {number}"
        yield [group, number + 1], size, DeadLetter(str(row), place) if isinstance(
            row, UnreadableMessage) else Message(place=place, values=row, extras=reading.extras)


_READERS: Mapping[str, Callable[[BinaryIO, FileReading, At], Iterator[Event]]] = {
    "ndjson": _lines, "text": _lines, "csv": _csv, "json": _whole_file, "bytes": _whole_file, "parquet": _parquet,
    "arrow": _arrow}
