"""`./weir bench spark-state`: Spark's own keyed state beside ours (decision 0234).

A count by key, each event with the count so far: events of a core-second by each way in turn, what a batch writes into
the checkpoint, and how long a checkpoint takes to have another number of partitions. A JDK is needed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from workers.library.state import fold_stream, going_on

from .arguments import count
from .tree_usage import used_s

DDL = "_seq bigint, _time bigint, _born bigint, key string, value double"
GIVES = "key string, n double"
SPARK = {
    "spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false", "spark.driver.memory": "1g",
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
JAVA = """
import org.apache.spark.sql.*;
import org.apache.spark.sql.streaming.*;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

public final class Counted extends StatefulProcessor<String, String, Tuple2<String, Double>> {
  private transient ValueState<Double> count;

  public void init(OutputMode mode, TimeMode time) {
    count = getHandle().getValueState("n", Encoders.DOUBLE(), TTLConfig.NONE());
  }

  public Iterator<Tuple2<String, Double>> handleInputRows(String key, Iterator<String> rows, TimerValues timers) {
    java.util.List<Tuple2<String, Double>> given = new java.util.ArrayList<>();
    double now = count.exists() ? count.get() : 0.0;
    while (rows.hasNext()) {
      rows.next();
      given.add(new Tuple2<>(key, ++now));
    }
    count.update(now);
    return CollectionConverters.asScala(given.iterator());
  }

  public static Dataset<Row> of(Dataset<Row> events) {
    KeyValueGroupedDataset<String, String> grouped = events.select("key").as(Encoders.STRING()).groupByKey(
        (org.apache.spark.api.java.function.MapFunction<String, String>) key -> key, Encoders.STRING());
    return grouped.transformWithState(new Counted(), TimeMode.None(), OutputMode.Append(),
        Encoders.tuple(Encoders.STRING(), Encoders.DOUBLE())).toDF("key", "n");
  }
}
"""


class Count:
    """Our fold."""

    def start(self) -> list[float]:
        return [0.0]

    def step(self, state: list[float], value: float) -> list[tuple[float]]:
        state[0] += 1
        return [(state[0],)]


class Counted(StatefulProcessor):
    """The same as Spark's Python has it: by rows, or as data frames."""

    def __init__(self, frames: bool) -> None:
        self.frames = frames

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("n", "n double")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        now = self.count.get()[0] if self.count.exists() else 0.0
        for part in rows:
            if self.frames:
                yield pd.DataFrame({"key": part["key"], "n": [now + place + 1 for place in range(len(part))]})
                now += len(part)
            else:
                now += 1
                yield Row(key=key[0], n=now)
        self.count.update((now,))

    def close(self) -> None:
        pass


def folded(events: DataFrame, stores: Path | None) -> DataFrame:
    with going_on("task", stores=stores, fragment=f"f{time.monotonic_ns()}"):
        return fold_stream(events, Count(), by=["key"], reads=["value"], kept=["key"], added="n double")


def ways(spark: SparkSession, folder: Path) -> dict[str, tuple[str, Callable[[DataFrame], DataFrame]]]:
    """By name: the output mode, and what makes the query."""
    def stateful(frames: bool) -> Callable[[DataFrame], DataFrame]:
        def made(events: DataFrame) -> DataFrame:
            grouped = events.groupBy("key")
            make = grouped.transformWithStateInPandas if frames else grouped.transformWithState
            return make(Counted(frames), GIVES, "Append", "None")
        return made

    return {
        "fold, in a store": ("append", lambda events: folded(events, folder / "folds")),
        "fold, as a text": ("append", lambda events: folded(events, None)),
        "Spark's aggregation, a row a key and batch": ("update", lambda events: events.groupBy("key").agg(
            F.count("*").cast("double").alias("n"))),
        "transformWithState, Java": ("append", lambda events: DataFrame(
            spark._jvm.Counted.of(events._jdf), spark)),
        "transformWithState, Python rows": ("append", stateful(False)),
        "transformWithStateInPandas": ("append", stateful(True)),
    }


class Run:
    """One query over files that are put before it."""

    def __init__(self, spark: SparkSession, folder: Path, mode: str, make: Callable[[DataFrame], DataFrame]) -> None:
        self.spark, self.mode, self.make = spark, mode, make
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        (self.folder / "in").mkdir()
        self.count, self.seq = 0, 0
        self.query = self.start()

    def start(self) -> Any:
        events = self.spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        return self.make(events).writeStream.outputMode(self.mode).format("noop").option(
            "checkpointLocation", str(self.folder / "checkpoint")).start()

    def give(self, count: int, keys: int, chance: random.Random) -> None:
        names = [f"key-{chance.randrange(keys)}" for _ in range(count)]
        numbers = list(range(self.seq, self.seq + count))
        self.seq, self.count = self.seq + count, self.count + 1
        table = pa.table({
            "_seq": numbers, "_time": numbers, "_born": numbers, "key": names, "value": [1.0] * count})
        hidden = self.folder / f".{self.count}"
        pq.write_table(table, hidden)
        hidden.rename(self.folder / "in" / f"{self.count:05}.parquet")

    def state_bytes(self) -> dict[str, int]:
        return {str(path): path.stat().st_size for path in (self.folder / "checkpoint").rglob("*")
                if path.is_file() and "/state/" in str(path)}

    def written(self, count: int, keys: int, chance: random.Random) -> int:
        """What one batch writes into the checkpoint's state."""
        before = self.state_bytes()
        self.give(count, keys, chance)
        self.query.processAllAvailable()
        return sum(size for path, size in self.state_bytes().items() if before.get(path) != size)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all ways, and print both tables."""
    parser = argparse.ArgumentParser(prog="weir bench spark-state", description=__doc__)
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--events", type=count, default=20_000, help="in a batch")
    parser.add_argument("--batches", type=count, default=6)
    parser.add_argument("--keys", type=count, default=20_000)
    options = parser.parse_args(argv)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "folds").mkdir()
        jars = str(Path(pyspark.__path__[0]) / "jars" / "*")
        (folder / "Counted.java").write_text(JAVA)
        javac = [shutil.which("javac") or "javac", "-cp", jars, "-d", str(folder / "classes")]
        subprocess.run([*javac, str(folder / "Counted.java")], check=True)
        builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", str(folder / "classes"))
        for key, value in SPARK.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        throughput(spark, folder, options)
        checkpoints(spark, folder, options)
    print(f"load average {os.getloadavg()[1]:.0f}, Spark {pyspark.__version__}")
    return 0


def throughput(spark: SparkSession, folder: Path, options: argparse.Namespace) -> None:
    rates: dict[str, list[float]] = {}
    spark.conf.set(CHANGELOG, "true")
    for number in range(options.rounds):
        for name, (mode, make) in ways(spark, folder).items():
            run, chance = Run(spark, folder, mode, make), random.Random(number)
            for _ in range(2):  # compilers, and most keys
                run.give(options.events, options.keys, chance)
            run.query.processAllAvailable()
            before = used_s(os.getpid())
            for _ in range(options.batches):
                run.give(options.events, options.keys, chance)
            run.query.processAllAvailable()
            used = used_s(os.getpid()) - before
            run.query.stop()
            rates.setdefault(name, []).append(options.events * options.batches / used)
            print(f"round {number}: {name}: {rates[name][-1]:,.0f} events a core second", flush=True)
    for name, measured in rates.items():
        print(f"| {name} | {median(measured):,.0f} ({min(measured):,.0f} to {max(measured):,.0f}) |")


def checkpoints(spark: SparkSession, folder: Path, options: argparse.Namespace) -> None:
    mode, make = ways(spark, folder)["Spark's aggregation, a row a key and batch"]
    for changelog in ("true", "false"):
        spark.conf.set(CHANGELOG, changelog)
        run, chance = Run(spark, folder, mode, make), random.Random(1)
        whole = run.written(5 * options.keys, options.keys, chance)
        for events in (options.events, options.events // 14):
            written = [run.written(events, options.keys, chance) for _ in range(4)]
            print(f"changelog {changelog}: {whole:,} bytes at first, then {median(written):,.0f} a batch of {events}")
        run.query.stop()
        began = time.monotonic()
        spark._streamingCheckpointManager.repartition(str(run.folder / "checkpoint"), 2)
        between = time.monotonic()
        run.query = run.start()
        run.give(100, options.keys, chance)
        run.query.processAllAvailable()
        print(f"changelog {changelog}: 1 to 2 partitions in {between - began:.2f} s, and "
              f"{time.monotonic() - between:.2f} s to the end of the next batch")
        run.query.stop()


if __name__ == "__main__":
    raise SystemExit(main())
