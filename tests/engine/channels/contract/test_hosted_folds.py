"""Folds at the fold host: the events are those that Spark's own folds give, and each comes exactly once."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from workers.engine.channels import open_streams
from workers.engine.spark.hosted_folds import HostedFolds
from workers.library.folds import Accumulate, BlockAverage
from workers.library.state import fold_stream, going_on

from .rig import Query, Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
COLUMNS = ("_seq", "_time", "_born")


def averages(events: DataFrame, rig: Rig, *, is_open: bool) -> DataFrame:
    keyed = events.withColumn("k", (F.col("_seq") % 3).cast("string"))
    with going_on("t", hosted=HostedFolds(rig.checkpoint("b"), is_open).fold):
        means = fold_stream(keyed, BlockAverage(window=4), by=["k"], reads=["_seq"], kept=[*COLUMNS, "k"], added="m double, n int")
    return means


def reader(rig: Rig, *, is_open: bool = True) -> Query:
    events = averages(rig.read("b", "a.0", writes=("b.0",), real_time=is_open), rig, is_open=is_open)
    assert open_streams.refusal(rig.valve(events, "b", fence=0)) == ""
    return rig.start(rig.publish(events, "b"), "b", real_time=is_open)


def source(rig: Rig, limit: int) -> Query:
    ticks = rig.ticks("a", rate_per_s=200, limit=limit, writes=("a.0",), real_time=True)
    return rig.start(rig.publish(ticks, "a", readers=("b",)), "a", real_time=True)


@pytest.mark.parametrize("is_open", [True, False])
def test_spike(rig: Rig, is_open: bool) -> None:
    first, second = source(rig, 600), reader(rig, is_open=is_open)
    wait_until(lambda: len(rig.events("b.0")) >= 150, what="all", alive=(first, second), timeout_s=60)
    print(rig.events("b.0")[:5], rig.channels.info("b.0").blocks)
