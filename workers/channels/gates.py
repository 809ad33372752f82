"""What may keep a Python source from planning its next batch: a pause, or a full channel that its query writes."""

from __future__ import annotations

from dataclasses import dataclass, field

import redis

from . import keys


@dataclass(slots=True)
class Gates:
    """The gates of one source; ``look`` asks the broker once for all of them."""

    reader: str
    channels: tuple[str, ...]
    paused: bool = False
    full: str | None = None
    _told: str | None = field(default="", repr=False)  # whatever a driver that was killed has left

    @classmethod
    def parse(cls, reader: str, channels: str) -> Gates:
        """From the options of a data source."""
        return cls(reader, tuple(channel for channel in channels.split(",") if channel))

    def look(self, client: redis.Redis) -> bool:
        """Whether the source may plan; a full channel is made visible as ``throttled_by``."""
        pipe = client.pipeline(transaction=False)
        pipe.hget(keys.valve(self.reader), "paused")
        for channel in self.channels:
            pipe.xlen(keys.channel(channel)).hmget(keys.meta(channel), "capacity", "retain")
        replies = pipe.execute()
        self.paused = replies[0] is not None
        self.full = next(
            (
                channel
                for channel, blocks, (capacity, retain) in zip(
                    self.channels, replies[1::2], replies[2::2], strict=True
                )
                if capacity is not None and blocks > int(capacity) + int(retain or 0)
            ),
            None,
        )
        self._tell(client)
        return not self.paused and self.full is None

    def _tell(self, client: redis.Redis) -> None:
        if self.full == self._told:
            return
        if self.full is None:
            client.hdel(keys.meter(self.reader), "throttled_by")
        else:
            client.hset(keys.meter(self.reader), "throttled_by", self.full)
        self._told = self.full
