"""The Python data sources: channels and ticks where no JDK is found. Same options, offsets and blocks as the Java ones.

Spark keeps one Python process for each source that plans, and reads in its Python workers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from . import codec, histogram, keys, scripts
from .connections import client
from .gates import Gates
from .slices import Piece, cut

FETCH_BLOCKS = 32
POLL_S = 0.02  # how often a closed gate is looked at


class ChannelLost(RuntimeError):
    """Entries that a reader has not read are gone; skipping them would lose events silently."""


def register(spark: SparkSession, what: str) -> str:
    """Make a data source known to the session; returns its name."""
    from .ticks import TicksSource

    source = {"channel": ChannelSource, "ticks": TicksSource}[what]
    spark.dataSource.register(source)
    return source.name()


class ChannelSource(DataSource):
    """The channels of one stream, as rows."""

    @classmethod
    def name(cls) -> str:
        return "weir-channel"

    def schema(self) -> StructType:
        raise ValueError("a channel is read with the schema of its stream: call .schema(…)")

    def streamReader(self, schema: StructType) -> ChannelStreamReader:
        return ChannelStreamReader(schema, dict(self.options))


class Slice(InputPartition):
    """What one task reads of a batch, planned at ``planned_ms``."""

    def __init__(self, pieces: list[Piece], *, planned_ms: int) -> None:
        super().__init__(None)
        self.pieces = pieces
        self.planned_ms = planned_ms


class ChannelStreamReader(DataSourceStreamReader):
    """Plans which blocks make the next batch, reads them, and frees them when they are done with.

    The channels may be others when the query starts again: one that comes begins where the reader is registered, one
    that goes must have been read to its end.
    """

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._schema = schema
        self._url = options["redis_url"]
        self._channels = options["channels"].split(",")
        self._reader = options["reader"]
        self._gates = Gates.parse(self._reader, options.get("gates", ""))
        siblings = [name for name in options.get("siblings", "").split(",") if name]
        self._siblings = dict.fromkeys([*self._channels, *siblings])
        self._wait_ms = int(options.get("wait_ms", 0))
        self._max_blocks = int(options.get("max_blocks", 64))
        self._max_rows = int(options.get("max_rows", 100_000))
        self._threads = int(options.get("threads", 1))
        self._begin = json.loads(options.get("begin", "{}"))
        self._seen: dict[str, str] = {}
        self._joined: dict[str, str] = {}  # where channels begin that the checkpoint lacks
        self._committed: dict[str, str] = {}

    def initialOffset(self) -> dict:
        return {channel: self._registered(channel) for channel in self._channels}

    def _registered(self, channel: str) -> str:
        place = client(self._url).hget(keys.readers(channel), self._reader) or client(self._url).hget(
            keys.meta(channel), keys.limit(self._reader))
        if place is None:
            raise ValueError(
                f"'{self._reader}' is not a reader of channel {channel}: register it before the query starts"
            )
        return place.decode()

    def latestOffset(self, start: dict, limit: object) -> dict:
        self.commit(start)
        for channel in start.keys() - set(self._channels):
            self._check_left(channel, start[channel])
        deadline = time.monotonic() + self._wait_ms / 1000
        after = {channel: self._after(start, channel) for channel in self._channels}
        while True:
            if self._gates.look(client(self._url)):
                end = self._plan(after)
                if end != after:
                    return end
            left_s = deadline - time.monotonic()
            if self._gates.paused or left_s <= 0:
                return start
            if self._gates.full:
                time.sleep(min(POLL_S, left_s))
            elif not self._wait(after, left_s):
                return start

    def _check_left(self, channel: str, entry: str) -> None:
        """A channel that is no longer read must have been read to its end, or to this reader's limit, or be gone."""
        fields = ("capacity", keys.limit(self._reader), "last")
        capacity, limit, last = client(self._url).hmget(keys.meta(channel), *fields)
        if capacity is None or last is None or _order(entry) >= _order((limit or last).decode()):
            return
        raise ChannelLost(
            f"WEIRGAP channel {channel} is no longer read by {self._reader}, which is at {entry} there, "
            f"but it holds events up to {(limit or last).decode()}: read them before the channel is left out"
        )

    def _after(self, start: dict, channel: str) -> str:
        """Where a batch that starts there begins: a reader that was paused leaves out what came meanwhile."""
        if channel not in start and channel not in self._joined:
            self._joined[channel] = self._registered(channel)
        return max(start.get(channel) or self._joined[channel], self._begin.get(channel, "0-0"), key=_order)

    def _plan(self, after: dict[str, str]) -> dict[str, str]:
        """The last entry of the next batch in each channel."""
        most = (self._max_blocks, self._max_rows)
        names = [key for channel in after for key in (keys.channel(channel), keys.meta(channel))]
        reply = scripts.run(client(self._url), "plan", names, [self._reader, *most, *after.values()])
        end, trimmed, last = ([part.decode() for part in reply[first::3]] for first in range(3))
        for index, channel in enumerate(after):
            check_unbroken(channel, after[channel], trimmed=trimmed[index], last=last[index])
        return {channel: end[index] or after[channel] for index, channel in enumerate(after)}

    def _wait(self, after: dict[str, str], left_s: float) -> bool:
        """Wait for an entry of any input; False where another input has one, so that Spark asks it."""
        # What was seen and not taken lies beyond a limit: it is nothing to wake up for again.
        places = {
            name: max((known for known in (after.get(name), self._seen.get(name)) if known), key=_order, default="$")
            for name in self._siblings}
        seen = {keys.channel(name): place for name, place in places.items()}
        found = client(self._url).xread(seen, count=1, block=max(1, int(left_s * 1000)))
        names = [stream.decode().removeprefix(keys.channel("")) for stream, _ in found or []]
        for name, (_, entries) in zip(names, found or [], strict=True):
            self._seen[name] = entries[-1][0].decode()
        return any(name in after for name in names)

    def partitions(self, start: dict, end: dict) -> list[Slice]:
        """Reads what the offsets name, in the order of its name, whichever channels are read now: a repeated batch is
        the same."""
        whole = [Piece(channel, self._after(start, channel), end[channel]) for channel in sorted(end)]
        whole = [piece for piece in whole if _order(piece.start) < _order(piece.end)]
        now_ms = int(time.time() * 1000)
        if self._threads == 1 or not whole:
            return [Slice(whole, planned_ms=now_ms)] if whole else []
        sizes = [self._sizes(piece) for piece in whole]
        return [Slice(pieces, planned_ms=now_ms) for pieces in cut(whole, sizes, threads=self._threads)]

    def _sizes(self, piece: Piece) -> list[tuple[str, int]]:
        reply = scripts.run(client(self._url), "sizes", [keys.channel(piece.channel)], [piece.start, piece.end])
        return [(entry.decode(), int(events)) for entry, events in zip(reply[::2], reply[1::2], strict=True)]

    def read(self, partition: Slice) -> Iterator[pa.RecordBatch]:
        meter = histogram.Meter(self._reader)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for piece in partition.pieces:
            for batch in self._events(piece, meter, planned_ms=partition.planned_ms):
                yield codec.conform(batch, schema)
        meter.flush(client(self._url))

    def _events(self, piece: Piece, meter: histogram.Meter, *, planned_ms: int) -> Iterator[pa.RecordBatch]:
        skip, left = piece.skip, piece.take
        for fields in self._blocks(piece):
            events = int(fields[b"n"])
            meter.add("in:n", max(0, min(events - skip, left)))
            if skip == 0:  # otherwise the slice before has metered the block
                written_ms = int(fields[b"t"])
                meter.add("in:bytes", len(fields[b"b"]))
                meter.sample("in:chan", int(time.time() * 1000) - written_ms)
                meter.sample("in:wait", planned_ms - written_ms)
            for batch in codec.decode_block(fields[b"b"]):
                wanted = batch.slice(skip, left)
                skip = max(0, skip - batch.num_rows)
                left -= wanted.num_rows
                yield wanted

    def _blocks(self, piece: Piece) -> Iterator[dict[bytes, bytes]]:
        after = piece.start
        while after != piece.end:
            for entry, fields in self._fetch(piece.channel, after, piece.end):
                yield fields
                after = entry.decode()

    def _fetch(self, channel: str, after: str, end: str) -> list:
        pipe = client(self._url).pipeline(transaction=False)
        pipe.hmget(keys.meta(channel), "trimmed", "last")
        pipe.xrange(keys.channel(channel), min=f"({after}", max=end, count=FETCH_BLOCKS)
        (trimmed, last), entries = pipe.execute()
        check_unbroken(channel, after, trimmed=(trimmed or b"0-0").decode(), last=(last or b"0-0").decode())
        if not entries:
            raise _lost(channel, f"entries after {after} up to {end} are gone")
        return entries

    def commit(self, end: dict) -> None:
        """Free what is done with; also at once when the next batch is asked for (see ``ChannelStream.java``)."""
        for channel, entry in end.items():
            if self._committed.get(channel) != entry:
                names = [keys.channel(channel), keys.meta(channel), keys.readers(channel)]
                scripts.run(client(self._url), "commit", names, [self._reader, entry])
                self._committed[channel] = entry


def check_unbroken(channel: str, start: str, *, trimmed: str, last: str) -> None:
    """Raise ChannelLost where entries after ``start`` are no longer there."""
    if _order(start) < _order(trimmed):
        raise _lost(channel, f"this reader is at {start}, but everything up to {trimmed} was freed")
    if _order(start) > _order(last):
        raise _lost(channel, f"this reader is at {start}, but the channel ends at {last}")


def _lost(channel: str, how: str) -> ChannelLost:
    return ChannelLost(
        f"WEIRGAP channel {channel} lost events: {how}; the broker lost data, "
        "or the reader was unregistered and restarted from an old checkpoint"
    )


def _order(entry: str) -> tuple[int, ...]:
    return tuple(int(part) for part in entry.split("-"))
