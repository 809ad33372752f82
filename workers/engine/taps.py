"""Taps: a few of the newest events of any stream that runs, for as long as somebody looks.

Most streams are in no channel. While a key of its fragment is there, each valve of it copies the first events of every
batch to a list that expires. Nothing waits for that, nothing is published, and nobody is a reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import redis

from workers.engine.channels import codec, keys
from workers.library.arrow_types import spark_type

LOOKS_S = 15  # a look counts for so long; who goes on looking repeats it


@dataclass(frozen=True, slots=True)
class NewestEvents:
    """Events, the newest first, with the types (Spark's ``simpleString``) of their columns; None for one not known."""

    types: dict[str, str | None] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)


def newest_events(
    broker: redis.Redis, valves: Sequence[tuple[str, int]], *, retained_in: str | None = None, count: int
) -> NewestEvents:
    """Look at a stream: the newest events that its valves have copied, and what comes is copied from now on.

    Parameters
    ----------
    broker : redis.Redis
        A client that does not decode responses.
    valves : sequence of (str, int)
        The fragment and position of each valve that the stream leaves: several where the fragment is divided.
    retained_in : str, optional
        A channel that retains the stream's newest events, whether somebody looks or not.
    count : int
        How many events at most.
    """
    blocks = _retained(broker, retained_in, count) if retained_in else []
    return _events(blocks or _tapped(broker, valves), count)


def _tapped(broker: redis.Redis, valves: Sequence[tuple[str, int]]) -> list[bytes]:
    pipeline = broker.pipeline(transaction=False)
    for fragment, position in valves:
        pipeline.lrange(keys.tapped(fragment, position), 0, -1)
        pipeline.set(keys.tap(fragment), 1, ex=LOOKS_S)
    lists = pipeline.execute()[::2]
    # Of several bundles the newest block of each, then the next: their batches are of about the same time.
    return [block for ring in zip_longest(*lists) for block in ring if block is not None]


def _retained(broker: redis.Redis, channel: str, count: int) -> list[bytes]:
    """The newest blocks of a channel, the newest first: each holds at least one event."""
    return [fields[b"b"] for _, fields in broker.xrevrange(keys.channel(channel), count=count)]


def _events(blocks: Sequence[bytes], count: int) -> NewestEvents:
    newest = NewestEvents()
    for block in blocks:
        for batch in reversed(codec.decode_block(block)):
            newest.types.update({
                column.name: spark_type(column.type) for column in batch.schema if column.name not in newest.types})
            newest.events.extend(_rows(batch, count - len(newest.events)))
        if len(newest.events) >= count:
            break
    return newest


def _rows(batch: pa.RecordBatch, count: int) -> list[dict[str, Any]]:
    return batch.slice(max(0, batch.num_rows - max(0, count))).to_pylist()[::-1]
