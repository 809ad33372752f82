"""Arrow from outside, message by message: how much each says that it decodes to is known before it is decoded.

A few kilobytes can hold millions of events: buffers are compressed, columns of nulls take no bytes, and a dictionary's
value is there once however many events have it. What each message says of itself (`arrow_messages`) is added up first,
and what is beyond the bounds is never handed to the decoder.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.library.json_values import UnreadableMessage

from .arrow_messages import BATCH, RawMessage, TooMuch, messages_of

_MAGIC = b"ARROW1\0\0"
ZONE_CHARACTERS = 100  # it is looked for anew for each time
_AGAIN = (
    "dictionary", "run_end_encoded", "string_view", "binary_view", "list_view", "large_list_view", "dense_union")


@dataclass(slots=True)
class DecodingRoom:
    """The room that is left for decoding: events, values (those in lists and records, too), and bytes."""

    events: int
    values: int
    bytes: int

    def take(self, *, events: int = 0, values: int = 0, size: int = 0) -> None:
        """Take some of it; ``TooMuch`` where there is not so much left."""
        if 0 <= events <= self.events and 0 <= values <= self.values and 0 <= size <= self.bytes:
            self.events, self.values, self.bytes = self.events - events, self.values - values, self.bytes - size
            return
        room, word = next((room, word) for room, taken, word in (
            (self.events, events, "events"), (self.values, values, "values"), (self.bytes, size, "bytes"))
            if not 0 <= taken <= room)
        raise TooMuch(f"decodes to more than the {room:,} {word} that are left of what may be")


def batches_of(
    file: BinaryIO, room: DecodingRoom, *, names: Collection[str] | None = None, first: int = 0, afresh: bool = False,
    as_spark_writes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The batches of an IPC stream or file, of the columns that are wanted, each within what there is room for.

    Parameters
    ----------
    room : DecodingRoom
        The room that they may decode to; of all of them, or of each where ``afresh``.
    names : collection of str, optional
        The columns; those that are not there are left out. All that there are unless given.
    first : int, optional
        The number of batches that are passed over, without decoding them.
    as_spark_writes : bool, optional
        Texts need not be UTF-8, and lists and records may hold nulls alone.

    Raises
    ------
    TooMuch
        One does not fit.
    pyarrow.ArrowException, ValueError, OSError
        It is none that can be read.
    """
    _pass_magic(file)
    messages = _Checked(messages_of(file, room.bytes), room, first, afresh)
    try:
        with pa.ipc.open_stream(io.BufferedReader(messages)) as reader:
            for batch in reader:
                if names is not None:
                    batch = batch.select([name for name in batch.schema.names if name in names])
                if any(_has_long_zone(column.type) for column in batch.columns):
                    raise ValueError(f"a time zone's name has more than {ZONE_CHARACTERS} characters")
                batch.validate()
                if not as_spark_writes or any(_refers(column.type, nulls=False) for column in batch.columns):
                    require_room(batch, _room_of(room, afresh))
                # Offsets lie within buffers: Arrow itself trusts them, and would read beyond.
                for column in batch.columns:
                    (column.view(_of_bytes(column.type)) if as_spark_writes else column).validate(full=True)
                yield batch
    except struct.error:
        raise ValueError("a message says what cannot be") from None


def schema_of(file: BinaryIO, most_bytes: int) -> pa.Schema:
    """The schema of an IPC stream or file, of so many bytes at most; raises as `batches_of` does."""
    _pass_magic(file)
    try:
        first = next(messages_of(file, most_bytes), None)
    except struct.error:
        raise ValueError("a message says what cannot be") from None
    if first is None:
        raise ValueError("it has no schema")
    return pa.ipc.read_schema(pa.py_buffer(first.head + first.flatbuffer))


def _pass_magic(file: BinaryIO) -> None:
    """Pass over what a file begins with, and a stream does not."""
    if file.read(len(_MAGIC)) != _MAGIC:
        file.seek(0)


def rows_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any] | UnreadableMessage]:
    """The rows of a batch; one with a value that Python has none for (a time beyond the year 9999 or of a zone that
    nobody knows, text that is none) is what says so, in its place."""
    try:
        yield from batch.to_pylist()
        return
    except Exception:  # it is anybody's data, and the libraries that make values of it say so in many ways
        pass
    for number in range(batch.num_rows):
        row: dict[str, Any] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                row[name] = column[number].as_py()
            except Exception as error:
                yield UnreadableMessage(f"field {name} is {str(column.type)[:80]} and holds what cannot be read: "
                                 f"{str(error).encode(errors='backslashreplace').decode()[:100]}")
                break
        else:
            yield row


def require_room(batch: pa.RecordBatch, room: DecodingRoom) -> None:
    """Take the room of values that may be at one place, each as often as it is there; ``TooMuch`` or ``ValueError``."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _refers(column.type):
            room.take(size=_bytes_of(name, column))


def _room_of(room: DecodingRoom, afresh: bool) -> DecodingRoom:
    return DecodingRoom(room.events, room.values, room.bytes) if afresh else room


def _types_in(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type, and all types within it; of an extension, which anybody may name in a message, what it is stored as."""
    if isinstance(kind, pa.BaseExtensionType):
        yield from _types_in(kind.storage_type)
        return
    yield kind
    if pa.types.is_dictionary(kind):
        yield from _types_in(kind.value_type)
    for number in range(kind.num_fields):
        yield from _types_in(kind.field(number).type)


def _refers(kind: pa.DataType, *, nulls: bool = True) -> bool:
    """True where values of a type may be at one place, however often they are there."""
    return any(
        str(inner).startswith(_AGAIN) or (nulls and pa.types.is_null(inner)) for inner in _types_in(kind))


def _has_long_zone(kind: pa.DataType) -> bool:
    return any(
        pa.types.is_timestamp(inner) and len(inner.tz or "") > ZONE_CHARACTERS for inner in _types_in(kind))


def _of_bytes(kind: pa.DataType) -> pa.DataType:
    """A type with bytes for texts."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_map(kind):
        return pa.map_(_of_bytes(kind.key_type), kind.item_field.with_type(_of_bytes(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_of_bytes(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_of_bytes(field.type)) for field in kind])
    return kind


def _bytes_of(name: str, column: pa.Array) -> int:
    """How many bytes all values have together, each counted as often as it is there."""
    kind = column.type
    if pa.types.is_null(kind):
        return 0
    inner = kind.value_type if pa.types.is_dictionary(kind) else None
    if inner is not None and not (_refers(inner) or inner.num_fields or isinstance(inner, pa.BaseExtensionType)):
        values = column.dictionary
        if pa.types.is_fixed_size_binary(kind.value_type):
            return max(16, kind.value_type.byte_width) * len(column)
        sized = pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type) or pa.types.is_binary(
            kind.value_type) or pa.types.is_large_binary(kind.value_type)
        if not sized:
            return 16 * len(column)
        return int(pc.sum(pc.binary_length(values).take(column.indices)).as_py() or 0)
    if str(kind) in ("string_view", "binary_view"):
        views = np.frombuffer(column.buffers()[1], dtype=np.int32)[4 * column.offset:4 * (column.offset + len(column))]
        return int(views[::4].astype(np.int64).sum())
    raise ValueError(f"column {name} is {str(kind)[:80]}, whose values refer to one another: write it plain")


class _Checked(io.RawIOBase):
    """The same messages as a file, each looked at before it is given on."""

    def __init__(self, messages: Iterator[RawMessage], room: DecodingRoom, passed_over: int, afresh: bool) -> None:
        self._messages, self._room, self._passed_over, self._afresh = messages, room, passed_over, afresh
        self._parts = self._checked_parts()
        self._remainder = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._remainder:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._remainder = memoryview(part)
        count = min(len(buffer), len(self._remainder))
        buffer[:count], self._remainder = self._remainder[:count], self._remainder[count:]
        return count

    def _checked_parts(self) -> Iterator[bytes]:
        for message in self._messages:
            if message.flatbuffer:
                if message.kind == BATCH and self._passed_over:
                    self._passed_over -= 1
                    continue
                _room_of(self._room, self._afresh).take(**message.sizes()._asdict())
            yield from (message.head, message.flatbuffer, message.body)
