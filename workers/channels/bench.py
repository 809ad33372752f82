"""Measure channels on this machine: ``python -m workers.channels.bench [--implementation jvm|python] [--json FILE]``.

Every function below measures one thing and returns it as a dictionary; ``main`` prints them as a table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from workers.supervisor import broker as embedded
from workers.supervisor.process import spawn, stop

from . import codec, keys
from . import spark as channel_spark
from .bench_divided import LOCAL, routes, threads
from .config import ChannelConfig
from .connections import client
from .registry import Channels

FRAGMENT_PAIRS = 5
EVENTS_PER_S = 10


@dataclass
class Bench:
    """A session and a broker to measure with. Fragments and channels of each measurement have a prefix of its own."""

    spark: SparkSession
    config: ChannelConfig
    folder: Path
    trigger_ms: int
    channels: Channels = field(init=False)

    def __post_init__(self) -> None:
        self.channels = Channels.connect(self.config.redis_url)

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

    def source(self, fragment: str, reader: str, *, rate_per_s: float, limit: int | None = None) -> DataFrame:
        """A fragment that begins with ticks."""
        ticks = channel_spark.read_ticks(
            self.spark, self.config, name=fragment, rate_per_s=rate_per_s, limit=limit, gates=[f"{fragment}.0"]
        )
        return self.publish(ticks, fragment, reader)

    def copy(self, fragment: str, source: str, *, python_stage: bool = False) -> DataFrame:
        """A fragment that reads another's stream and publishes it again."""
        events = channel_spark.read_channels(self.spark, self.config, inputs=[f"{source}.0"], reader=fragment)
        if python_stage:
            events = events.mapInArrow(lambda batches: batches, events.schema)
        return self.publish(events, fragment)

    def start(self, events: DataFrame, fragment: str) -> StreamingQuery:
        """Run a fragment; intervals differ a little, so that not all queries wake at once."""
        interval_ms = self.trigger_ms + zlib.crc32(fragment.encode()) % max(1, self.trigger_ms // 10)
        return (
            events.writeStream.format("noop").queryName(fragment)
            .option("checkpointLocation", str(self.folder / fragment))
            .trigger(processingTime=f"{interval_ms} milliseconds").start()
        )

    def written_ms(self, fragment: str) -> dict[int, int]:
        """When each event of a stream was written to its channel, by sequence number."""
        found: dict[int, int] = {}
        for _, fields in client(self.config.redis_url).xrange(keys.channel(f"{fragment}.0")):
            for row in codec.block_rows(fields[b"b"]):
                found[row["_seq"]] = int(fields[b"t"])
        return found

    def wait_for(self, fragment: str, events: int, *, timeout_s: float = 300) -> None:
        """Wait until a fragment has put out so many events."""
        deadline = time.monotonic() + timeout_s
        while int(self.channels.meters(fragment).get("0:n", 0)) < events:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{fragment} did not put out {events} events within {timeout_s} s")
            time.sleep(0.05)

    def cpu_s(self) -> float:
        """CPU that the driver's JVM and its Python workers have used."""
        return _cpu_s()

    def stop(self, queries: list[StreamingQuery]) -> None:
        """Stop queries; fails where one did."""
        _stop(queries)


def hop(bench: Bench, *, pairs: int = FRAGMENT_PAIRS, warm_s: float = 20, seconds: float = 20) -> dict[str, float]:
    """A hop: from when one fragment wrote an event to when the next one did, with ``2 × pairs`` queries running."""
    queries = []
    for index in range(pairs):
        queries.append(bench.start(bench.source(f"ha{index}", f"hb{index}", rate_per_s=EVENTS_PER_S), f"ha{index}"))
        queries.append(bench.start(bench.copy(f"hb{index}", f"ha{index}"), f"hb{index}"))
    time.sleep(warm_s)
    begun_ms, cpu = time.time() * 1000, _cpu_s()
    time.sleep(seconds)
    cores = (_cpu_s() - cpu) / seconds
    _stop(queries)
    hops, whole = [], []
    for index in range(pairs):
        before, after = bench.written_ms(f"ha{index}"), bench.written_ms(f"hb{index}")
        hops += [after[seq] - at for seq, at in before.items() if seq in after and at > begun_ms]
        whole += _latencies(bench, f"hb{index}", begun_ms)
    return {
        "queries": 2 * pairs, "events": len(hops), "hop_p50_ms": _quantile(hops, 50), "hop_p99_ms": _quantile(hops, 99),
        "end_to_end_p50_ms": _quantile(whole, 50), "end_to_end_p99_ms": _quantile(whole, 99), "cores": round(cores, 2),
    }


def throughput(bench: Bench, *, events: int = 2_000_000) -> dict[str, float]:
    """Events a second from a source through a channel to a second fragment's own channel."""
    queries = [bench.start(bench.source("ta", "tb", rate_per_s=1e9, limit=events), "ta")]
    queries.append(bench.start(bench.copy("tb", "ta"), "tb"))
    bench.wait_for("tb", 1)
    begun, cpu, counted = time.monotonic(), _cpu_s(), int(bench.channels.meters("tb")["0:n"])
    bench.wait_for("tb", events)
    seconds, cpu = time.monotonic() - begun, _cpu_s() - cpu
    _stop(queries)
    return {"events": events, "events_per_s": round((events - counted) / seconds),
            "cpu_s_per_million": round(cpu / (events - counted) * 1e6, 2)}


def valve(bench: Bench, *, events: int = 5_000_000, valves: int = 5) -> dict[str, float]:
    """CPU that a closed valve adds to an event that passes it; CPU, not time, so that a busy machine matters less."""

    def cpu_s(fragment: str, count: int) -> float:
        ticks = channel_spark.read_ticks(bench.spark, bench.config, name=fragment, rate_per_s=1e9, limit=events)
        for position in range(count):
            ticks = channel_spark.valve(
                ticks, bench.config, fragment=fragment, position=position, channel=f"{fragment}.{position}", fence=0
            )
        begun = _cpu_s()
        query = bench.start(ticks, fragment)
        done = f'"next":{events}'
        while not (query.lastProgress and done in str(query.lastProgress["sources"][0].endOffset).replace(" ", "")):
            time.sleep(0.1)
        _stop([query])
        return _cpu_s() - begun

    cpu_s("vw", valves)  # the compiler's warm-up
    without, with_valves = cpu_s("v0", 0), cpu_s("v1", valves)
    return {"events": events, "ns_per_event_and_valve": round((with_valves - without) / events / valves * 1e9)}


def idle(bench: Bench, *, queries: int = 10, seconds: float = 15) -> dict[str, float]:
    """What queries cost that read channels on which nothing arrives."""
    schema = bench.source("is", "nobody", rate_per_s=1).schema.json()
    running = []
    for index in range(queries):
        bench.channels.open_channel(f"ie{index}.0", schema_json=schema, readers=[f"ir{index}"])
        running.append(bench.start(bench.copy(f"ir{index}", f"ie{index}"), f"ir{index}"))
    time.sleep(15)
    cpu = _cpu_s()
    time.sleep(seconds)
    cores = (_cpu_s() - cpu) / seconds
    _stop(running)
    return {"queries": queries, "cores": round(cores, 3)}


def restart(bench: Bench, *, times: int = 5) -> dict[str, float]:
    """Seconds to stop a query and start it from its checkpoint, until its first block; a warm driver."""
    source = bench.start(bench.source("ra", "rb", rate_per_s=100), "ra")
    query = bench.start(bench.copy("rb", "ra"), "rb")
    bench.wait_for("rb", 100)
    stops, wholes = [], []
    for _ in range(times):
        time.sleep(1)
        begun = time.monotonic()
        query.stop()
        stops.append(time.monotonic() - begun)
        last = bench.channels.info("rb.0").last
        query = bench.start(bench.copy("rb", "ra"), "rb")
        while bench.channels.info("rb.0").last == last:
            time.sleep(0.005)
        wholes.append(time.monotonic() - begun)
    _stop([source, query])
    return {"stop_s": round(float(np.median(stops)), 3), "stop_and_start_s": round(float(np.median(wholes)), 3),
            "worst_s": round(max(wholes), 3)}


def many(bench: Bench, *, queries: int = 40, seconds: float = 20) -> dict[str, float]:
    """Forty queries with a Python stage each in one driver: processes, memory, CPU."""
    running = [bench.start(bench.source("ma", "m0", rate_per_s=EVENTS_PER_S), "ma")]
    bench.channels.register_readers("ma.0", [f"m{index}" for index in range(queries)])
    for index in range(queries):
        running.append(bench.start(bench.copy(f"m{index}", "ma", python_stage=True), f"m{index}"))
    time.sleep(30)
    begun_ms, cpu = time.time() * 1000, _cpu_s()
    time.sleep(seconds)
    cores = (_cpu_s() - cpu) / seconds
    python = [process for process in _family() if "python" in process.name()]
    memory_mb = sum(_memory(process) for process in _family()) / 2**20
    _stop(running)
    before = bench.written_ms("ma")
    hops = [
        at - before[seq]
        for index in range(queries)
        for seq, at in bench.written_ms(f"m{index}").items()
        if before[seq] > begun_ms
    ]
    return {"queries": queries, "python_processes": len(python), "memory_mb": round(memory_mb),
            "cores": round(cores, 2), "hop_p50_ms": _quantile(hops, 50), "hop_p99_ms": _quantile(hops, 99)}


def leak(bench: Bench, *, times: int = 200) -> dict[str, float]:
    """Threads and open files of the driver before and after many starts and stops."""
    source = bench.start(bench.source("la", "lb", rate_per_s=200), "la")

    def cycles(count: int) -> None:
        for _ in range(count):
            query = bench.start(bench.copy("lb", "la"), "lb")
            last = bench.channels.info("lb.0").last
            while bench.channels.info("lb.0").last == last:
                time.sleep(0.01)
            query.stop()

    cycles(10)
    jvm = next(process for process in _family() if "java" in process.name())
    before = jvm.num_threads(), jvm.num_fds()
    cycles(times)
    after = jvm.num_threads(), jvm.num_fds()
    _stop([source])
    return {"starts": times, "threads_before": before[0], "threads_after": after[0], "files_before": before[1],
            "files_after": after[1]}


MEASUREMENTS = {each.__name__: each for each in (hop, throughput, valve, idle, restart, many, leak, threads, routes)}


def _latencies(bench: Bench, fragment: str, since_ms: float) -> list[float]:
    found = []
    for _, fields in client(bench.config.redis_url).xrange(keys.channel(f"{fragment}.0")):
        written = int(fields[b"t"])
        found += [written - row["_born"] for row in codec.block_rows(fields[b"b"]) if row["_born"] > since_ms]
    return found


def _quantile(values: list[float], percent: float) -> float:
    return round(float(np.percentile(values, percent)), 1) if values else float("nan")


def _stop(queries: list[StreamingQuery]) -> None:
    for query in queries:
        if query.exception() is not None:
            raise RuntimeError(f"{query.name} failed") from query.exception()
        query.stop()


def _family() -> list[psutil.Process]:
    """The driver's JVM and all its Python workers."""
    return [child for child in psutil.Process().children(recursive=True) if "valkey" not in child.name()]


def _cpu_s() -> float:
    total = 0.0
    for process in _family():
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def _memory(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0


@contextmanager
def session(config: ChannelConfig, *, threads: int = 4, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A driver set up as a slot's is."""
    root = str(Path(__file__).resolve().parents[2])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    settings = {
        "spark.master": f"local[{threads}]",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss1m",
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.python.daemon.module": "workers.spark.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass":
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass":
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        **channel_spark.spark_conf(config),
        **settings,
    }
    builder = SparkSession.builder.appName("weir channels bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    folder.mkdir()
    prepared = embedded.prepare(folder)
    with (folder / "log").open("ab") as log:
        process = spawn(prepared.argv, stdout=log)
        try:
            while not embedded.answers(prepared.url):
                time.sleep(0.02)
            yield prepared.url
        finally:
            stop(process, timeout_s=5)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, and write the figures as JSON where asked."""
    parser = argparse.ArgumentParser(description="Measure Weir's channels on this machine.")
    parser.add_argument("--implementation", choices=("jvm", "python"), default="jvm")
    parser.add_argument("--trigger-ms", type=int, default=200)
    parser.add_argument("--wait-ms", type=int, default=ChannelConfig("").wait_ms)
    parser.add_argument("--only", default="hop,throughput,valve,idle,restart,many")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("WEIR_DATA_DIR", "data")))
    parser.add_argument("--conf", action="append", default=[], help="a Spark setting, name=value; may be repeated")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    machine = {"cpus": os.cpu_count(), "memory_gb": round(psutil.virtual_memory().total / 2**30),
               "python": platform.python_version()}
    figures: dict[str, object] = {"machine": machine, "implementation": options.implementation,
                                  "trigger_ms": options.trigger_ms, "wait_ms": options.wait_ms}
    with tempfile.TemporaryDirectory() as scratch, _broker(Path(scratch) / "broker") as url:
        config = ChannelConfig(url, options.implementation, data_dir=options.data_dir, wait_ms=options.wait_ms)
        settings = {"spark.local.dir": f"{scratch}/{LOCAL}", **dict(each.split("=", 1) for each in options.conf)}
        with session(config, settings=settings) as spark:
            bench = Bench(spark, config, Path(scratch), options.trigger_ms)
            for name in options.only.split(","):
                figures[name] = MEASUREMENTS[name](bench)
                for figure, value in figures[name].items():
                    print(f"{name:<12} {figure:<20} {value:>14}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
