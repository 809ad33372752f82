"""Warming a driver up: its first query takes seconds longer than any other, so the slot runs one for nobody."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    import pyarrow as pa

REST_S = 10.0  # from a driver's start; in a start of the whole system, the site needs the cores meanwhile


def warm_up(spark: SparkSession, scratch: Path) -> None:
    """Run one small query through planning, code generation, a Python worker and a sink; nothing of it is left."""
    checkpoint = scratch / "warm-up"

    def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iter(batches)

    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    passed = rate.mapInArrow(through, rate.schema).where("value >= 0").coalesce(1)
    query = passed.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(once=True).start()
    query.awaitTermination(60)
    query.stop()
    shutil.rmtree(checkpoint, ignore_errors=True)
