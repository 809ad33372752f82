"""Stop and restart: how old events become where a query of plain Spark gets other bundles, by the size of its state.

The same count by key as `key_moves`, with a text for each key, as an aggregation with RocksDB: two partitions become
three, and two again. The query is stopped between two batches, Spark parts the state of its checkpoint anew, and the
query starts from that. Events come all the time, in a file every 200 ms. The greatest age is that of an event when the
batch that has it is written, as `key_moves` has it of an output.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from . import spark_state
from .engine import _until
from .key_moves import KEY_KB, QUIET_S, RATE_PER_S, TRIGGER_MS, WITHIN_S

RESTART = "stop and restart"


def restarts(megabytes: int, *, repeats: int) -> list[dict[str, Any]]:
    """A line for each change from two to three partitions, where all states are so large."""
    with tempfile.TemporaryDirectory(prefix="weir-restart-") as name:
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        for key, value in {**spark_state.SPARK, spark_state.CHANGELOG: "true", "spark.driver.memory": "2g"}.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        query = RestartedQuery(spark, Path(name), megabytes)
        try:
            query.begin()
            lines = []
            for _ in range(repeats):
                lines.append({"MB": megabytes} | query.change(3))
                query.change(2)
                print(lines[-1], file=sys.stderr, flush=True)
            return lines
        finally:
            query.end()
            spark.stop()


class RestartedQuery:
    """A query, and a thread that gives it events; what was written when, and how old it was, in ms."""

    def __init__(self, spark: SparkSession, folder: Path, megabytes: int) -> None:
        self._spark, self._folder, self._keys = spark, folder, max(2, megabytes * 1_000 // KEY_KB)
        (folder / "in").mkdir()
        self._written: list[tuple[int, int]] = []
        self._counted: set[str] = set()
        self._holds, self._is_over = False, threading.Event()  # whether events come that the query does not see
        self._giver = threading.Thread(target=self._give_on, daemon=True)
        self._query: Any = None

    def begin(self) -> None:
        """Run it, until each key has had an event."""
        self._spark.conf.set("spark.sql.shuffle.partitions", "2")
        self._start()
        self._giver.start()
        _until(lambda: len(self._counted) >= self._keys, within_s=WITHIN_S)

    def change(self, partitions: int) -> dict[str, Any]:
        """Stop it, part its state anew and start it, and tell how old events became."""
        time.sleep(QUIET_S)
        began_ms = _now_ms()
        self._holds = True  # it is stopped between two batches: Spark refuses to part a batch that is not done
        self._query.processAllAvailable()
        self._query.stop()
        self._spark._streamingCheckpointManager.repartition(str(self._folder / "checkpoint"), partitions)
        before = len(self._written)
        self._start()
        self._holds = False
        _until(lambda: len(self._written) > before, within_s=WITHIN_S)
        ended_ms = _now_ms()
        time.sleep(QUIET_S)
        quiet_ms = began_ms - round(1000 * QUIET_S)
        return {
            "way": RESTART, "s": (ended_ms - began_ms) / 1000, "before, s": self._oldest_s(quiet_ms, began_ms),
            "keys that move, s": self._oldest_s(began_ms, _now_ms())}

    def end(self) -> None:
        """No more events, no more batches."""
        self._is_over.set()
        if self._query is not None:
            self._query.stop()

    def _start(self) -> None:
        events = self._spark.readStream.schema("name string, born bigint").parquet(str(self._folder / "in"))
        counted = events.groupBy("name").agg(
            F.count("*").alias("count"), F.max("born").alias("born"),
            F.max(F.repeat(F.lit("t"), 1_000 * KEY_KB)).alias("text"))
        self._query = counted.writeStream.outputMode("update").foreachBatch(self._write).option(
            "checkpointLocation", str(self._folder / "checkpoint")).trigger(
            processingTime=f"{TRIGGER_MS} milliseconds").start()

    def _write(self, rows: DataFrame, _: int) -> None:
        given = [(row["name"], row["born"]) for row in rows.select("name", "born").collect()]
        self._counted |= {name for name, _ in given}
        if given:
            self._written.append((_now_ms(), min(born for _, born in given)))

    def _give_on(self) -> None:
        count, seq, number = round(RATE_PER_S * TRIGGER_MS / 1000), 0, 0
        while not self._is_over.wait(TRIGGER_MS / 1000):
            number += 1
            table = pa.table({"name": [f"k{(seq + place) % self._keys}" for place in range(count)],
                              "born": [_now_ms()] * count})
            seq += count
            pq.write_table(table, self._folder / f".{number:06}")
            for hidden in () if self._holds else sorted(self._folder.glob(".*")):
                hidden.rename(self._folder / "in" / f"{hidden.name[1:]}.parquet")

    def _oldest_s(self, began_ms: int, ended_ms: int) -> float:
        ages = [at_ms - born for at_ms, born in list(self._written) if began_ms <= at_ms < ended_ms]
        return max(ages, default=0) / 1000


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
