"""What may keep a Python source from planning its next batch: a pause, or a full channel that its query writes."""

from __future__ import annotations

from dataclasses import dataclass, field

import redis

from . import keys, scripts


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
        paused, full = scripts.run(client, "gates", [keys.valve(self.reader)], [keys.channel(""), *self.channels])
        self.paused, self.full = bool(paused), full.decode() or None
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
