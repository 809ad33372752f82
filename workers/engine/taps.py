"""Taps: a few of the newest events of any stream that runs, for as long as somebody looks.

Most streams are in no channel. While a key of its query is there, each valve of it copies the first events of every
batch to a list that expires, under the name of the running task: whoever looks finds what each query of a divided task
copied, and over a handover what the query before did. Nothing waits for that, nothing is published, and nobody is a
reader.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import redis

from workers.engine.channels import keys
from workers.engine.newest_blocks import newest_blocks
from workers.engine.slot_values import answers_of, newest_in, room_to_show
from workers.library.arrow_types import rows_in, spark_type
from workers.library.json_values import shown

LOOKS_S = 15  # a look counts for so long; who goes on looking repeats it
SEARCHED_EVENTS = 200  # of each batch, for who searches; for who looks five
COPIED_BLOCKS, COPIERS = 10, 200  # of a query, as its valves keep them; queries whose copies are looked at
SEARCHED_BLOCKS = 100  # of each channel that retains events


@dataclass(frozen=True, slots=True)
class NewestEvents:
    """Events, the newest first, with the types (Spark's ``simpleString``) of their columns; None for one not known."""

    types: dict[str, str | None] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Tapped:
    """A running task's stream as it can be looked at.

    Parameters
    ----------
    queries : sequence of str
        Queries that execute it: several where it is divided. Of each something is shown.
    earlier : sequence of str, optional
        Queries that did, and may yet: shown where the others have too little.
    retained_in : sequence of str, optional
        The channels that retain the stream's newest events, whether somebody looks or not: one for each query.
    """

    task: str
    queries: Sequence[str]
    earlier: Sequence[str] = ()
    retained_in: Sequence[str] = ()


def newest_events(broker: redis.Redis, stream: Tapped, *, count: int) -> NewestEvents:
    """Look at a stream: the newest events that its valves have copied, and what comes is copied from now on."""
    types: dict[str, str | None] = {}
    retained = [_read(blocks, types, count) for blocks in _retained(broker, stream.retained_in, count)]
    if any(retained):
        return NewestEvents(types, _shared_out(retained, count))
    copied = _copied(broker, stream)
    now = _shared_out([_read(copied.pop(query), types, count) for query in stream.queries], count)
    before = _shared_out([_read(blocks, types, count) for blocks in copied.values()], count - len(now))
    return NewestEvents(types, [*now, *before])


def copied_blocks(broker: redis.Redis, stream: Tapped) -> list[bytes]:
    """The newest blocks of a stream, for who searches in them: what its channels retain, or what its valves have
    copied, and copy from now on more of."""
    retained = [block for blocks in _retained(broker, stream.retained_in, SEARCHED_BLOCKS) for block in blocks]
    return retained or [
        block for blocks in _copied(broker, stream, events=SEARCHED_EVENTS).values() for block in blocks]


def _copied(broker: redis.Redis, stream: Tapped, *, events: int = 0) -> dict[str, list[bytes]]:
    """The blocks of each query that executes the task or copied of its stream, the newest first; so many events of
    each batch are wanted from now on, or with 0 as many as are."""
    [names] = answers_of(broker.pipeline(transaction=False).smembers(keys.tapped(stream.task)))
    copiers = sorted(name.decode(errors="replace") for name in islice(names or (), COPIERS))
    queries = list(dict.fromkeys([*stream.queries, *stream.earlier, *copiers]))
    lists = newest_blocks(broker, [keys.tapped(stream.task, query) for query in queries], count=COPIED_BLOCKS)
    pipeline = broker.pipeline(transaction=False)
    for query in queries:
        pipeline.set(keys.tap(query), events or 1, ex=LOOKS_S, nx=not events)  # who searches is not stinted
        pipeline.expire(keys.tap(query), LOOKS_S)
    answers_of(pipeline)
    copied = dict(zip(queries, lists, strict=True))
    if gone := [query for query in copiers if query not in stream.queries and not copied[query]]:
        broker.srem(keys.tapped(stream.task), *gone)
    return copied


def _retained(broker: redis.Redis, channels: Sequence[str], count: int) -> list[list[bytes]]:
    """The newest blocks of each channel, the newest first: each holds at least one event."""
    return newest_blocks(broker, [keys.channel(channel) for channel in channels], count=count)


def _read(blocks: Sequence[bytes], types: dict[str, str | None], count: int) -> list[dict[str, Any]]:
    """The newest events of blocks, the newest first, so many at most; and the types of their columns."""
    events: list[dict[str, Any]] = []
    room = room_to_show(count)
    for block in blocks:
        for batch in newest_in(block, room):
            types.update({
                column.name: spark_type(column.type) for column in batch.schema if column.name not in types})
            events += [shown(row) for row in reversed(rows_in(batch))]
    return events


def _shared_out(queries: Sequence[list[dict[str, Any]]], count: int) -> list[dict[str, Any]]:
    """At most ``count`` events of several queries, the newest first.

    Each query has an equal part, as far as it has events: else slow ones would never be seen.
    """
    newest_first = sorted(queries, key=lambda events: _minus_born(events[0]) if events else 0)
    parts: list[list[dict[str, Any]]] = [[] for _ in newest_first]
    turns = ((part, events[turn]) for turn in range(max(count, 0))
             for part, events in zip(parts, newest_first, strict=True) if turn < len(events))
    for part, event in islice(turns, max(count, 0)):
        part.append(event)
    return list(heapq.merge(*parts, key=_minus_born))


def _minus_born(event: dict[str, Any]) -> int:
    return -(event.get("_born") or 0)
