"""The channels of a played world: the real registry over a broker in memory, and what queries do there.

Any change that a slot asks for may be its last.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

from scheduler.contracts.offsets import Offset
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_registry import Channels

from ..channels.played_redis import PlayedRedis


class Failed(Exception):
    """A query's batch failed here."""


class Gap(Exception):
    """A reader was let go while it read."""


class Broker(PlayedRedis):
    """The broker of a played world, with the side of channels that Spark has: writing, reading, committing."""

    def __init__(self, may_die: Callable[[], None]) -> None:
        super().__init__(may_die)
        self.channels = Channels(self)

    def write(self, channel: str, batch: int, events: list, *, token: int, stream: str) -> None:
        """One batch of a stream, or of a part of it; the token is that of the stream."""
        entry = b"%d-0" % batch
        for _, fields in self.xrange(keys.channel(channel), entry.decode(), entry.decode()):
            assert pickle.loads(fields[b"b"]) == events, "a repetition differs"
        names = [keys.channel(channel), keys.meta(channel), keys.readers(channel), keys.meta(stream)]
        scripts.run(self, "write", names, [token, batch, 0, len(events), pickle.dumps(events), 0])

    def opened(self) -> set[str]:
        """The channels that were opened and not deleted since."""
        start, end = keys.meta("").removesuffix(":meta").encode(), b":meta"
        return {
            key[len(start) : -len(end)].decode() for key, fields in self.hashes.items()
            if key.startswith(start) and key.endswith(end) and b"capacity" in fields}

    def events(self, channel: str) -> Iterator:
        """All that a channel holds, oldest first."""
        for _, fields in self.xrange(keys.channel(channel)):
            yield from pickle.loads(fields[b"b"])

    def offset(self, channel: str, reader: str) -> Offset:
        """Where a reader begins that has no checkpoint of the channel."""
        offset = self.hget(keys.readers(channel), reader) or self.hget(keys.meta(channel), keys.limit(reader))
        if offset is None:
            raise Gap(f"{reader} does not read {channel}")
        return Offset(offset.decode())

    def after(
        self, channel: str, offset: Offset, end: Offset | None = None, *, reader: str | None = None
    ) -> list[tuple[Offset, list]]:
        """Entries after an offset with their events, up to ``end``, or to the reader's limit in the channel."""
        trimmed, last, limit = self.hmget(keys.meta(channel), "trimmed", "last", keys.limit(reader or ""))
        limit = limit.decode() if limit is not None and reader is not None else None
        if offset == limit:
            return []
        first, newest = (b"0-0" if entry is None else entry for entry in (trimmed, last))
        if not Offset(first.decode()) <= offset <= Offset(newest.decode()):
            raise Gap(f"{channel}: what it has not read was freed, or it is another one under the same name")
        entries = self.xrange(keys.channel(channel), f"({offset}", end or limit or "+")
        return [(Offset(entry.decode()), pickle.loads(fields[b"b"])) for entry, fields in entries]
