"""Channels and valves as the broker keeps them: open, register readers, fence, browse, control, meter."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from scheduler.contracts.offsets import Offset
from scheduler.contracts.partitioning import Partitioning, partitioning_of
from workers import broker_client
from workers.engine.newest_blocks import MOST_BYTES, newest_blocks
from workers.engine.slot_values import UNREADABLE, answers_of, newest_in, room_to_show

from . import keys, scripts
from .channel_config import CAPACITY_BLOCKS
from .channel_info import ChannelInfo, OnDisk, info_of, texts
from .control import (
    Route,
    alternate_prefix,
    alternates_of,
    begin_batch,
    keys_prefix,
    route_prefix,
    routes_of,
)
from .readers_bound import refused_beyond_bound
from .spill import SpilledBlock


@dataclass(frozen=True, slots=True)
class ReaderPlace:
    """The place where a reader begins: after ``offset``, None while one of its predecessors still reads.

    ``kept_since`` is set if the reader asked for older blocks than are kept: when the oldest of these was written (ms),
    or ``all`` if none is kept.
    """

    offset: Offset | None
    kept_since: str | None = None


class Channels:
    """The control side of channels, for slots, agents and pages. Data goes through ``spark_channels.py``."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    @classmethod
    def connect(cls, redis_url: str) -> Channels:
        """Channels of the broker at that URL."""
        return cls(broker_client.connect(redis_url, max_connections=20))

    def close(self) -> None:
        """Return the connections."""
        self._redis.close()

    # -- channels ------------------------------------------------------------------------------------------------

    def open_channel(
        self, channel: str, *, schema_json: str, capacity: int = CAPACITY_BLOCKS, retain: int = 0,
        readers: Iterable[str] = (),
    ) -> None:
        """Make a channel, or bring its settings up to date, and register readers that are not yet.

        Parameters
        ----------
        retain : int, optional
            Events that stay when all have read them.
        """
        self._redis.hset(
            keys.meta(channel), mapping={"schema": schema_json, "capacity": capacity, "retain": retain}
        )
        self.register_readers(channel, readers)

    def register_readers(self, channel: str, readers: Iterable[str]) -> None:
        """Register readers: from the beginning where nothing was written yet, else from now. Repeating it is safe.

        ``TooManyReaders`` where the channel would have more than one may, also from `join`.
        """
        names = list(readers)
        if names:
            with refused_beyond_bound(channel):
                scripts.run(self._redis, "register", self._keys(channel), names)

    def join(
        self, channel: str, reader: str, *, where: str = "now", predecessors: Iterable[str] = ()
    ) -> ReaderPlace:
        """Register a reader where it asks to begin; one that is registered keeps its offset.

        Parameters
        ----------
        where : str
            ``now``; ``oldest``, the oldest block that is kept; an entry id, after which it begins; or a time in ms
            since the epoch, of the first block to be read.
        predecessors : iterable of str
            Readers whose work it goes on with. While one of them is registered, the reader is not: it takes over
            exactly where that one ends.
        """
        with refused_beyond_bound(channel):
            offset, missed = scripts.run(self._redis, "join", self._keys(channel), [reader, where, *predecessors])
        return ReaderPlace(offset=Offset(offset.decode()) if offset else None, kept_since=missed.decode() or None)

    def unregister(self, channel: str, reader: str, *, for_good: bool = False) -> int:
        """Remove a reader and free what only it held back; returns how many readers remain.

        A reader that is removed ``for_good`` is never registered there again: others read on from its offset.
        """
        return int(scripts.run(self._redis, "unregister", self._keys(channel), [reader, int(for_good)]))

    def commit(self, channel: str, reader: str, entry: Offset) -> None:
        """Note that a reader is done with everything up to an entry; nothing changes for one that is not registered."""
        scripts.run(self._redis, "commit", self._keys(channel), [reader, entry])

    def spill(self, channel: str, reader: str, to: Offset) -> Offset | None:
        """Note that a reader's node has its next entries on disk, up to one: up to there it holds nothing back.

        Returns the entry that counts; None if the reader is past it, or not registered.
        """
        spilled_to = scripts.run(self._redis, "spill", self._keys(channel), [reader, to])
        return Offset(spilled_to.decode()) if spilled_to else None

    def ask_to_lose(self, channel: str, reader: str, *, keep_blocks: int) -> None:
        """Ask a reader to give up what it has not read, but for so many of the newest blocks, before its next batch."""
        self._redis.hset(keys.meta(channel), keys.lose(reader), keep_blocks)

    def ask_to_lose_nothing(self, channel: str, reader: str) -> None:
        """Take back what was asked of a reader, unless it has done it already."""
        self._redis.hdel(keys.meta(channel), keys.lose(reader))

    def skip(self, channel: str, reader: str, entry: Offset, on_disk: OnDisk) -> Offset | None:
        """Let a reader give up what it was asked to, between two batches; its new offset, or None if it stays.

        The Java side does this; here it is for tests that play a reader.
        """
        to = scripts.run(self._redis, "skip", self._keys(channel), [
            reader, entry, on_disk.after, on_disk.reach, on_disk.blocks, on_disk.events])
        return Offset(to.decode()) if to else None

    def entries(self, channel: str, *, after: Offset, count: int) -> list[SpilledBlock]:
        """Up to ``count`` blocks after an entry as the broker has them, oldest first; fewer where they are large."""
        blocks = scripts.run(self._redis, "blocks", [keys.channel(channel)], [after, count, MOST_BYTES])
        return [
            SpilledBlock(Offset(entry.decode()), int(fields[b"n"]), int(fields[b"t"]), fields[b"b"])
            for entry, pairs in blocks for fields in (dict(zip(pairs[::2], pairs[1::2], strict=True)),)]

    def delete_channel(self, channel: str) -> None:
        """Remove a channel and everything about it; a write that comes later is refused."""
        self._redis.delete(*self._keys(channel))

    def take_fence(self, channel: str) -> int:
        """A new fencing token: whoever wrote with an older one can write no more."""
        return int(self._redis.hincrby(keys.meta(channel), "fence", 1))

    def open_gate(
        self, fragment: str, gate: str, *, written: Sequence[str], offsets: Mapping[str, Offset],
        source_offset: Mapping[str, int] | None, batch_bases: Mapping[str, int],
    ) -> None:
        """Let a query begin that stands by: it gets new fencing tokens for the channels that it writes.

        Parameters
        ----------
        batch_bases : mapping of str to int
            By channel, what its blocks' numbers begin with; 0 where none is given.
        """
        beginning = {
            "fences": [self.take_fence(channel) for channel in written],
            "batch_bases": [batch_bases.get(channel, 0) for channel in written],
            "offsets": dict(offsets), "source_offset": None if source_offset is None else dict(source_offset),
        }
        self._redis.hset(keys.valve(fragment), keys.gate(gate), json.dumps(beginning))
        self._redis.publish(keys.valve(fragment), "")

    def info(self, channel: str) -> ChannelInfo | None:
        """The state of the channel, or None if none is open."""
        return self.look([channel])[0].get(channel)

    def look(
        self, channels: Collection[str], fragments: Collection[str] = ()
    ) -> tuple[dict[str, ChannelInfo], dict[str, dict[str, str]]]:
        """The state of those of these channels that are open, and the control hashes of fragments: in one round trip.

        Control hashes are read first: what a writer has written before its hash says that it is done is seen.
        """
        if not channels and not fragments:
            return {}, {}
        pipe = self._redis.pipeline(transaction=False)
        for fragment in fragments:
            pipe.hgetall(keys.valve(fragment))
        for channel in channels:
            pipe.hgetall(keys.meta(channel)).xlen(keys.channel(channel)).hgetall(keys.readers(channel))
        replies = iter(pipe.execute())
        controls = {fragment: texts(next(replies)) for fragment in fragments}
        infos = (info_of(channel, *(next(replies) for _ in range(3))) for channel in channels)
        return {info.channel: info for info in infos if info is not None}, controls

    def look_apart(self, channels: Collection[str]) -> tuple[dict[str, ChannelInfo], frozenset[str]]:
        """The state of those of these channels that are open, and those that cannot be read: who looks at channels of
        many writers goes on without these."""
        pipe = self._redis.pipeline(transaction=False)
        for channel in channels:
            pipe.hgetall(keys.meta(channel)).xlen(keys.channel(channel)).hgetall(keys.readers(channel))
        answers = iter(answers_of(pipe) if channels else ())
        infos: dict[str, ChannelInfo] = {}
        unreadable = set()
        for channel in channels:
            try:
                info = info_of(channel, *(next(answers) for _ in range(3)))
            except UNREADABLE:
                unreadable.add(channel)
            else:
                infos |= {} if info is None else {channel: info}
        return infos, frozenset(unreadable)

    def tail(self, channel: str, n: int = 50) -> list[dict[str, Any]]:
        """The newest ``n`` events that the channel still holds, oldest first."""
        events: list[dict[str, Any]] = []
        room = room_to_show(n)
        [blocks] = newest_blocks(self._redis, [keys.channel(channel)], count=n)
        for block in blocks:
            for batch in newest_in(block, room):
                events = batch.to_pylist() + events
        return events

    # -- valves --------------------------------------------------------------------------------------------------

    def open_outlet(self, fragment: str, position: int, *, from_batch: int | None = None) -> bool:
        """Publish a task's stream from the next batch boundary on, or from ``from_batch`` where one is given.

        A fragment that has not started yet gets ``from_batch=0``: it publishes from its first event on.
        Returns False where the outlet is open already.
        """
        first = "" if from_batch is None else from_batch
        return bool(scripts.run(self._redis, "open_outlet", [keys.valve(fragment)], [position, first]))

    def close_outlet(self, fragment: str, position: int) -> None:
        """Publish nothing from the next batch on."""
        self._redis.hset(keys.valve(fragment), f"{position}:outlet", "closed")

    def close_tail(self, fragment: str, position: int, *, from_batch: int | None = None) -> bool:
        """Let the valve at ``position`` pass nothing on, from a batch on: the one named, or the next that begins."""
        first_batch = "" if from_batch is None else from_batch
        return bool(scripts.run(self._redis, "close_tail", [keys.valve(fragment)], [position, first_batch]))

    def open_tail(self, fragment: str) -> bool:
        """Let every valve of the fragment pass its events on again."""
        return bool(scripts.run(self._redis, "close_tail", [keys.valve(fragment)], ["", ""]))

    def control(self, fragment: str) -> dict[str, str]:
        """The fragment's control hash: ``<position>:outlet``, ``<position>:from``, ``tail``, ``tail:from``, ``paused``.

        A change is in force once its ``from`` is set: the valve does so at its next batch that carries events.
        """
        return texts(self._redis.hgetall(keys.valve(fragment)))

    def route(
        self, fragment: str, position: int, reader: str, partitioning: Partitioning | Mapping[str, Any], *,
        channel: str | None = None, from_batch: int | None = None, instead: bool = False,
    ) -> bool:
        """Divide a task's stream among the bundles of one reader, from the next batch boundary on.

        Each event goes to exactly one bundle's part of the stream's channel (``keys.part``). These channels have to be
        open, with their reader registered. Until the boundary the former route stays in force.

        Parameters
        ----------
        reader : str
            The divided reader; a name for the route, whatever its bundles are called.
        partitioning : Partitioning
            The division of events among bundles; weights by bundle stand for a quota of them.
        channel : str, optional
            The stream's channel, where it is not ``<fragment>.<position>`` (one that was taken over).
        from_batch : int, optional
            The first batch to be divided so; 0 for a fragment that has not started yet. No other change counts then.
        instead : bool
            True for parts in place of the whole stream, whose reader reads up to its present end. Only with
            ``from_batch``, and for a fragment at rest (see ``activate``), whose next batch this is.

        Returns
        -------
        bool
            False if that was asked for already.

        Raises
        ------
        ValueError
            The partitioning is invalid (``Partitioning.why_not``).
        """
        how = partitioning_of(partitioning)
        if how.why_not:
            raise ValueError(f"the stream at position {position} of {fragment} {how.why_not}")
        stream = channel or f"{fragment}.{position}"
        parts = how.renamed(lambda bundle: keys.part(stream, bundle)).document()
        return self._change_route(fragment, position, reader, parts, from_batch, whole=stream if instead else None)

    def unroute(self, fragment: str, position: int, reader: str) -> bool:
        """Divide a task's stream for that reader no longer, from the next batch boundary on."""
        return self._change_route(fragment, position, reader, {}, None)

    def _change_route(
        self, fragment: str, position: int, reader: str, parts: Mapping[str, Any], from_batch: int | None, *,
        whole: str | None = None,
    ) -> bool:
        first = "" if from_batch is None else from_batch
        arguments = [route_prefix(position, reader), json.dumps(parts), first, reader]
        further = [] if whole is None else [keys.meta(whole), keys.readers(whole)]
        return bool(scripts.run(self._redis, "route", [keys.valve(fragment), *further], arguments))

    def switch(self, fragment: str, position: int, alternate: str, *, from_batch: int | None = None) -> bool:
        """Let another alternate work at an element, from the next batch boundary on.

        Parameters
        ----------
        from_batch : int, optional
            The first batch that it works on; 0 for a fragment that has not started yet. No other change counts then.

        Returns
        -------
        bool
            False if that was asked for already.
        """
        first = "" if from_batch is None else from_batch
        arguments = [alternate_prefix(position), json.dumps({alternate: 1.0}), first, ""]
        return bool(scripts.run(self._redis, "route", [keys.valve(fragment)], arguments))

    def switch_keys(
        self, fragment: str, position: int, alternates: Mapping[str, str], *, from_batch: int | None = None
    ) -> bool:
        """Let these alternates work for these keys at an element, and its own for all others.

        Parameters
        ----------
        alternates : mapping of str to str
            By the text of a key (``workers.library.state.key_text``).

        Returns
        -------
        bool
            False if that was asked for already.
        """
        first = "" if from_batch is None else from_batch
        arguments = [keys_prefix(position), json.dumps(alternates, sort_keys=True), first, ""]
        return bool(scripts.run(self._redis, "route", [keys.valve(fragment)], arguments))

    def alternates(self, fragment: str) -> dict[int, tuple[str, bool]]:
        """The alternate that is to work at each element of a fragment, by position, and whether it does (`control`)."""
        return alternates_of(self.control(fragment))

    def routed(self, fragment: str, position: int, reader: str) -> Route | None:
        """The route of a task's stream for one reader, or None where it is not divided."""
        return self.routes(fragment).get((position, reader))

    def routes(self, fragment: str) -> dict[tuple[int, str], Route]:
        """Routes of a fragment's streams, by position and reader."""
        return routes_of(self.control(fragment))

    def activate(self, fragment: str, *, done_batch: int) -> None:
        """Put every change in force with the batch after ``done_batch``, as no event comes that would set its boundary.

        Only for a fragment at rest: stopped, or paused with no batch under way, and ``done_batch`` the last one that
        was planned (-1 for none) and done.
        """
        begin_batch(self._redis, fragment, done_batch)
        begin_batch(self._redis, fragment, done_batch + 1)

    def pause(self, fragment: str) -> None:
        """Let a fragment's sources plan no new batch: the batch under way ends, and the query can stop cleanly."""
        self._redis.hset(keys.valve(fragment), "paused", 1)
        self._redis.publish(keys.valve(fragment), "")

    def resume(self, fragment: str) -> None:
        """Let a fragment's sources plan batches again."""
        self._redis.hdel(keys.valve(fragment), "paused")
        self._redis.publish(keys.valve(fragment), "")

    def pace(self, fragment: str, interval_ms: int) -> None:
        """Let a fragment's batches, or the groups of its open batch, begin so many ms apart at least from now on."""
        self._redis.hset(keys.valve(fragment), "pace", interval_ms)
        self._redis.publish(keys.valve(fragment), "")

    def forget_fragment(self, fragment: str, *, keeps_control: bool = False) -> None:
        """Remove a stopped fragment's control and meters, or its meters alone."""
        self._redis.delete(*(() if keeps_control else (keys.valve(fragment),)), *keys.all_meters(fragment))

    # -- meters --------------------------------------------------------------------------------------------------

    def meters(self, fragment: str) -> dict[str, int | str]:
        """A fragment's meters; every value is a running total, except ``throttled_by``: a channel that is full."""
        meters = texts(self._redis.hgetall(keys.meter(fragment)))
        return {name: value if name == "throttled_by" else int(value) for name, value in meters.items()}

    @staticmethod
    def _keys(channel: str) -> list[str]:
        return [keys.channel(channel), keys.meta(channel), keys.readers(channel)]
