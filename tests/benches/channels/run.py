"""Measure channels on this machine: ``./weir bench channels [--json FILE]``.

Each measurement is a function that returns its figures as a dictionary; ``main`` prints them as a table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from workers.engine.channels import spark_channels as channel_spark
from workers.engine.channels.channel_config import ChannelConfig
from workers.launcher import broker as embedded
from workers.processes import spawn, stop

from .divided import LOCAL, routes, threads
from .hops import hop, throughput, valve
from .queries import idle, leak, many, restart
from .real_time import real_time
from .rig import Bench

MEASUREMENTS = {
    measurement.__name__: measurement
    for measurement in (hop, throughput, valve, idle, restart, many, leak, threads, routes, real_time)
}


@contextmanager
def session(config: ChannelConfig, *, threads: int = 4, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A driver set up as a slot's is."""
    root = str(Path(__file__).resolve().parents[3])
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
        "spark.python.daemon.module": "workers.engine.spark.daemon",
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
def _broker(folder: Path, *, given: str | None) -> Iterator[str]:
    if given:
        yield given
        return
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
    parser.add_argument("--trigger-ms", type=int, default=200)
    parser.add_argument("--wait-ms", type=int, default=ChannelConfig("").wait_ms)
    parser.add_argument("--only", default="hop,throughput,valve,idle,restart,many")
    parser.add_argument(
        "--groups-ms", type=int, nargs="+", default=[], metavar="MS",
        help="of real_time: only open batches, with groups of events so far apart (5 to 200)")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("WEIR_DATA_DIR", "data")))
    parser.add_argument("--conf", action="append", default=[], help="a Spark setting, name=value; may be repeated")
    parser.add_argument("--broker", help="the address of an empty one; else an embedded one is started")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    machine = {"cpus": os.cpu_count(), "memory_gb": round(psutil.virtual_memory().total / 2**30),
               "python": platform.python_version()}
    figures: dict[str, object] = {
        "machine": machine, "trigger_ms": options.trigger_ms, "wait_ms": options.wait_ms}
    with tempfile.TemporaryDirectory() as scratch, _broker(
            Path(scratch) / "broker", given=options.broker) as url:
        config = ChannelConfig(url, data_dir=options.data_dir, wait_ms=options.wait_ms)
        settings = {"spark.local.dir": f"{scratch}/{LOCAL}", **dict(option.split("=", 1) for option in options.conf)}
        with session(config, settings=settings) as spark:
            bench = Bench(spark, config, Path(scratch), options.trigger_ms, tuple(options.groups_ms))
            for name in options.only.split(","):
                figures[name] = MEASUREMENTS[name](bench)
                for figure, value in figures[name].items():
                    print(f"{name:<12} {figure:<20} {value:>14}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
