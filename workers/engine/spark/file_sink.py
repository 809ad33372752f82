"""Files of sinks, from a query: each batch's events go to the sink's folder, staged, within the batch.

The step stands behind the last valve, on its one partition. The query itself ends in Spark's ``noop``: whether a
batch is done is in its checkpoint alone, and a batch that is repeated stages the same events again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from workers.engine.files.staging import Staging, stage

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = "streaming.sql.batchId"


def staged(events: DataFrame, staging: Staging) -> DataFrame:
    """The stream of a query that stages these events, and passes none on."""
    if staging.format == "json":
        events = events.select(F.to_json(F.struct("*")).alias("line"))

    def written(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context.partitionId():
            raise RuntimeError("a file sink writes one partition")
        stage(staging, int(context.getLocalProperty(BATCH)), batches)
        return iter(())

    return events.mapInArrow(written, "events bigint")
