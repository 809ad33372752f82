"""Searches: events of a running stream that meet a condition, found in what its valves copy while somebody asks.

The site reads what was copied whenever it is asked, and each block of it once. Everything expires.

    weir:search:<id>              hash: who searches what (JSON), and how many events were looked at and found
    weir:search:<id>:blocks       set of the digests of blocks that were looked at
    weir:search:<id>:events       list of the events that were found (JSON), the newest found first
    weir:searching:<owner>        the search of one who searches: a later one ends it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis

from workers.engine.channels.channel_config import BLOCK_ROWS
from workers.engine.channels.keys import PREFIX
from workers.engine.slot_values import newest_in, room_to_show
from workers.engine.taps import Tapped, copied_blocks
from workers.library.arrow_types import rows_in, spark_type
from workers.library.json_values import shown

LIVES_S = 120


@dataclass(frozen=True, slots=True)
class CopiedBlock:
    """Events of a stream, the newest first, with the types of their columns."""

    types: dict[str, str | None]
    events: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The results of a search: what it was begun with, how many events it looked at and found, and the newest."""

    facts: Mapping[str, Any]
    looked_at: int = 0
    found: int = 0
    types: dict[str, str | None] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)


def begin(broker: redis.Redis, search_id: str, facts: Mapping[str, Any], *, owner: str) -> None:
    """Begin a search, in the place of what this owner searched before."""
    before = broker.set(_searching(owner), search_id, ex=LIVES_S, get=True)
    pipeline = broker.pipeline()
    if before is not None:
        pipeline.delete(*_keys(before.decode()))
    pipeline.hset(_key(search_id), mapping={"facts": json.dumps({**facts, "owner": owner})})
    pipeline.expire(_key(search_id), LIVES_S)
    pipeline.execute()


def newest_types(broker: redis.Redis, stream: Tapped) -> dict[str, str | None]:
    """The columns of what is copied of a stream now, with their types; more is copied from now on."""
    return next((_decoded(block).types for block in copied_blocks(broker, stream)), {})


def new_blocks(broker: redis.Redis, search_id: str, stream: Tapped) -> list[CopiedBlock]:
    """Blocks that were copied of a stream for a search and that nobody has looked at; from then on somebody has."""
    blocks, looked_at = copied_blocks(broker, stream), f"{_key(search_id)}:blocks"
    pipeline = broker.pipeline()
    for block in blocks:
        pipeline.sadd(looked_at, hashlib.blake2b(block, digest_size=16).hexdigest())
    *are_new, _ = pipeline.expire(looked_at, LIVES_S).execute()
    return [_decoded(block) for block, is_new in zip(blocks, are_new, strict=True) if is_new]


def add(
    broker: redis.Redis, search_id: str, block: CopiedBlock, matches: Sequence[Mapping[str, Any]], *, keep: int
) -> None:
    """Tell what was found in a block, the newest first; so many events are kept of the whole search."""
    key, newest = _key(search_id), f"{_key(search_id)}:events"
    pipeline = broker.pipeline()
    pipeline.hincrby(key, "looked_at", len(block.events)).hincrby(key, "found", len(matches))
    pipeline.hset(key, "types", json.dumps(block.types))
    if matches:
        pipeline.lpush(newest, *(json.dumps(event) for event in reversed(matches)))
        pipeline.ltrim(newest, 0, keep - 1)
        pipeline.expire(newest, LIVES_S)
    pipeline.execute()


def progress(broker: redis.Redis, search_id: str, *, owner: str) -> SearchProgress | None:
    """The results of a search; None where this owner began no such search, or it is long over."""
    pipeline = broker.pipeline(transaction=False)
    (facts, looked_at, count, types), events = pipeline.hmget(
        _key(search_id), "facts", "looked_at", "found", "types").lrange(f"{_key(search_id)}:events", 0, -1).execute()
    if facts is None or json.loads(facts)["owner"] != owner:
        return None
    return SearchProgress(
        json.loads(facts), int(looked_at or 0), int(count or 0), json.loads(types or "{}"),
        [json.loads(event) for event in events])


def end(broker: redis.Redis, search_id: str) -> None:
    """Forget a search."""
    broker.delete(*_keys(search_id))


def _decoded(block: bytes) -> CopiedBlock:
    types: dict[str, str | None] = {}
    events: list[dict[str, Any]] = []
    for batch in newest_in(block, room_to_show(BLOCK_ROWS)):
        types |= {column.name: spark_type(column.type) for column in batch.schema}
        events += [shown(row) for row in reversed(rows_in(batch))]
    return CopiedBlock(types, events)


def _key(search_id: str) -> str:
    return f"{PREFIX}search:{search_id}"


def _keys(search_id: str) -> list[str]:
    return [_key(search_id), f"{_key(search_id)}:blocks", f"{_key(search_id)}:events"]


def _searching(owner: str) -> str:
    return f"{PREFIX}searching:{owner}"
