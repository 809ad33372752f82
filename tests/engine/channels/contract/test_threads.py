"""Threads: a batch is worked on in slices, at the same time, and comes out in the order of the input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scheduler.model.dataflow import Task
from workers.engine.channels.spark_channels import gather
from workers.engine.spark.compile import Chain, compile_chain
from workers.engine.spark.failure_messages import FragmentFailed
from workers.library.registry import task_types

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
THREADS = 3
ALONE_S = 120  # how long the first waits for the others where threads take turns


def repeat(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """None to four events for each, in the order of the input."""
    for batch in batches:
        rows = [row for row, number in enumerate(batch["_seq"].to_pylist()) for _ in range(number % 5)]
        yield batch.take(pa.array(rows, pa.int64()))


def expected(numbers: list[int]) -> list[int]:
    return [number for number in numbers for _ in range(number % 5)]


def work(rig: Rig, task: Callable[[DataFrame], DataFrame], *inputs: list[str], threads: int, fragment: str = "t"):
    """A task on several threads."""
    events = gather(task(rig.read(fragment, *inputs, threads=threads)), threads=threads)
    return rig.start(rig.publish(events, fragment), fragment)


def copy(stream: DataFrame) -> DataFrame:
    return stream.mapInArrow(repeat, stream.schema)


def test_what_threads_make_comes_in_the_order_of_the_input(rig: Rig) -> None:
    rig = rig.with_config(block_rows=70)
    ticks = rig.ticks("a", rate_per_s=4_000, limit=2_000)
    writer = rig.start(rig.publish(ticks, "a", readers=("t",)), "a")
    total = len(expected(list(range(2_000))))
    query = work(rig, copy, ["a.0"], threads=THREADS)
    wait_until(lambda: len(rig.events("t.0")) > total // 4, what="first events", alive=(writer, query))
    query.stop()  # wherever it is; it goes on with another number of threads
    two = work(rig, copy, ["a.0"], threads=2)
    wait_until(lambda: len(rig.events("t.0")) >= total, what="all events", alive=(writer, two))
    assert rig.numbers("t.0") == expected(list(range(2_000)))
    wait_until(lambda: rig.channels.meters("t").get("0:n", 0) >= total, what="the count")


def meet(folder: Path, number: int, others: int) -> None:
    """Come back when as many work at the same time."""
    (folder / str(number)).touch()
    deadline = time.monotonic() + ALONE_S
    while len(list(folder.iterdir())) < others and time.monotonic() < deadline:
        time.sleep(0.01)


def meeting(folder: str, kind: str) -> Callable[[DataFrame], DataFrame]:
    """A task that ends early only if three of it run at the same time, in each way that a task may be written."""

    def in_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["_seq"].to_pylist():
                meet(Path(folder), number, THREADS)
            yield batch

    def in_pandas(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            for number in frame["_seq"]:
                meet(Path(folder), number, THREADS)
            yield frame

    def in_udf(number: int) -> int:
        meet(Path(folder), number, THREADS)
        return number

    return {
        "mapInArrow": lambda stream: stream.mapInArrow(in_arrow, stream.schema),
        "mapInPandas": lambda stream: stream.mapInPandas(in_pandas, stream.schema),
        "udf": lambda stream: stream.withColumn("_seq", F.udf(in_udf, "long")("_seq")),
        "pandas_udf": lambda stream: stream.withColumn(
            "_seq", F.pandas_udf(lambda numbers: numbers.map(in_udf), "long")("_seq")
        ),
    }[kind]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["mapInArrow", "mapInPandas", "udf", "pandas_udf"])
def test_threads_run_at_the_same_time(rig: Rig, kind: str) -> None:
    folder = rig.folder / "met"
    folder.mkdir()
    ticks = rig.ticks("a", rate_per_s=10_000, limit=THREADS)
    writer = rig.start(rig.publish(ticks, "a", readers=("t",)), "a")
    wait_until(lambda: len(rig.events("a.0")) == THREADS, what="all events", alive=(writer,))
    met_at = time.monotonic()
    query = work(rig, meeting(str(folder), kind), ["a.0"], threads=THREADS)
    wait_until(lambda: len(rig.events("t.0")) == THREADS, what="all events", timeout_s=240, alive=(query,))
    assert time.monotonic() - met_at < ALONE_S, "none waited in vain"
    assert rig.numbers("t.0") == list(range(THREADS))


@pytest.mark.long
def test_threads_over_several_streams_keep_the_order_of_each(rig: Rig) -> None:
    writers = [
        rig.start(rig.publish(
            rig.ticks(name, rate_per_s=2_000, limit=600).withColumn("_seq", F.col("_seq") + first), name, readers=("t",)
        ), name)
        for name, first in (("a", 0), ("b", 10_000), ("c", 20_000))
    ]
    query = work(rig, copy, ["a.0", "b.0"], ["c.0"], threads=4)
    total = len(expected(list(range(600)))) * 3
    wait_until(lambda: len(rig.events("t.0")) >= total, what="all events", alive=(query, *writers))
    numbers = rig.numbers("t.0")
    for first in (0, 10_000, 20_000):
        of_stream = [number for number in numbers if first <= number < first + 10_000]
        assert of_stream == expected(list(range(first, first + 600)))


@pytest.mark.long
def test_a_repeated_batch_on_another_number_of_threads_is_the_same(rig: Rig) -> None:
    ticks = rig.with_config(max_rows=100).ticks("a", rate_per_s=4_000, limit=600)
    writer = rig.start(rig.publish(ticks, "a", readers=("t", "kept")), "a")
    wait_until(lambda: len(rig.events("a.0")) == 600, what="all events", alive=(writer,))
    total = len(expected(list(range(600))))
    # Small batches: the first one begins where the reader is registered, and not where the checkpoint says.
    first = work(rig.with_config(max_rows=200), copy, ["a.0"], threads=4)
    wait_until(lambda: len(rig.events("t.0")) == total, what="all events", alive=(first,))
    first.stop()
    commits = rig.folder / "checkpoint-t" / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(newest)).unlink()
    second = work(rig, copy, ["a.0"], threads=1)
    wait_until(lambda: rig.channels.info("t.0").duplicates > 0, what="a repetition", alive=(second,))
    assert rig.numbers("t.0") == expected(list(range(600)))


def test_one_thread_needs_no_exchange(rig: Rig) -> None:
    rig.channels.open_channel("a.0", schema_json=rig.ticks("a", rate_per_s=1).schema.json(), readers=["t"])
    stream = rig.read("t", ["a.0"])
    assert gather(stream, threads=1) is stream


def test_a_chain_is_compiled_for_its_threads(rig: Rig) -> None:
    rig.channels.open_channel("a.0", schema_json=rig.ticks("a", rate_per_s=1).schema.json(), readers=["t"])
    work = Task(id="w", type="pi_viete", config={"iterations": 10})

    def compiled(task: Task, *inputs: list[str], threads: int) -> str:
        chain = Chain("t", [task], inputs, ["t.0"], threads=threads)
        frame = compile_chain(
            rig.spark, chain, config=rig.config, task_types=task_types(), take_fence=rig.channels.take_fence,
            folder=rig.folder,
        ).frame
        return frame._jdf.queryExecution().analyzed().toString()

    assert "SPARK_PARTITION_ID" not in compiled(work, ["a.0"], threads=1)
    plan = compiled(work, ["a.0"], threads=3)
    assert plan.index("weir_valve") < plan.index("Repartition 1") < plan.index("Repartition 3")
    source = Task(id="s", type="urban_sensing", config={"rate_per_s": 5})
    with pytest.raises(FragmentFailed, match="task s: a source works on one thread, not on 2"):
        compiled(source, threads=2)
