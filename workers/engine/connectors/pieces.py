"""A file in pieces: a few thousand events at a time, from any place between two of them on, however large it is."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from scheduler.model.bounds import FILE_BYTES, FILE_LINES, FILE_RECORD, FILE_VALUES

from .arrow_streams import Room, batches_of, require_room
from .contract import MOST_BYTES, MOST_MESSAGES, DeadLetter, Message

SAMPLE_BYTES = 2_000
TAIL_BYTES = 1 << 20  # that are read of a long file of lines for its last events
LINES = frozenset({"ndjson", "text", "csv"})

At = Any  # JSON: a place between two events; None at the beginning


@dataclass(slots=True)
class Piece:
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
class Reading:
    """How a file is read: its name, for places; format; whether csv has a header; the columns that are wanted; what is
    included of the file itself."""

    name: str
    format: str
    header: bool = False
    columns: Sequence[str] = ()
    extras: Mapping[str, Any] | None = None


class Pieces:
    """A file that is being read. ``take`` gives the next piece.

    Parameters
    ----------
    file : binary file
        It is closed with this.
    """

    def __init__(self, file: BinaryIO, reading: Reading, *, at: At = None) -> None:
        self._file, self._reading = file, reading
        self._parts = _READERS[reading.format](self._unpacked(), reading, at)
        self._at = at

    def take(self) -> Piece:
        """The next piece. What the file's format does not allow ends it, as a dead letter."""
        piece = Piece(at=self._at)
        try:
            for at, size, event in self._parts:
                piece.at = self._at = at
                if isinstance(event, DeadLetter):
                    piece.dead.append(event)
                else:
                    piece.add(event, size)
                if piece.is_full:
                    return piece
        except (pa.ArrowException, ValueError, EOFError, zlib.error, gzip.BadGzipFile, MemoryError) as error:
            reason = str(error).encode(errors="backslashreplace").decode()[:200]
            piece.dead.append(DeadLetter(
                f"is no {self._reading.format}, or not all of it: {reason}", self._reading.name))
        piece.is_over = True
        return piece

    def close(self) -> None:
        """Let the file go."""
        self._file.close()

    def _unpacked(self) -> BinaryIO:
        is_packed = self._reading.name.endswith(".gz")
        return io.BufferedReader(gzip.GzipFile(fileobj=self._file)) if is_packed else self._file  # type: ignore[arg-type]


def place_before_last(file: BinaryIO, reading: Reading, size: int, count: int) -> At:
    """A place in an open file from which it has not much more than its last ``count`` events; None, its beginning,
    where it is small, or has no other place that is known without reading it.

    Parameters
    ----------
    file : binary file
        As it is stored; it may be left at any place.
    size : int
        Its bytes.
    """
    if reading.format == "parquet":
        try:
            metadata = pq.ParquetFile(file).metadata
        except (pa.ArrowException, ValueError):
            return None  # who reads it hears so
        group, wanted = metadata.num_row_groups - 1, count
        while group > 0 and metadata.row_group(group).num_rows < wanted:
            wanted -= metadata.row_group(group).num_rows
            group -= 1
        return [group, max(0, metadata.row_group(group).num_rows - wanted)] if group >= 0 else None
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


def _lines(file: BinaryIO, reading: Reading, at: At) -> Iterator[Event]:
    """Each line is an event."""
    is_text = reading.format == "text"
    for begin, end, line in _numbered(file, at or 0):
        place = f"{reading.name}, byte {begin}"
        if line is None:
            yield end, 0, DeadLetter(f"is a line of over {FILE_RECORD.most >> 20} MiB", place)
        elif is_text or line.strip():
            body = line.rstrip(b"\r\n") if is_text else line
            yield end, len(line), Message(body, place, extras=reading.extras)


def _numbered(file: BinaryIO, begin: int) -> Iterator[tuple[int, int, bytes | None]]:
    """Lines with the bytes before and behind them; None for one that is too long."""
    file.seek(begin)
    while line := file.readline(FILE_RECORD.most):
        end, is_long = begin + len(line), False
        while len(line) == FILE_RECORD.most and not line.endswith(b"\n"):
            is_long = True
            line = file.readline(FILE_RECORD.most)
            end += len(line)
        yield begin, end, None if is_long else line
        begin = end


def _csv(file: BinaryIO, reading: Reading, at: At) -> Iterator[Event]:
    """Records by their quotes: one that a stray quote opens ends as one line, and what is behind it is read."""
    names: list[str] | None = None
    if reading.header:
        first = next(_records(file, reading, 0), None)
        if first is None:
            return
        end, body, _ = first
        names = _values(body or b"")
        at = max(at or 0, end)
    for end, body, place in _records(file, reading, at or 0):
        if body is None:
            yield end, 0, DeadLetter(f"is a record of over {FILE_RECORD.most >> 20} MiB", place)
        elif not body.strip():
            continue
        elif names is None:
            yield end, len(body), Message(body, place, extras=reading.extras)
        else:
            yield end, len(body), _named(body, place, names, reading)


def _records(file: BinaryIO, reading: Reading, at: int) -> Iterator[tuple[int, bytes | None, str]]:
    begin: int | None = at
    while begin is not None:
        begin = yield from _records_from(file, reading, begin)


def _records_from(
    file: BinaryIO, reading: Reading, at: int
) -> Generator[tuple[int, bytes | None, str], None, int | None]:
    """Records, up to one that does not end: its first line is given alone, and where that ends is returned."""
    begin = end_of_first = at
    lines: list[bytes] = []
    for start, end, line in _numbered(file, at):
        if not lines:
            begin, end_of_first = start, end
        place = f"{reading.name}, byte {begin}"
        if line is None:
            yield end, None, place
            lines = []
            continue
        lines.append(line)
        if sum(part.count(b'"') for part in lines) % 2 == 0:
            yield end, b"".join(lines), place
            lines = []
        elif len(lines) >= FILE_LINES.most or end - begin > FILE_RECORD.most:
            break
    if not lines:
        return None
    yield end_of_first, lines[0], f"{reading.name}, byte {begin}"
    return end_of_first if len(lines) > 1 else None


def _named(body: bytes, place: str, names: list[str], reading: Reading) -> Message | DeadLetter:
    try:
        values = _values(body)
    except ValueError as error:
        return DeadLetter(f"is no CSV: {error}", place, body[:SAMPLE_BYTES])
    if len(values) != len(names):
        return DeadLetter(f"has {len(values)} values where the header has {len(names)}", place, body[:SAMPLE_BYTES])
    by_name = {name: value or None for name, value in zip(names, values, strict=True)}
    return Message(place=place, values=by_name, extras=reading.extras)


def _values(body: bytes) -> list[str]:
    try:
        text = body.decode("utf-8-sig")
        return next(iter(csv.reader(io.StringIO(text, newline=""), strict=True)), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError("it is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)) from None


def _whole(file: BinaryIO, reading: Reading, at: At) -> Iterator[Event]:
    """The file is one message."""
    if at:
        return
    body = file.read(FILE_RECORD.most + 1)
    if len(body) > FILE_RECORD.most:
        yield 1, 0, DeadLetter(
            f"is a file of over {FILE_RECORD.most >> 20} MiB; as lines (ndjson) it may have any size", reading.name)
    else:
        yield 1, len(body), Message(body, reading.name, extras=reading.extras)


def _parquet(file: BinaryIO, reading: Reading, at: At) -> Iterator[Event]:
    """Rows by their group and their number in it. Texts stay dictionaries until it is known how long they are."""
    names = _present(pq.ParquetFile(file).schema_arrow.names, reading)
    parquet = pq.ParquetFile(file, read_dictionary=names)
    group, done = at or (0, 0)
    for number in range(group, parquet.num_row_groups):
        batches = parquet.iter_batches(MOST_MESSAGES, row_groups=[number], columns=names)
        yield from _rows(map(_within, batches), reading, number, done if number == group else 0)


def _within(batch: pa.RecordBatch) -> pa.RecordBatch:
    require_room(batch, Room(FILE_VALUES.most, FILE_VALUES.most, FILE_BYTES.most))
    return batch


def _arrow(file: BinaryIO, reading: Reading, at: At) -> Iterator[Event]:
    """The same of an IPC file or stream, by its batches."""
    group, done = at or (0, 0)
    room = Room(FILE_VALUES.most, FILE_VALUES.most, FILE_BYTES.most)
    batches = batches_of(file, room, names=reading.columns, first=group, afresh=True)
    for number, batch in enumerate(batches, start=group):
        _present(batch.schema.names, reading)
        slices = (batch.slice(begin, MOST_MESSAGES) for begin in range(0, batch.num_rows, MOST_MESSAGES))
        yield from _rows(slices, reading, number, done if number == group else 0)


def _present(names: Sequence[str], reading: Reading) -> list[str]:
    present = [name for name in names if name in reading.columns]
    if not present:
        raise ValueError(f"it has none of the columns {', '.join(reading.columns)}")
    return present


def _rows(batches: Iterator[pa.RecordBatch], reading: Reading, group: int, done: int) -> Iterator[Event]:
    rows = ((row, batch.nbytes // max(1, batch.num_rows)) for batch in batches for row in batch.to_pylist())
    for number, (row, size) in enumerate(itertools.islice(rows, done, None), start=done):
        place = f"{reading.name}, group {group}, row {number}"
        yield [group, number + 1], size, Message(place=place, values=row, extras=reading.extras)


_READERS: Mapping[str, Callable[[BinaryIO, Reading, At], Iterator[Event]]] = {
    "ndjson": _lines, "text": _lines, "csv": _csv, "json": _whole, "bytes": _whole, "parquet": _parquet,
    "arrow": _arrow}
