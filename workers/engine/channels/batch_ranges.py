"""Ranges of batches: where each begins and ends, as sources record it before anything of a batch is published.

Whoever goes on from a copy of a query's state repeats the batches behind that copy (``lua/range.lua``). So ranges, and
the blocks of inputs, are kept from the oldest copy's place on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import redis

from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import Savepoint
from workers.engine.slot_values import count_of

from . import keys, scripts
from .channel_info import texts
from .channel_registry import Channels

TICKS = ""  # in the place of a channel: how far a source's numbers have come
_BEGINS, _NEXT, _OWNER, _CARRIES = "from:", "next", "owner", "of:"
_KEPT_FROM = "kept_from"  # the oldest batch behind which everything is kept
TOLD_S = 7 * 24 * 3600  # for so long one that was overtaken is told


def place_of(savepoint: Savepoint) -> str:
    """The place from which a query reads on, as its source writes it in Java."""
    ticks = savepoint.source_offset
    if not savepoint.offsets and ticks is not None:
        return f'{{"t0":{ticks["t0"]},"next":{ticks["next"]}}}'
    return json.dumps(dict(sorted(savepoint.offsets.items())), separators=(",", ":"))


def entries_of(place: str) -> dict[str, tuple[int, int]]:
    """A place as entries by channel; of ticks the next number, under `TICKS`."""
    parsed = json.loads(place)
    if "t0" in parsed:
        return {TICKS: (parsed["next"], 0)}
    return {channel: entry_of(Offset(text)) for channel, text in parsed.items()}


def entry_of(offset: Offset) -> tuple[int, int]:
    """An offset as the pair of numbers in its text."""
    block, _, number = offset.partition("-")
    return int(block), int(number)


def begin_ranges(
    broker: redis.Redis, channels: Channels, fragment: str, place: str, offsets: Mapping[str, Offset],
    streams: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Record ranges from a place on, and keep what inputs have behind it; for a query at rest. Repeating it is safe.

    ``streams`` as `note_streams` has them.
    """
    keep_inputs(channels, fragment, offsets)
    key = keys.ranges(fragment)
    if broker.hsetnx(key, _NEXT, place):
        broker.hsetnx(key, _OWNER, fragment)
    note_streams(broker, fragment, streams)
    broker.hset(keys.valve(fragment), keys.COPIED, 1)  # changes of its routes are kept, too


def note_streams(broker: redis.Redis, fragment: str, streams: Mapping[str, str]) -> None:
    """Note of a query that reads several streams which one each channel carries: places name channels alone.

    Parameters
    ----------
    streams : mapping
        The running task whose stream it is, by channel; of a query with one stream none.
    """
    if streams:
        broker.hset(keys.ranges(fragment), mapping={f"{_CARRIES}{name}": task for name, task in streams.items()})


def carried_with(broker: redis.Redis, fragment: str, channels: Collection[str]) -> list[str]:
    """The channels of a fragment's recorded places that carry, or have carried, the same stream as these; none of a
    query with one stream."""
    carried = {name.removeprefix(_CARRIES): task for name, task in texts(broker.hgetall(keys.ranges(fragment))).items()
               if name.startswith(_CARRIES)}
    tasks = {carried[channel] for channel in channels if channel in carried}
    return sorted(channel for channel, task in carried.items() if task in tasks)


def keep_inputs(channels: Channels, fragment: str, offsets: Mapping[str, Offset]) -> None:
    """Keep what these channels have behind these offsets, for who goes on from a copy of the fragment's state."""
    for channel, offset in offsets.items():
        channels.join(channel, keys.copies_reader(fragment), where=offset)


def are_recorded(broker: redis.Redis, fragment: str) -> bool:
    """True where a fragment records ranges."""
    return broker.hget(keys.ranges(fragment), _OWNER) == fragment.encode()


def forget_ranges(
    broker: redis.Redis, channels: Channels, fragment: str, names: Iterable[str], *, place: str | None = None
) -> bool:
    """Record no more ranges, and keep nothing for copies; what another has taken over stays.

    Parameters
    ----------
    place : str, optional
        The place that it has come to: of one that works. Until it has repeated all that was recorded, nothing is
        forgotten.
    """
    owner, following = broker.hmget(keys.ranges(fragment), _OWNER, _NEXT)
    if place is not None and owner == fragment.encode() and not _has_come_to(place, following.decode()):
        return False
    for channel in names:
        channels.unregister(channel, keys.copies_reader(fragment))
    if owner == fragment.encode():
        broker.hdel(keys.valve(fragment), keys.COPIED)
        broker.delete(keys.ranges(fragment), keys.copies(fragment))
    return True


def rest_ranges(broker: redis.Redis, fragment: str, place: str | None, *, batches: int) -> None:
    """Note that a query that records ranges rests after ``batches`` batches. From now on only copies of the last batch
    count, and what it read may be freed. With ``place``, nothing is recorded behind it."""
    if are_recorded(broker, fragment):
        key = keys.ranges(fragment)
        broker.hset(key, _KEPT_FROM, max(batches, kept_from(broker, fragment)))
        if place is None:
            return
        broker.hset(key, _NEXT, place)
        old = [name for name in texts(broker.hgetall(key)) if name.startswith(_BEGINS)]
        if old:
            broker.hdel(key, *old)


def free_to(
    broker: redis.Redis, channels: Channels, fragment: str, freed_to: Mapping[str, tuple[int, int]], *, kept_from: int,
    needed: Collection[str],
) -> None:
    """Let go of inputs, and of ranges, up to the place that the oldest copy has read.

    Parameters
    ----------
    freed_to : mapping
        By channel, or `TICKS`, the last entry that no copy needs.
    kept_from : int
        Copies of batches before this one count no more.
    needed : collection of str
        The channels, or `TICKS`, in which the query or a copy has a place.
    """
    broker.hset(keys.ranges(fragment), _KEPT_FROM, kept_from)  # before anything is freed
    for channel, (block, number) in freed_to.items():
        if channel != TICKS:
            channels.commit(channel, keys.copies_reader(fragment), Offset(f"{block}-{number}"))
    ranges = texts(broker.hgetall(keys.ranges(fragment)))
    # Where all have places in the same channels, one in others is from before the query came to read these.
    has_others = freed_to.keys() == set(needed)
    old = [name for name in ranges if name.startswith(_BEGINS) and _is_before(
        entries_of(name.removeprefix(_BEGINS)), freed_to, has_others=has_others)]
    if old:
        broker.hdel(keys.ranges(fragment), *old)


def kept_from(broker: redis.Redis, fragment: str) -> int:
    """The oldest batch of whose copies everything is kept that comes behind it; 0 before anything was freed."""
    return count_of(broker.hget(keys.ranges(fragment), _KEPT_FROM)) or 0


def take_ranges(broker: redis.Redis, before: str, fragment: str) -> bool:
    """True where a fragment goes on with the ranges of another, which records none from then on."""
    return bool(scripts.run(broker, "take_ranges", [keys.ranges(before), keys.ranges(fragment)], [fragment, TOLD_S]))


def recorded_behind(broker: redis.Redis, fragment: str, place: str) -> list[str] | None:
    """The ends of the batches that are recorded behind a place, in order; None for an unknown place, or for a cycle:
    slots write there."""
    ranges = texts(broker.hgetall(keys.ranges(fragment)))
    ends: list[str] = []
    while (end := ranges.get(_BEGINS + place)) is not None and len(ends) < len(ranges):
        ends.append(end)
        place = end
    return ends if end is None and place == ranges.get(_NEXT) else None


def _has_come_to(place: str, following: str) -> bool:
    entries = entries_of(place)
    pairs = [(entries[channel], entry) for channel, entry in entries_of(following).items() if channel in entries]
    return bool(pairs) and all(at >= entry for at, entry in pairs)  # one that has read nothing has come nowhere


def _is_before(
    entries: Mapping[str, tuple[int, int]], freed_to: Mapping[str, tuple[int, int]], *, has_others: bool
) -> bool:
    if entries.keys() - freed_to.keys() or freed_to.keys() - entries.keys():
        return has_others
    return all(entry <= freed_to[channel] for channel, entry in entries.items()) and any(
        entry < freed_to[channel] for channel, entry in entries.items())
