"""Warming a driver up: its first query takes seconds longer than any other, so the slot runs one for nobody.

That one has no Python worker: the process that forks them takes 75 MB, and most slots never need one. The folds of
small dataflows are at the fold host, which begins here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from .hosted_folds import host_of

REST_S = 10.0  # from a driver's start; in a start of the whole system, the site needs the cores meanwhile


def warm_up(spark: SparkSession, scratch: Path) -> None:
    """Start the fold host, and run one small query through planning, code generation and a sink; nothing of it is left.
    """
    if spark.sparkContext.master.startswith("local"):  # as hosted folds are
        host_of(spark)
    checkpoint = scratch / "warm-up"
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    passed = rate.where("value >= 0").coalesce(1)
    query = passed.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(once=True).start()
    query.awaitTermination(60)
    query.stop()
    shutil.rmtree(checkpoint, ignore_errors=True)
