"""Messages of Arrow as they come: how large each says that it is once it is decoded, before Arrow reads any of it.

A message is a flatbuffer [1]_ before its body (``Message.fbs`` and ``Schema.fbs`` of Arrow). In a flatbuffer many
places may lead to one and the same part, and Arrow makes a field, or a text, for each of them: 400 kB came to 340 MB.

References
----------
.. [1] "FlatBuffers internals", flatbuffers.dev/internals.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from scheduler.model.bounds import ARROW_SCHEMA

SCHEMA, DICTIONARY, BATCH = 1, 2, 3  # types of a message's header
PART_BYTES = 1_000  # of a field, or of a pair of metadata, beside its texts: more than Arrow takes
_CONTINUES = b"\xff\xff\xff\xff"  # before the length of what stands before a body
_LONG_TYPES = {10: 1, 14: 4}  # times have the text of a zone, unions numbers: bytes of each of these


class TooMuch(ValueError):
    """A message decodes to more than may be; the text says how much was left."""


class Sizes(NamedTuple):
    """The size of a message once it is decoded: events, values (those in lists and records, too), and bytes."""

    events: int = 0
    values: int = 0
    size: int = 0


class RawMessage(NamedTuple):
    """A message as it came: the bytes that say how long it is, the flatbuffer behind them, and its body."""

    head: bytes
    flatbuffer: bytes
    body: bytes

    @property
    def kind(self) -> int:
        """The type of its header, such as ``BATCH``."""
        return FlatTable.root(self.flatbuffer).number(1, "B")

    def sizes(self) -> Sizes:
        """Tell what it decodes to, by what it says of itself; ``struct.error`` where that cannot be."""
        header = FlatTable.root(self.flatbuffer).table(2) if self.kind in (DICTIONARY, BATCH) else None
        batch = header.table(1) if header is not None and self.kind == DICTIONARY else header
        if batch is None:
            return Sizes()
        is_packed = batch.table(3) is not None
        size = 0
        for start, length in batch.pairs(2):
            is_raw = not is_packed or length < 8
            declared = -1 if is_raw else struct.unpack_from("<q", self.body, start)[0]
            size += length if declared < 0 else declared
        values = sum(length for length, _ in batch.pairs(1))
        return Sizes(batch.number(0, "q") if self.kind == BATCH else 0, values, size)


def messages_of(file: BinaryIO, most_bytes: int) -> Iterator[RawMessage]:
    """The messages of a stream, up to its end or its mark of one; what is cut short comes as it is.

    Parameters
    ----------
    most_bytes : int
        Of a message's flatbuffer, or of its body.

    Raises
    ------
    TooMuch
        One is larger, or its schema or metadata would be once they are made.
    struct.error, ValueError
        One is none.
    """
    while head := file.read(4):
        if head == _CONTINUES:
            head += file.read(4)
        if len(head) % 4:
            yield RawMessage(head, b"", b"")
            return
        length = struct.unpack("<i", head[-4:])[0]
        if not length:
            return
        flatbuffer = file.read(_within(length, most_bytes))
        if len(flatbuffer) < length:
            yield RawMessage(head, flatbuffer, b"")
            return
        require_schema(flatbuffer)
        body_bytes = FlatTable.root(flatbuffer).number(3, "q")
        yield RawMessage(head, flatbuffer, file.read(_within(body_bytes, most_bytes)) if body_bytes else b"")


def _within(size: int, most_bytes: int) -> int:
    if size < 0:
        raise ValueError("a message has a length below 0")
    if size > most_bytes:
        raise TooMuch(f"has a message of {size:,} bytes, where {most_bytes:,} may be decoded")
    return size


def require_schema(flatbuffer: bytes) -> None:
    """Raise ``TooMuch`` where a message's schema, with its metadata, is larger than one may be once each of its fields
    is made; ``struct.error`` where it is none."""
    root, size = FlatTable.root(flatbuffer), 0
    for part in _parts_of(root):
        size += part
        if size > ARROW_SCHEMA.most:
            raise TooMuch(f"has a schema of more than {ARROW_SCHEMA.most:,} bytes, once each of its fields is made")


def require_schema_in(text: bytes) -> None:
    """Raise the same for a schema as Parquet keeps one: a message with its length before it, in base64."""
    written = re.match(rb"[A-Za-z0-9+/]*", text)[0]  # type: ignore[index]  # as far as Arrow reads it
    message = base64.b64decode(written + b"A" * (-len(written) % 4))
    require_schema(message[8 if message.startswith(_CONTINUES) else 4:])


def _parts_of(message: FlatTable) -> Iterator[int]:
    """The bytes of each field and pair of metadata of a message, as often as Arrow makes it."""
    yield from _pairs_of(message, 4)
    schema = message.table(2) if message.number(1, "B") == SCHEMA else None
    if schema is None:
        return
    yield from _pairs_of(schema, 2)
    ways = [schema.tables(1)]  # from a field down to where it is gone on
    while ways:
        field = next(ways[-1], None)
        if field is None:
            ways.pop()
            continue
        yield PART_BYTES + field.length(0)
        each_bytes, of_type = _LONG_TYPES.get(field.number(2, "B"), 0), field.table(3)
        if each_bytes and of_type is not None:
            yield each_bytes * of_type.length(1)
        yield from _pairs_of(field, 6)
        ways.append(field.tables(5))


def _pairs_of(table: FlatTable, number: int) -> Iterator[int]:
    for pair in table.tables(number):
        yield PART_BYTES + pair.length(0) + pair.length(1)


class FlatTable:
    """A table of a flatbuffer: its fields by number. Reading beyond the bytes raises ``struct.error``."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._begin = data, at
        self._fields = at - self._read("<i", at)
        self._count = (self._read("<H", self._fields) - 4) // 2

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """The table that a flatbuffer begins with."""
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _read(self, form: str, at: int) -> int:
        if at < 0:  # which Python would take for a place from the end
            raise struct.error("a place before the first")
        return int(struct.unpack_from(form, self._data, at)[0])

    def _place(self, number: int) -> int:
        """Where a field stands; 0 where it has its default."""
        offset = self._read("<H", self._fields + 4 + 2 * number) if number < self._count else 0
        return self._begin + offset if offset else 0

    def number(self, number: int, form: str) -> int:
        """A field that is a number, by its form in ``struct``; 0 where it is not there."""
        at = self._place(number)
        return self._read(f"<{form}", at) if at else 0

    def _target(self, number: int) -> int:
        at = self._place(number)
        return at + self._read("<I", at) if at else 0

    def table(self, number: int) -> FlatTable | None:
        """A field that is a table."""
        target = self._target(number)
        return FlatTable(self._data, target) if target else None

    def length(self, number: int) -> int:
        """The number of bytes of a text, or of values of a vector; 0 where it is not there."""
        target = self._target(number)
        return self._read("<I", target) if target else 0

    def tables(self, number: int) -> Iterator[FlatTable]:
        """The tables that a vector leads to."""
        target = self._target(number)
        for at in range(target + 4, target + 4 + 4 * self.length(number), 4):
            yield FlatTable(self._data, at + self._read("<I", at))

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """The structs of a vector, each two numbers of 64 bits."""
        target, count = self._target(number), self.length(number)
        return struct.iter_unpack("<qq", self._data[target + 4:target + 4 + 16 * count])
