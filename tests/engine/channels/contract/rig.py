"""What a contract test works with: a session, queries that it starts, stops and waits for, and sources without one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from scheduler.model.settings_of_fragments import LONGEST_OPEN_S
from tests.written_blocks import read_blocks
from workers.engine.channels import keys
from workers.engine.channels import spark_channels as channel_spark
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.channel_registry import Channels
from workers.engine.spark import queries

EVERYTHING = 1_000_000


def wait_until(condition: Callable[[], Any], *, what: str, timeout_s: float = 240.0, alive: tuple = ()) -> Any:
    """The condition's first true value; fails with a query's own error where one of ``alive`` died meanwhile."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        for query in alive:
            if query.exception() is not None:
                raise AssertionError(f"a query failed while waiting for {what}") from query.exception()
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.05)


class Query:
    """A query that goes on where Spark gave up on a Python worker that a busy machine started too slowly.

    Spark waits ten seconds for it; a node agent starts such a query again as well.
    """

    def __init__(self, writer: DataStreamWriter) -> None:
        self._writer = writer
        self._query = writer.start()

    def exception(self) -> Exception | None:
        error = self._query.exception()
        if error is None or "Python worker failed to connect back" not in str(error):
            return error
        self._query = self._writer.start()
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)


class Source:
    """The driver's side of reading channels; offsets are dictionaries, as in a checkpoint."""

    def __init__(self, rig: Rig, options: Mapping[str, Any]) -> None:
        self._probe = rig.probe
        texts = {name: str(value) for name, value in {"redis_url": rig.config.redis_url, **options}.items()}
        self._source = self._probe.source(rig.spark._jvm.org.apache.spark.sql.types.StructType(), texts)

    def _offset(self, offset: Mapping[str, str]) -> Any:
        return self._source.deserializeOffset(json.dumps(offset))

    def first(self) -> dict[str, str]:
        """The offset without a checkpoint."""
        return json.loads(self._source.initialOffset().json())

    def next(self, start: Mapping[str, str]) -> dict[str, str]:
        """The offset of the next batch; ``start`` where there is none. What is before ``start`` is done."""
        return json.loads(self._source.latestOffset(self._offset(start), None).json())

    def slices(self, start: Mapping[str, str], end: Mapping[str, str]) -> list[list[list]]:
        """The slices of a batch: of each its pieces, as channel, start, end, skip, take."""
        return json.loads(self._probe.slices(self._source, self._offset(start), self._offset(end)))

    def stop(self) -> None:
        self._source.stop()


@dataclass
class Rig:
    """One test's surroundings. Fragments are named by the test; checkpoints and channels are its own."""

    spark: SparkSession
    config: ChannelConfig
    channels: Channels
    folder: Path
    queries: list[Query] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)

    @property
    def probe(self) -> Any:
        """``weir.Probe``: the Java side without a query."""
        return self.spark._jvm.weir.Probe

    def source(self, reader: str, *channels: str, **options: Any) -> Source:
        """A source of channels as a query that starts has one, without the query."""
        source = Source(self, {"reader": reader, "channels": ",".join(channels), **options})
        self.sources.append(source)
        return source

    def ticks(self, fragment: str, **options: Any) -> DataFrame:
        return channel_spark.read_ticks(self.spark, self.config, name=fragment, **options)

    def read(
        self, fragment: str, *inputs: str | list[str], writes: tuple[str, ...] = (), **options: Any
    ) -> DataFrame:
        return channel_spark.read_channels(
            self.spark, self.config, inputs=list(inputs), reader=fragment, writes=list(writes), **options
        )

    def valve(
        self, events: DataFrame, fragment: str, position: int = 0, *, fence: int | None = None,
        channel: str | None = None, batch_base: int = 0, gate: str = "",
    ) -> DataFrame:
        channel = channel or f"{fragment}.{position}"
        token = self.channels.take_fence(channel) if fence is None else fence
        return channel_spark.valve(
            events, self.config, fragment=fragment, position=position, channel=channel, fence=token,
            batch_base=batch_base, gate=gate,
        )

    def publish(
        self, events: DataFrame, fragment: str, position: int = 0, *, readers: tuple[str, ...] = (),
        retain: int = 0, **settings: Any,
    ) -> DataFrame:
        """A valve whose outlet is open from the first batch on; without readers it keeps everything."""
        channel = f"{fragment}.{position}"
        keep = retain if readers or retain else EVERYTHING
        self.channels.open_channel(
            channel, schema_json=events.schema.json(), readers=readers, retain=keep, **settings
        )
        self.channels.open_outlet(fragment, position, from_batch=0)
        return self.valve(events, fragment, position)

    def divide(
        self, events: DataFrame, fragment: str, position: int = 0, *, weights: Mapping[str, float], **settings: Any
    ) -> None:
        """Let a fragment that has not started yet deal a stream out to bundles; where it does already, it stays so."""
        self.open_parts(events, f"{fragment}.{position}", weights, **settings)
        if self.channels.routed(fragment, position, min(weights)) is None:
            self.channels.route(fragment, position, min(weights), weights, from_batch=0)

    def open_parts(self, events: DataFrame, channel: str, bundles: Iterable[str], **settings: Any) -> None:
        """The part of a stream for each bundle, with the bundle as its reader."""
        for bundle in bundles:
            part = keys.part(channel, bundle)
            self.channels.open_channel(part, schema_json=events.schema.json(), readers=(bundle,), **settings)

    def start(self, events: DataFrame, fragment: str, *, trigger_ms: int = 50, real_time: bool = False) -> Query:
        trigger = {"realTime": f"{LONGEST_OPEN_S:.0f} seconds"} if real_time else {
            "processingTime": f"{trigger_ms} milliseconds"}
        query = Query(
            events.writeStream.format("noop").queryName(f"{fragment}-{len(self.queries)}-{self.folder.name}")
            .option("checkpointLocation", str(self.checkpoint(fragment)))
            .outputMode("update" if real_time else "append").trigger(**trigger))
        self.queries.append(query)
        return query

    def rest(self, query: Query, fragment: str) -> None:
        """Pause a fragment and wait until no batch of it is under way: what was planned is written."""
        assert queries.rest(query._query, pause=lambda: self.channels.pause(fragment), drain_s=240)

    def tell(self, reader: str, *streams: list[str]) -> None:
        """From its next batch on a query that runs reads these channels of its streams."""
        self.spark._jvm.weir.Inputs.read(self.config.redis_url, reader, json.dumps(streams))

    def checkpoint(self, fragment: str) -> Path:
        return self.folder / f"checkpoint-{fragment}"

    def events(self, channel: str) -> list[dict]:
        """All events that a channel holds, oldest first."""
        return [row for _, rows in read_blocks(self.channels, channel, count=EVERYTHING) for row in rows]

    def numbers(self, channel: str) -> list[int]:
        return [row["_seq"] for row in self.events(channel)]

    def batches(self, channel: str) -> dict[int, list[int]]:
        """Sequence numbers by batch id."""
        numbers: dict[int, list[int]] = {}
        for entry, rows in read_blocks(self.channels, channel, count=EVERYTHING):
            numbers.setdefault(int(entry.split("-")[0]) - 1, []).extend(row["_seq"] for row in rows)
        return numbers

    def with_config(self, **changes: Any) -> Rig:
        return replace(self, config=replace(self.config, **changes))

    def stop_all(self) -> None:
        for started in (*self.queries, *self.sources):
            started.stop()
