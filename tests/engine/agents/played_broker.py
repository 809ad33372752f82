"""A played broker: what hands, valves and readers ask of it, on dictionaries. Any command may be a slot's last."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from workers.engine.agents.handover import order_of
from workers.engine.channels import keys
from workers.engine.channels.registry import ChannelInfo, Channels, Joined


class Gap(Exception):
    """A reader was let go while it read."""


@dataclass
class Stream:
    entries: list[tuple[str, list]] = field(default_factory=list)
    readers: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    trimmed: str = "0-0"
    last: str = "0-0"
    open: bool = False
    expires: bool = False


class Broker(Channels):
    """The registry and the few commands that hands give themselves, on dictionaries; any of them may be the last."""

    def __init__(self, may_die: Callable[[], None], *, kept: Collection[str]) -> None:
        super().__init__(self)
        self.hashes: dict[str, dict[bytes, bytes]] = {}
        self.streams: dict[str, Stream] = {}
        self._may_die, self._kept = may_die, kept

    # -- commands ------------------------------------------------------------------------------------------------

    def hgetall(self, key: str) -> dict[bytes, bytes]:
        return dict(self.hashes.get(key, {}))

    def hset(self, key: str, name=None, value=None, mapping=()) -> None:
        self._may_die()
        for one, content in {**dict(mapping), **({name: value} if name is not None else {})}.items():
            self.hashes.setdefault(key, {})[str(one).encode()] = str(content).encode()

    def hsetnx(self, key: str, name: str, value) -> None:
        if not self.hexists(key, name):
            self.hset(key, name, value)

    def hexists(self, key: str, name: str) -> bool:
        return name.encode() in self.hashes.get(key, {})

    def hdel(self, key: str, *names: str) -> None:
        self._may_die()
        for name in names:
            self.hashes.get(key, {}).pop(name.encode(), None)

    def hincrby(self, key: str, name: str, by: int) -> int:
        value = int(self.hashes.get(key, {}).get(name.encode(), b"0")) + by
        self.hashes.setdefault(key, {})[name.encode()] = str(value).encode()
        return value

    def exists(self, key: str) -> bool:
        return key in self.hashes

    def set(self, key: str, value) -> None:
        pass

    def publish(self, *_) -> None:
        pass

    def delete(self, *names: str) -> None:
        for name in names:
            self.hashes.pop(name, None)
            self.streams.pop(name, None)

    def persist(self, key: str) -> None:
        if key in self.streams:
            self.streams[key].expires = False

    def expire(self, key: str, _seconds: int) -> None:
        self._may_die()
        if key in self.streams:
            self.streams[key].expires = True

    # -- what the registry does by script ------------------------------------------------------------------------

    def open_channel(self, channel, *, schema_json, capacity=0, retain=0, readers: Iterable[str] = ()) -> None:
        self._may_die()
        self.streams.setdefault(keys.channel(channel), Stream()).open = True

    def join(self, channel, reader, *, where="now", predecessors=()) -> Joined:
        self._may_die()
        stream = self.streams.setdefault(keys.channel(channel), Stream())
        if reader in stream.limits and reader not in stream.readers:
            return Joined(None)
        if reader not in stream.readers and any(one in stream.readers for one in predecessors):
            return Joined(None)
        return Joined(stream.readers.setdefault(reader, stream.last if where == "now" else where))

    def unregister(self, channel: str, reader: str, *, for_good: bool = False) -> int:
        self._may_die()
        stream = self.streams.get(keys.channel(channel), Stream())
        if for_good and reader in stream.readers:
            stream.limits.setdefault(reader, stream.readers[reader])
        stream.readers.pop(reader, None)
        self.trim(channel)
        return len(stream.readers)

    def commit(self, channel: str, reader: str, entry: str) -> None:
        readers = self.streams[keys.channel(channel)].readers
        if reader in readers:
            readers[reader] = max(readers[reader], entry, key=order_of)
            limit = self.streams[keys.channel(channel)].limits.get(reader)
            if limit is not None and order_of(readers[reader]) >= order_of(limit):
                del readers[reader]
            self.trim(channel)

    def info(self, channel: str) -> ChannelInfo | None:
        stream = self.streams.get(keys.channel(channel))
        if stream is None or not stream.open:
            return None
        return ChannelInfo(
            channel, "{}", len(stream.entries), 0, 0, 0, stream.last, stream.trimmed, 0, 0, dict(stream.readers),
            dict(stream.limits))

    def endless(self, channel: str, readers: Iterable[str]) -> frozenset[str]:
        info = self.info(channel)
        return frozenset() if info is None else frozenset(readers) & (info.readers.keys() - info.limits.keys())

    def take_fence(self, channel: str) -> int:
        return 1

    def open_outlet(self, fragment, position, *, from_batch=None) -> bool:
        valve = keys.valve(fragment)
        if self.hashes.get(valve, {}).get(f"{position}:outlet".encode()) != b"open":
            self.hdel(valve, f"{position}:from")
            fields = {} if from_batch is None else {f"{position}:from": from_batch}
            self.hset(valve, mapping={**fields, f"{position}:outlet": "open"})
        return True

    def open_tail(self, fragment: str) -> bool:
        return True

    def close_tail(self, fragment: str, position: int) -> bool:
        return True

    def _change_route(self, fragment, position, reader, parts, from_batch, *, whole=None) -> bool:
        """As ``route.lua`` does."""
        self._may_die()
        stream = self.streams.get(keys.channel(whole)) if whole else None
        if stream is not None and reader in stream.readers and reader not in stream.limits:
            stream.limits[reader] = stream.last
            if stream.readers[reader] == stream.last:
                del stream.readers[reader]
        valve, prefix, weights = self.hashes.setdefault(keys.valve(fragment), {}), f"{position}:route:{reader}:", parts
        numbers = sorted(
            int(rest) for name in valve if (rest := name.decode().removeprefix(prefix)) != name.decode()
            and rest.isdigit())

        def name(number: int, of: str = "") -> bytes:
            return f"{prefix}{number}{of}".encode()

        newest = numbers[-1] if numbers else None
        settled = valve.get(name(newest, ":from")) if newest is not None else None
        known = json.loads(valve[name(newest)]) if newest is not None else {}
        if known == weights and (
            from_batch is None or not numbers or (len(numbers) == 1 and settled == str(from_batch).encode())
        ):
            return False
        forget = numbers if from_batch is not None else [newest] if newest is not None and settled is None else []
        for number in forget:
            valve.pop(name(number))
            valve.pop(name(number, ":from"), None)
        if not weights and (from_batch is not None or not set(numbers) - set(forget)):
            return True
        number = self.hincrby(keys.valve(fragment), "routes", 1)
        valve[name(number)] = json.dumps(weights).encode()
        if from_batch is not None:
            valve[name(number, ":from")] = str(from_batch).encode()
        return True

    # -- data ----------------------------------------------------------------------------------------------------

    def write(self, channel: str, entry: str, events: list) -> None:
        stream = self.streams[keys.channel(channel)]
        assert stream.open, f"{channel} is written and not open"
        if order_of(entry) <= order_of(stream.last):
            kept = dict(stream.entries)
            assert entry not in kept or kept[entry] == events, "a repetition differs"
            return
        stream.entries.append((entry, events))
        stream.last = entry
        self.trim(channel)
        self._may_die()

    def trim(self, channel: str) -> None:
        stream = self.streams.get(keys.channel(channel))
        if stream is None or channel in self._kept:
            return
        slowest = min(stream.readers.values(), key=order_of, default=stream.last)
        while stream.entries and order_of(stream.entries[0][0]) <= order_of(slowest):
            stream.trimmed = stream.entries.pop(0)[0]

    def place(self, channel: str, reader: str) -> str:
        stream = self.streams[keys.channel(channel)]
        place = stream.readers.get(reader) or stream.limits.get(reader)
        if place is None:
            raise Gap(f"{reader} does not read {channel}")
        return place

    def after(
        self, channel: str, place: str, end: str | None = None, *, reader: str | None = None
    ) -> list[tuple[str, list]]:
        stream = self.streams[keys.channel(channel)]
        end = end or stream.limits.get(reader)
        if reader in stream.limits and place == stream.limits[reader]:
            return []
        if not order_of(stream.trimmed) <= order_of(place) <= order_of(stream.last):
            raise Gap(f"{channel}: what it has not read was freed, or it is another one under the same name")
        return [
            one for one in stream.entries
            if order_of(place) < order_of(one[0]) and (end is None or order_of(one[0]) <= order_of(end))]
