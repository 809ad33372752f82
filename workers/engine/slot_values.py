"""What slots write into the broker, as others take it: a value that is none is as if it were not there.

A slot writes meters, channels and notes of its own fragments, and runs what teams wrote: who breaks out of an
expression writes there what it likes. Whoever reads the same of all queries must not stop, or be misled, for one.
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
from scheduler.model.bounds import FILE_VALUES, MESSAGE_BYTES
from workers.engine.connectors.arrow_streams import DecodingRoom, batches_of

MOST_DIGITS = 15  # of a counter: those of all queries together can be stored
MOST_FIELDS = 100_000  # of a hash of counters
T = TypeVar("T")
# What reading a value raises that is none: of another kind at the broker, of another shape, or too large for its type.
UNREADABLE = (
    redis.ResponseError, InvalidContract, ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
    RecursionError)


def answers_of(pipeline: redis.client.Pipeline) -> list[Any]:
    """What the broker answers to each command; None where there is a value of another kind than the command reads.

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
    """Those of some texts that are what their contract says."""
    for text in texts:
        with suppress(InvalidContract):
            yield load(text)


def batches_in(block: bytes | None) -> list[pa.RecordBatch]:
    """The batches of a channel's block, for somebody who looks; none where it is none, or decodes to too much."""
    room = DecodingRoom(events=FILE_VALUES.most, values=FILE_VALUES.most, bytes=MESSAGE_BYTES.most)
    try:
        return list(batches_of(io.BytesIO(block or b""), room))
    except (pa.ArrowException, ValueError, KeyError, OSError, struct.error):
        return []


@lru_cache(maxsize=10_000)
def _field(name: bytes | str) -> str:
    """A field as text: all meters have the same few, and each is read every second."""
    return name.decode(errors="replace") if isinstance(name, bytes) else name
