"""The broker's memory: how full it is, and who waits for room.

A broker with a bound (``maxmemory``) refuses what would take more. Before it comes to that, writers of the channels
that hold most wait, as for any full channel, so that nobody fills the broker for others. Where something else fills it,
all sources wait: what was taken in is then worked off, which frees it. What is left above their mark is for queries
that write before they free what they read, and for all that is no event. What the estate needs to go on at all (leases,
reports, desired states, places of readers) is written at a full broker, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import redis

from scheduler.model.broker_memory import REMEDY, BrokerMemory
from workers.engine.channels import keys
from workers.engine.channels.channel_config import CROWDED_CAPACITY_BLOCKS
from workers.engine.channels.scripts import ALONE

TOLD_FOR_S = 15  # an agent looks every three seconds
LOOKED_AT, NAMED = 20_000, 5  # keys: among so many are the largest looked for, and so many are named
EVEN_WHERE_FULL = f"#!lua flags=allow-oom\n{ALONE}"  # before a script that stores little, of a size that does not grow
WEIGHED_FOR_S = 3  # so long, one agent has looked at channels' sizes for all agents
_BOUND = ALONE + """
local capacity = redis.call('HGET', KEYS[1], 'capacity')
if not capacity or tonumber(capacity) <= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], capacity)
redis.call('HSET', KEYS[1], 'capacity', ARGV[2])
return 1
"""
_UNBOUND = EVEN_WHERE_FULL + """
local before = redis.call('HGET', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
if not before or redis.call('HGET', KEYS[1], 'capacity') ~= ARGV[2] then return end
redis.call('HSET', KEYS[1], 'capacity', before)
"""
_SET = EVEN_WHERE_FULL + "return redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])"


def memory_of(broker: redis.Redis) -> BrokerMemory:
    """Memory that the broker uses, and its limit; ``redis.RedisError`` where it does not say."""
    return memory_in(broker.info("memory"))


def memory_in(facts: Mapping[str, Any]) -> BrokerMemory:
    """The same by what it says of its memory."""
    return BrokerMemory(
        int(facts["used_memory"]) - int(facts.get("mem_not_counted_for_evict", 0)), int(facts.get("maxmemory", 0)),
        str(facts.get("maxmemory_policy", "noeviction")))


def disk_is_full(facts: Mapping[str, Any]) -> bool:
    """True where it could not write its file lately, by what it says of its persistence."""
    return bool(facts.get("aof_last_write_status", "ok") != "ok")


def why_refused(error: redis.RedisError) -> tuple[str, str]:
    """The cause of a broker's error, and the remedy."""
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return "The memory of the broker is full", REMEDY
    return "The broker does not answer", "Try again soon."


def set_even_where_full(client: redis.Redis, key: str, value: object, *, ex: int) -> None:
    """Store a value for so many seconds, also by a pipeline, and at a broker that is full."""
    client.eval(_SET, 1, key, value, ex)


def keep_room(broker: redis.Redis) -> BrokerMemory | None:
    """Let sources wait where the broker is nearly full, and go on where it is not; how full, where that begins now.

    Raises
    ------
    redis.RedisError
        The broker does not answer, or does not say.
    """
    memory, was = memory_of(broker), bool(broker.exists(keys.CROWDED))
    if memory.is_crowded(was=was):
        set_even_where_full(broker, keys.CROWDED, memory.most, ex=TOLD_FOR_S)
        return None if was else memory
    if was:
        broker.delete(keys.CROWDED)
    return None


def bound_largest(broker: redis.Redis) -> list[str]:
    """Let writers of the largest channels wait where the broker is well used, and go on where it is not; the channels
    that are bound now and were not before. They wait as for a full channel, and go on as their readers free it.

    Raises
    ------
    redis.RedisError
        The broker does not answer, or does not say.
    """
    memory, bound = memory_of(broker), {name.decode() for name in broker.hkeys(keys.LARGEST)}
    is_well_used = memory.is_well_used(was=bool(bound))
    if not (is_well_used or bound) or not broker.set(keys.WEIGHED, 1, nx=True, ex=WEIGHED_FOR_S):
        return []
    waiting = memory.too_large(_channel_sizes(broker), waiting=bound) if is_well_used else frozenset()
    now_bound = set()
    for channel in bound | waiting:
        of_channel = 2, keys.meta(channel), keys.LARGEST, channel, CROWDED_CAPACITY_BLOCKS
        # What an intruder in a slot has put in place of a channel keeps no other from it.
        with suppress(redis.exceptions.ResponseError):
            if channel not in waiting:
                broker.eval(_UNBOUND, *of_channel)
            elif broker.eval(_BOUND, *of_channel):  # also who has begun again
                now_bound.add(channel)
    return sorted(now_bound - bound)


def _channel_sizes(broker: redis.Redis) -> dict[str, int]:
    """Bytes of each channel, by its id."""
    prefix = keys.channel("")
    names = list(broker.scan_iter(match=f"{prefix}*", count=1_000, _type="stream"))
    pipeline = broker.pipeline(transaction=False)
    for name in names:
        pipeline.memory_usage(name, samples=0)  # all of its blocks: the first five may be small, and the rest large
    sizes = zip(names, pipeline.execute() if names else (), strict=True)
    return {name.decode(errors="replace").removeprefix(prefix): size or 0 for name, size in sizes}


def largest(broker: redis.Redis) -> dict[str, int]:
    """The keys that hold most, with their bytes: of the first 20,000."""
    names = list(itertools.islice(broker.scan_iter(count=1_000), LOOKED_AT))
    pipeline = broker.pipeline(transaction=False)
    for name in names:
        pipeline.memory_usage(name)
    sizes = dict(zip(names, pipeline.execute() if names else (), strict=True))
    most = sorted(((size or 0, name) for name, size in sizes.items()), reverse=True)[:NAMED]
    return {name.decode(errors="replace"): size for size, name in most}
