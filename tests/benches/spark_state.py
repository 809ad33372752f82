"""What keyed state costs on the Spark that is pinned: its own operators beside Weir's folds (decision 0160).

Events of some number of keys are counted, key by key, in batches of one size. Each way to keep counts runs by itself:
SQL's aggregation, ``transformWithState`` in Java and in Python, ``applyInPandasWithState`` with a group a key, and
Weir's fold, which has one group for all; in RocksDB, with its changelog or without. Then a checkpoint is brought to
another number of partitions (``StreamingCheckpointManager.repartition``), and an open batch of real-time mode is given
``transformWithState``.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tests.engine.channels.contract.session import close_jvm, open_session
from workers.engine.channels.jvm import build
from workers.library import state

ROOT = Path(__file__).resolve().parents[2]
JAVA = Path(__file__).parent / "jvm"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
WARM_BATCHES = 4
FAILS_S = 60.0


class CountFold:
    """Weir's way: ``step`` takes an event and gives the count of its key."""

    def start(self) -> list:
        return [0]

    def step(self, counted: list, _: int) -> Iterable[tuple]:
        counted[0] += 1
        return [(counted[0],)]


class CountByRow(StatefulProcessor):
    """``transformWithState`` in Python, row by row."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator, timers: Any) -> Iterator:
        from pyspark.sql import Row

        count = self._count.get()[0] if self._count.exists() else 0
        for _ in rows:
            count += 1
            yield Row(n=count)
        self._count.update((count,))

    def close(self) -> None:
        pass


class CountByFrame(CountByRow):
    """``transformWithState`` in Python, a frame of pandas at a time."""

    def handleInputRows(self, key: Any, rows: Iterator, timers: Any) -> Iterator:
        import pandas as pd

        count = self._count.get()[0] if self._count.exists() else 0
        for frame in rows:
            yield pd.DataFrame({"n": range(count + 1, count + 1 + len(frame))})
            count += len(frame)
        self._count.update((count,))


def count_groups(key: tuple, frames: Iterator, group: Any) -> Iterator:
    """``applyInPandasWithState`` with a group for each key."""
    import pandas as pd

    (count,) = group.get if group.exists else (0,)
    for frame in frames:
        yield pd.DataFrame({"n": range(count + 1, count + 1 + len(frame))})
        count += len(frame)
    group.update((count,))


def in_java(events: DataFrame, *, gives_sent: bool = False) -> DataFrame:
    """``transformWithState`` on the JVM."""
    spark = events.sparkSession
    return DataFrame(spark._jvm.weir.KeyedCount.of(events._jdf, gives_sent), spark)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to count: what makes the counts of a stream, and settings besides RocksDB with its changelog."""

    name: str
    counts: Callable[[DataFrame], DataFrame]
    mode: str = "append"
    settings: Mapping[str, str] | None = None


def ways(folder: Path) -> tuple[Way, ...]:
    """All that are compared; stores of folds are in the folder."""

    def fold(events: DataFrame) -> DataFrame:
        with state.going_on("bench", stores=folder / "stores", fragment=f"f{time.monotonic_ns()}"):
            return state.fold_stream(
                events.coalesce(1), CountFold(), by=["key"], reads=["value"], kept=[], added="n bigint")

    return (
        Way("no state", lambda events: events),
        Way("SQL", lambda events: events.groupBy("key").count(), "update"),
        Way("SQL, no changelog", lambda events: events.groupBy("key").count(), "update", {CHANGELOG: "false"}),
        Way("transformWithState, Java", in_java),
        Way("transformWithState, Python rows", lambda events: events.groupBy("key").transformWithState(
            CountByRow(), "n bigint", "Append", "None")),
        Way("transformWithState, pandas", lambda events: events.groupBy("key").transformWithStateInPandas(
            CountByFrame(), "n bigint", "Append", "None")),
        Way("applyInPandasWithState, a group a key", lambda events: events.groupBy("key").applyInPandasWithState(
            count_groups, "n bigint", "n bigint", "append", "NoTimeout")),
        Way("fold of Weir", fold),
    )


def stream(spark: SparkSession, *, rows: int, keys: int) -> DataFrame:
    """Batches of so many events of so many keys, in turn."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 1).load()
    return source.withColumn("key", F.concat(F.lit("sensor "), F.col("value") * 7_919 % keys))


def measured(spark: SparkSession, way: Way, *, rows: int, keys: int, for_s: float, folder: Path) -> dict[str, Any]:
    """A line of the table: the median of batches behind the first few; or what Spark says where it cannot."""
    settings = {CHANGELOG: "true", **(way.settings or {})}
    for name, value in settings.items():
        spark.conf.set(name, value)
    checkpoint = folder / f"checkpoint-{time.monotonic_ns()}"
    line = {"way": way.name, "keys": keys, "ms a batch": None, "events/s": None, "batches": 0, "state MB": None}
    try:
        query = way.counts(stream(spark, rows=rows, keys=keys)).writeStream.format("noop").outputMode(way.mode).option(
            "checkpointLocation", str(checkpoint)).start()
        began = None
        taken: dict[int, float] = {}
        failing_at = time.monotonic() + FAILS_S + for_s
        while query.isActive and time.monotonic() < failing_at:
            for progress in query.recentProgress:
                if progress.numInputRows and progress.batchId >= WARM_BATCHES:
                    taken[progress.batchId] = progress.durationMs["triggerExecution"]
            if taken and began is None:
                began = time.monotonic()
            if began is not None and time.monotonic() - began >= for_s:
                break
            time.sleep(0.2)
        failed = query.exception()
        query.stop()
        if failed is not None:
            raise failed
        middle = statistics.median(taken.values())
        size = sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())
        return {**line, "ms a batch": middle, "events/s": round(rows * 1_000 / middle), "batches": len(taken),
                "state MB": round(size / 2**20, 1)}
    except Exception as error:
        return {**line, "way": f"{way.name}: {said(error)}"}


def said(error: BaseException) -> str:
    """What an error says first, in one line, without its stack."""
    return " ".join(str(error).split("\tat ")[0].split())[:240] or type(error).__name__


def repartitioned(spark: SparkSession, *, keys: int, folder: Path) -> list[dict[str, Any]]:
    """How long a checkpoint takes to another number of partitions, with the query at rest, and its first batch then."""
    spark.conf.set(CHANGELOG, "true")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    checkpoint, lines = folder / "repartitioned", []

    def run(batches: int) -> float:
        """Starts the query and gives how long its first new batch took to be there, in s."""
        began = time.monotonic()
        query = in_java(stream(spark, rows=keys, keys=keys)).writeStream.format("noop").option(
            "checkpointLocation", str(checkpoint)).start()
        seen = 0.0
        while query.isActive and len({each.batchId for each in query.recentProgress if each.numInputRows}) < batches:
            if not seen and any(each.numInputRows for each in query.recentProgress):
                seen = time.monotonic() - began
            time.sleep(0.05)
        failed = query.exception()
        query.stop()
        if failed is not None:
            raise failed
        return seen or time.monotonic() - began

    run(2)
    for partitions in (3, 2):
        line = {"keys": keys, "to partitions": partitions, "repartition s": None, "restart s": None, "said": ""}
        try:
            began = time.monotonic()
            spark._streamingCheckpointManager.repartition(str(checkpoint), partitions)
            line["repartition s"] = round(time.monotonic() - began, 2)
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
            line["restart s"] = round(run(1), 2)
        except Exception as error:
            line["said"] = said(error)
        lines.append(line)
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    return lines


def in_real_time(spark: SparkSession, *, events: int, folder: Path) -> list[dict[str, Any]]:
    """Whether an open batch may have state, by Spark's list of what is allowed and without; how long events take."""
    streams: dict[str, Callable[[DataFrame], DataFrame]] = {
        "no state": lambda sent: sent.select("sent"),
        "SQL": lambda sent: sent.groupBy("key").agg(F.max("sent").alias("sent")).select("sent"),
        "transformWithState, Java": lambda sent: in_java(sent, gives_sent=True),
        "transformWithState, Python rows": lambda sent: sent.groupBy("key").transformWithState(
            CountByRow(), "n bigint", "Update", "None"),
    }
    lines = []
    for checked in ("true", "false"):
        spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", checked)
        for name, of in streams.items():
            line = {"real time": name, "list checked": checked, "events": 0, "p50 ms": None, "p99 ms": None, "said": ""}
            query = None
            try:
                source = spark._jvm.weir.OpenBatches(spark._jsparkSession)
                counted = of(DataFrame(source.stream(), spark))
                writer = spark._jvm.weir.OpenBatches.noted(counted._jdf).option(
                    "checkpointLocation", str(folder / f"open-{time.monotonic_ns()}"))
                query = writer.trigger(spark._jvm.org.apache.spark.sql.streaming.Trigger.RealTime("5 seconds")).start()
                time.sleep(2)
                for number in range(events):
                    source.send(f"sensor{number % 5}")
                    time.sleep(0.02)
                time.sleep(5)
                if query.exception().isDefined():
                    raise RuntimeError(query.exception().get().getMessage())
                took = sorted(each / 1e6 for each in spark._jvm.weir.OpenBatches.tookNs())
                if took:
                    line |= {"events": len(took), "p50 ms": round(took[len(took) // 2], 1),
                             "p99 ms": round(took[len(took) * 99 // 100], 1)}
            except Exception as error:
                line["said"] = said(error)
            finally:
                if query is not None:
                    query.stop()
            lines.append(line)
    return lines


def compare(*, rows: int, keys: Sequence[int], for_s: float) -> dict[str, list[dict[str, Any]]]:
    """All tables, each a list of lines."""
    folder = Path(tempfile.mkdtemp(prefix="weir-spark-state-"))
    try:
        classes = folder / "classes"
        build.compile_java(build.find_compiler(), sorted(JAVA.rglob("*.java")), into=classes)
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{before}"
        spark = open_session({"spark.driver.extraClassPath": str(classes), "spark.master": "local[4]"})
        try:
            lines = [measured(spark, way, rows=rows, keys=count, for_s=for_s, folder=folder)
                     for count in keys for way in ways(folder)]
            return {"ways": lines, "repartition": repartitioned(spark, keys=max(keys), folder=folder),
                    "real time": in_real_time(spark, events=100, folder=folder)}
        finally:
            close_jvm()
            os.environ["PYTHONPATH"] = before
    finally:
        shutil.rmtree(folder, ignore_errors=True)
