"""What a query does, as Spark tells it: one whose own thread waits has no job under way, and where it waits is seen."""

from __future__ import annotations

import threading
import time

import pytest

from workers.engine.agents.failing import hanging
from workers.engine.spark import queries
from workers.engine.spark.failure_messages import FragmentFailed

pytestmark = pytest.mark.spark


def until(holds) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to be so")


def test_a_query_that_hangs_is_told_from_one_that_works(spark, tmp_path):
    from pyspark.sql import functions as F

    released, waiting = threading.Event(), threading.Event()

    def hang(frame, batch) -> None:
        waiting.set()
        released.wait()

    def slow(seconds):
        time.sleep(600)
        return seconds

    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    hangs = rate.writeStream.foreachBatch(hang).option("checkpointLocation", str(tmp_path / "1")).start()
    works = rate.select(F.udf(slow, "bigint")("value")).writeStream.format("noop").option(
        "checkpointLocation", str(tmp_path / "2")).start()
    try:
        assert waiting.wait(60)
        until(lambda: queries.is_in_a_batch(hangs) and hanging._works(spark, works.runId))
        assert not hanging._works(spark, hangs.runId)
        place = hanging._place(spark, hangs.runId)
        assert place == hanging._place(spark, hangs.runId) and "py4j" in place
        assert isinstance(hanging.hangs(place), FragmentFailed) and "py4j" in str(hanging.hangs(place))
        assert hanging._place(spark, "no such run") == ""
    finally:
        released.set()
        for query in (hangs, works):
            hanging_stop = threading.Thread(target=query.stop)
            hanging_stop.start()
            hanging_stop.join(10)
