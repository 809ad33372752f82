"""Reading values that slots write into the broker: an invalid value counts as missing.

A slot writes meters, channels and notes of its own fragments, and runs code of teams: code that breaks out of an
expression can write anything there. Whoever reads these values of all queries must not fail, or be misled, over one.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa
import redis

from scheduler.contracts.codec import InvalidContract
from scheduler.model.bounds import FILE_BYTES, FILE_VALUES, MESSAGE_BYTES, MESSAGE_VALUES
from workers.engine.connectors.arrow_streams import DecodingRoom, batches_of

MOST_DIGITS = 15  # of a counter: those of all queries together can be stored
MOST_FIELDS = 100_000  # of a hash of counters
T = TypeVar("T")
# What reading a value raises that is none: of another kind at the broker, of another shape, or too large for its type.
UNREADABLE = (
    redis.ResponseError, InvalidContract, ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
    RecursionError)


def answers_of(pipeline: redis.client.Pipeline) -> list[Any]:
    """The broker's answer to each command; None where there is a value of another kind than the command reads.

    Raises
    ------
    redis.RedisError
        The broker is away, or lets this client not ask.
    """
    answers = pipeline.execute(raise_on_error=False)
    for answer in answers:
        if isinstance(answer, Exception) and type(answer) is not redis.ResponseError:
            raise answer
    return [None if isinstance(answer, Exception) else answer for answer in answers]


def count_of(value: bytes | str | None) -> int | None:
    """A counter; None where it is none."""
    return int(value) if value is not None and len(value) <= MOST_DIGITS and value.isdigit() else None


def counts_of(fields: Mapping[bytes | str, bytes | str] | None) -> dict[str, int]:
    """The counters of a hash."""
    if fields is None or len(fields) > MOST_FIELDS:
        return {}
    return {
        _field(name): int(value) for name, value in fields.items() if value.isdigit() and len(value) <= MOST_DIGITS}


def readable(load: Callable[[bytes], T], texts: Iterable[bytes]) -> Iterator[T]:
    """The texts, of some, that are what their contract says."""
    for text in texts:
        with suppress(InvalidContract):
            yield load(text)


def batches_in(block: bytes | None) -> list[pa.RecordBatch]:
    """The batches of a channel's block, for a look; empty if it is invalid, or decodes to too much."""
    room = DecodingRoom(events=FILE_VALUES.most, values=FILE_VALUES.most, bytes=MESSAGE_BYTES.most)
    try:
        return list(batches_of(io.BytesIO(block or b""), room))
    except (pa.ArrowException, ValueError, KeyError, OSError, struct.error):
        return []


def table_of(block: bytes) -> pa.Table:
    """The events of a channel's block, for a process with other rights than the slot that wrote it.

    Raises
    ------
    pa.ArrowException, ValueError, OSError
        It is none, decodes to too much, or refers to what is not in it: Arrow would read that of the process's memory.
    """
    room = DecodingRoom(events=FILE_VALUES.most, values=FILE_VALUES.most, bytes=FILE_BYTES.most)
    return pa.Table.from_batches(batches_of(io.BytesIO(block), room, as_spark_writes=True))


def room_to_show(events: int) -> DecodingRoom:
    """Room for so many events that somebody looks at, with the values of one message at most: as Python has them, those
    of a block of 200 bytes may be gigabytes."""
    return DecodingRoom(events=events, values=MESSAGE_VALUES.most, bytes=MESSAGE_BYTES.most)


def newest_in(block: bytes | None, room: DecodingRoom) -> list[pa.RecordBatch]:
    """The newest events of a channel's block, as far as there is room for them: the newest batch first, the newest
    event of each last."""
    newest = []
    for batch in reversed(batches_in(block)):
        shown = batch.slice(max(0, batch.num_rows - room.events))
        while shown.num_rows and (values := sum(map(_values_in, shown.columns))) > room.values:
            shown = shown.slice(shown.num_rows - shown.num_rows // 2)  # of one alone nothing is left
        if shown.num_rows:
            room.take(events=shown.num_rows, values=values)
        if shown.num_rows or not batch.num_rows:  # one without events says which columns there are
            newest.append(shown)
        if shown.num_rows < batch.num_rows:
            room.events = 0  # what is older stands behind what has no room
            break
    return newest


def _values_in(column: pa.Array) -> int:
    """How many values Python would have of a column, those in lists and records, too."""
    if pa.types.is_struct(column.type):
        return len(column) + sum(map(_values_in, column.flatten()))
    if hasattr(column, "flatten"):  # lists, maps
        return len(column) + _values_in(column.flatten())
    return len(column) if not column.type.num_fields else FILE_VALUES.most  # of unions nobody counts them


@lru_cache(maxsize=10_000)
def _field(name: bytes | str) -> str:
    """A field as text: all meters have the same few, and each is read every second."""
    return name.decode(errors="replace") if isinstance(name, bytes) else name
