"""What channels are measured with: a session, a broker, fragments that run, and figures of what ran."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import redis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from scheduler.model.settings_of_fragments import LONGEST_OPEN_S
from tests.written_blocks import block_rows
from workers.broker_client import connect
from workers.engine.channels import keys
from workers.engine.channels import spark_channels as channel_spark
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.channel_registry import Channels

EVENTS_PER_S = 10


@dataclass
class Bench:
    """A session and a broker to measure with. Fragments and channels of each measurement have a prefix of its own.

    ``groups_ms`` says how far apart groups of open batches begin, where these alone are measured.
    """

    spark: SparkSession
    config: ChannelConfig
    folder: Path
    trigger_ms: int
    groups_ms: tuple[int, ...] = ()
    channels: Channels = field(init=False)
    broker: redis.Redis = field(init=False)

    def __post_init__(self) -> None:
        self.channels = Channels.connect(self.config.redis_url)
        self.broker = connect(self.config.redis_url)

    def publish(self, events: DataFrame, fragment: str, *readers: str, capacity: int = 100_000) -> DataFrame:
        """A valve with an open outlet; a passive reader keeps every block for the measurement."""
        channel = f"{fragment}.0"
        self.channels.open_channel(
            channel, schema_json=events.schema.json(), readers=[*readers, "bench"], capacity=capacity
        )
        self.channels.open_outlet(fragment, 0, from_batch=0)
        return channel_spark.valve(
            events, self.config, fragment=fragment, position=0, channel=channel,
            fence=self.channels.take_fence(channel),
        )

    def source(
        self, fragment: str, reader: str, *, rate_per_s: float, limit: int | None = None, real_time: bool = False
    ) -> DataFrame:
        """A fragment that begins with ticks.

        Parameters
        ----------
        fragment : str
            The fragment's id.
        reader : str
            Who reads its stream.
        rate_per_s : float
            Events per second.
        limit : int, optional
            The last number; none for no end.
        real_time : bool, optional
            Whether its batches are open ones.
        """
        ticks = channel_spark.read_ticks(
            self.spark, self.config, name=fragment, rate_per_s=rate_per_s, limit=limit, writes=[f"{fragment}.0"],
            real_time=real_time
        )
        return self.publish(ticks, fragment, reader)

    def copy(
        self, fragment: str, source: str, *, python_stage: bool = False, real_time: bool = False
    ) -> DataFrame:
        """A fragment that reads another's stream and publishes it again.

        Parameters
        ----------
        fragment, source : str
            Its id, and the other's.
        python_stage : bool, optional
            Whether each event goes through Python.
        real_time : bool, optional
            Whether its batches are open ones.
        """
        events = channel_spark.read_channels(
            self.spark, self.config, inputs=[f"{source}.0"], reader=fragment, real_time=real_time)
        if python_stage:
            events = events.mapInArrow(lambda batches: batches, events.schema)
        return self.publish(events, fragment)

    def start(self, events: DataFrame, fragment: str, *, real_time: bool = False) -> StreamingQuery:
        """Run a fragment; intervals differ a little, so that not all queries wake at once."""
        interval_ms = self.trigger_ms + zlib.crc32(fragment.encode()) % max(1, self.trigger_ms // 10)
        trigger = {"realTime": f"{LONGEST_OPEN_S:.0f} seconds"} if real_time else {
            "processingTime": f"{interval_ms} milliseconds"}
        return (
            events.writeStream.format("noop").queryName(fragment)
            .option("checkpointLocation", str(self.folder / fragment))
            .outputMode("update" if real_time else "append").trigger(**trigger).start()
        )

    def written_ms(self, fragment: str) -> dict[int, int]:
        """When each event of a stream was written to its channel, by sequence number."""
        counts: dict[int, int] = {}
        for _, fields in self.broker.xrange(keys.channel(f"{fragment}.0")):
            for row in block_rows(fields[b"b"]):
                counts[row["_seq"]] = int(fields[b"t"])
        return counts

    def wait_for(self, fragment: str, events: int, *, timeout_s: float = 300) -> None:
        """Wait until a fragment has put out so many events."""
        deadline = time.monotonic() + timeout_s
        while int(self.channels.meters(fragment).get("0:n", 0)) < events:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{fragment} did not put out {events} events within {timeout_s} s")
            time.sleep(0.05)

    def cpu_s(self) -> float:
        """CPU that the driver's JVM and its Python workers have used."""
        total = 0.0
        for process in family():
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total

    def stop(self, queries: list[StreamingQuery]) -> None:
        """Stop queries; fails where one did."""
        for query in queries:
            if query.exception() is not None:
                raise RuntimeError(f"{query.name} failed") from query.exception()
            query.stop()


def latencies(bench: Bench, fragment: str, since_ms: float) -> list[float]:
    """How long each event took from its source to a stream's channel, in ms, of those born since a moment."""
    samples = []
    for _, fields in bench.broker.xrange(keys.channel(f"{fragment}.0")):
        written = int(fields[b"t"])
        samples += [written - row["_born"] for row in block_rows(fields[b"b"]) if row["_born"] > since_ms]
    return samples


def quantile(values: list[float], percent: float) -> float:
    """A percentile to a tenth; not a number where nothing was measured."""
    return round(float(np.percentile(values, percent)), 1) if values else float("nan")


def family() -> list[psutil.Process]:
    """The driver's JVM and all its Python workers."""
    return [child for child in psutil.Process().children(recursive=True) if "valkey" not in child.name()]


def memory(process: psutil.Process) -> int:
    """Resident bytes of a process; 0 where it is gone."""
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
