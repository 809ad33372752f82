"""One Spark session for the library's tests, and streams whose batches a test cuts as it likes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TICKS = "_seq bigint, _time bigint, _born bigint"
START_MS = 1_700_000_000_000


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory, with_jar: Callable[[Path], Path]) -> Iterator[Any]:
    """A session with a slot's settings; it has a slot's jar, and asks no broker."""
    from tests.engine.channels.contract.session import close_jvm
    from workers.engine.channels.channel_config import ChannelConfig
    from workers.engine.channels.spark_channels import spark_conf
    from workers.engine.spark.session import open_session
    from workers.engine.worker_settings import Settings

    folder = with_jar(tmp_path_factory.mktemp("slot"))
    conf = spark_conf(ChannelConfig("redis://127.0.0.1:1", data_dir=folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))  # restored afterwards: opening adds to it
        close_jvm()
        yield open_session(
            Settings(data_dir=folder, threads=2, pin="never"), slot=0, slot_dir=folder / "slot-0", channel_conf=conf)
        close_jvm()


@pytest.fixture
def ticks(spark: Any) -> Callable[..., Any]:
    """Sequence numbers at a constant rate, as a source gets them."""

    def make(count: int, *, rate_per_s: float = 10.0, start: int = 0) -> Any:
        from pyspark.sql import functions as F

        numbers = spark.range(start, start + count, 1, 1).withColumnRenamed("id", "_seq")
        time_ms = F.lit(START_MS) + (F.col("_seq") * 1000 / rate_per_s).cast("bigint")
        return numbers.select("_seq", time_ms.alias("_time"), time_ms.alias("_born"))

    return make


class Stream:
    """A stream over files, one a batch, and what a query made of it."""

    def __init__(self, spark: Any, folder: Path, ddl: str) -> None:
        from pyspark.sql.types import StructType

        self.spark, self.folder = spark, folder
        self.schema = StructType.fromDDL(ddl)
        self._files = 0
        (folder / "batches").mkdir(parents=True)

    def add(self, rows: Sequence[tuple], *, sizes: Sequence[int]) -> None:
        """Append rows, cut into batches of these sizes; what is left over is the last batch."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema, place = to_arrow_schema(self.schema, timezone="UTC"), 0
        for size in [*sizes, len(rows)]:
            part = rows[place:place + size]
            place += size
            if part:
                table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in part], schema)
                file = self.folder / "batches" / f"{self._files:05d}.parquet"
                pq.write_table(table, file)
                os.utime(file, (1_600_000_000 + self._files,) * 2)  # the file source goes by modification times
                self._files += 1

    def run(self, build: Callable[[Any], Any]) -> list[tuple]:
        """Run the query over what it has not read yet, from its checkpoint; the new rows, in order."""
        batches = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1).parquet(
            str(self.folder / "batches"))
        rows: list[tuple] = []

        def take(frame: Any, batch: int) -> None:
            rows.extend(tuple(row) for row in frame.collect())

        query = (
            build(batches.coalesce(1)).writeStream.foreachBatch(take).trigger(availableNow=True)
            .option("checkpointLocation", str(self.folder / "checkpoint")).start()
        )
        query.awaitTermination()
        return rows


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Callable[[str], Stream]:
    """Makes streams of a schema (DDL)."""
    made = iter(range(1000))
    return lambda ddl: Stream(spark, tmp_path / f"stream-{next(made)}", ddl)


def build(name: str, frame: Any, /, **config: Any) -> Any:
    """Build a task on a DataFrame, as a slot does."""
    from workers.library.registry import resolve, task_types

    return resolve(task_types()[name])(frame, config)
