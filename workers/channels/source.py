"""The Python data sources: channels and ticks where no JDK is found. Same options, offsets and blocks as the Java ones.

Spark keeps one Python process for each source that plans, and reads in its Python workers.
"""

from __future__ import annotations

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
    """One channel, as rows."""

    @classmethod
    def name(cls) -> str:
        return "weir-channel"

    def schema(self) -> StructType:
        raise ValueError("a channel is read with the schema of its stream: call .schema(…)")

    def streamReader(self, schema: StructType) -> ChannelStreamReader:
        return ChannelStreamReader(schema, dict(self.options))


class Range(InputPartition):
    """The entries after ``start`` up to ``end``; planned at ``planned_ms``."""

    def __init__(self, *, start: str, end: str, planned_ms: int) -> None:
        super().__init__(None)
        self.start = start
        self.end = end
        self.planned_ms = planned_ms


class ChannelStreamReader(DataSourceStreamReader):
    """Plans which blocks make the next batch, reads them, and frees them when they are done with."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._schema = schema
        self._url = options["redis_url"]
        self._channel = options["channel"]
        self._reader = options["reader"]
        self._gates = Gates.parse(self._reader, options.get("gates", ""))
        self._siblings = [name for name in options.get("siblings", self._channel).split(",") if name]
        self._wait_ms = int(options.get("wait_ms", 0))
        self._max_blocks = int(options.get("max_blocks", 64))
        self._max_rows = int(options.get("max_rows", 100_000))
        self._begin = options.get("begin", "0-0")
        self._seen: dict[str, str] = {}
        self._committed: dict[str, str] = {}

    def initialOffset(self) -> dict:
        place = client(self._url).hget(keys.readers(self._channel), self._reader)
        if place is None:
            raise ValueError(
                f"'{self._reader}' is not a reader of channel {self._channel}: register it before the query starts"
            )
        return {self._channel: place.decode()}

    def latestOffset(self, start: dict, limit: object) -> dict:
        self.commit(start)
        deadline = time.monotonic() + self._wait_ms / 1000
        after = self._after(start)
        while True:
            if self._gates.look(client(self._url)):
                end = self._plan(after)
                if end:
                    return {self._channel: end}
            left_s = deadline - time.monotonic()
            if self._gates.paused or left_s <= 0:
                return start
            if self._gates.full:
                time.sleep(min(POLL_S, left_s))
            elif not self._wait(after, left_s):
                return start

    def _after(self, start: dict) -> str:
        """Where a batch that starts there begins: a reader that was paused leaves out what came meanwhile."""
        return max(start[self._channel], self._begin, key=_order)

    def _plan(self, after: str) -> str:
        """The id of the last entry of the next batch, or an empty string."""
        reply = scripts.run(
            client(self._url), "plan", [keys.channel(self._channel), keys.meta(self._channel)],
            [after, self._max_blocks, self._max_rows],
        )
        end, trimmed, last = (part.decode() for part in reply)
        check_unbroken(self._channel, after, trimmed=trimmed, last=last)
        return end

    def _wait(self, after: str, left_s: float) -> bool:
        """Wait for an entry of any input; False where another input has one, so that Spark asks it."""
        seen = {keys.channel(name): self._seen.get(name, "$") for name in self._siblings}
        seen[keys.channel(self._channel)] = after
        found = client(self._url).xread(seen, count=1, block=max(1, int(left_s * 1000)))
        for stream, entries in found or []:
            self._seen[stream.decode().removeprefix(keys.channel(""))] = entries[-1][0].decode()
        return any(stream.decode() == keys.channel(self._channel) for stream, _ in found or [])

    def partitions(self, start: dict, end: dict) -> list[Range]:
        if start == end:
            return []
        now_ms = int(time.time() * 1000)
        return [Range(start=self._after(start), end=end[self._channel], planned_ms=now_ms)]

    def read(self, partition: Range) -> Iterator[pa.RecordBatch]:
        after = partition.start
        meter = histogram.Meter(self._reader)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        while after != partition.end:
            entries = self._fetch(after, partition.end)
            for entry, fields in entries:
                now_ms = int(time.time() * 1000)
                written_ms = int(fields[b"t"])
                meter.add("in:n", int(fields[b"n"]))
                meter.add("in:bytes", len(fields[b"b"]))
                meter.sample("in:chan", now_ms - written_ms)
                meter.sample("in:wait", partition.planned_ms - written_ms)
                yield from (codec.conform(batch, schema) for batch in codec.decode_block(fields[b"b"]))
                after = entry.decode()
        meter.flush(client(self._url))

    def _fetch(self, after: str, end: str) -> list:
        pipe = client(self._url).pipeline(transaction=False)
        pipe.hmget(keys.meta(self._channel), "trimmed", "last")
        pipe.xrange(keys.channel(self._channel), min=f"({after}", max=end, count=FETCH_BLOCKS)
        (trimmed, last), entries = pipe.execute()
        check_unbroken(
            self._channel, after, trimmed=(trimmed or b"0-0").decode(), last=(last or b"0-0").decode()
        )
        if not entries:
            raise _lost(self._channel, f"entries after {after} up to {end} are gone")
        return entries

    def commit(self, end: dict) -> None:
        """Free what is done with; also at once when the next batch is asked for (see ``ChannelStream.java``)."""
        if end == self._committed:
            return
        channel = [keys.channel(self._channel), keys.meta(self._channel), keys.readers(self._channel)]
        scripts.run(client(self._url), "commit", channel, [self._reader, end[self._channel]])
        self._committed = dict(end)


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
