"""The first events of a source that generates them from their numbers: Spark makes them in the slot; no query runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from scheduler.model.effects import effects_in_words, needs_approval
from scheduler.model.task_types import TaskType
from workers.engine.spark.failure_messages import FragmentFailed
from workers.library.registry import resolve

USUAL_PER_S = 10.0  # where the config says no rate


def first_events(
    spark: SparkSession, task_type: TaskType, config: Mapping[str, Any], *, count: int, now_ms: int
) -> pa.RecordBatch:
    """The events that a source would make first if it began now.

    Parameters
    ----------
    now_ms : int
        The time at which the first one would be due, in ms since the epoch.

    Raises
    ------
    FragmentFailed
        The source reaches beyond Weir, which nobody has approved.
    """
    if needs_approval(task_type, config):
        raise FragmentFailed(f"{task_type.name} reaches {effects_in_words(task_type)}, which nobody has approved")
    rate_per_s = float(config.get("rate_per_s") or USUAL_PER_S)
    due_ms = F.lit(now_ms) + (F.col("_seq") * 1000 / rate_per_s).cast("bigint")
    numbers = spark.range(0, count, 1, 1).withColumnRenamed("id", "_seq")
    ticks = numbers.select("_seq", due_ms.alias("_time"), due_ms.alias("_born"))
    table = resolve(task_type)(ticks, dict(config)).limit(count).toArrow().combine_chunks()
    return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], schema=table.schema)
