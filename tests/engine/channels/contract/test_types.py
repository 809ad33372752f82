"""Every type that a stream may have survives a channel, nulls included."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
import redis
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from workers.engine.channels import block_codec, keys, scripts

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]

COLUMNS = {
    "tiny": ("CAST(7 AS TINYINT)", 7),
    "small": ("CAST(-300 AS SMALLINT)", -300),
    "whole": ("CAST(70000 AS INT)", 70_000),
    "long": ("CAST(9007199254740993 AS BIGINT)", 9_007_199_254_740_993),
    "single": ("CAST(1.5 AS FLOAT)", 1.5),
    "double": ("CAST(0.1 AS DOUBLE)", 0.1),
    "nan": ("CAST('-Infinity' AS DOUBLE)", float("-inf")),
    "flag": ("true", True),
    "text": ("'Grüße, 世界 🌍'", "Grüße, 世界 🌍"),
    "empty": ("''", ""),
    "bytes": ("X'00FF10'", b"\x00\xff\x10"),
    "price": ("CAST('12345678901234567890.123456789' AS DECIMAL(38,9))", Decimal("12345678901234567890.123456789")),
    "day": ("DATE'2024-02-29'", dt.date(2024, 2, 29)),
    "at": ("TIMESTAMP'2024-02-29 12:34:56.123456 UTC'", dt.datetime(2024, 2, 29, 12, 34, 56, 123_456, tzinfo=dt.UTC)),
    "local": ("TIMESTAMP_NTZ'2024-02-29 12:34:56.123456'", dt.datetime(2024, 2, 29, 12, 34, 56, 123_456)),
    "list": ("array(1, CAST(NULL AS INT), 3)", [1, None, 3]),
    "no_list": ("CAST(array() AS ARRAY<STRING>)", []),
    "map": ("map('a', 1.5D, 'b', CAST(NULL AS DOUBLE))", [("a", 1.5), ("b", None)]),
    "nested": (
        "named_struct('x', 1, 'deep', array(named_struct('y', 'z', 'm', map(1, array(2)))))",
        {"x": 1, "deep": [{"y": "z", "m": [(1, [2])]}]},
    ),
}


def test_types_survive_two_channels_and_back(rig: Rig) -> None:
    ticks = rig.ticks("a", rate_per_s=1_000, limit=10)
    wide = ticks.select(
        "*",
        *(F.expr(expression).alias(name) for name, (expression, _) in COLUMNS.items()),
        *(F.expr(f"IF(_seq % 2 = 0, {expression}, NULL)").alias(f"{name}_or_null")
          for name, (expression, _) in COLUMNS.items()),
    )
    queries = (
        rig.start(rig.publish(wide, "a", readers=("b",)), "a"),
        rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b"),
    )
    wait_until(lambda: len(rig.events("b.0")) == 10, what="all events", alive=queries)
    for row in rig.events("b.0"):
        for name, (_, value) in COLUMNS.items():
            assert row[name] == value, name
            assert row[f"{name}_or_null"] == (value if row["_seq"] % 2 == 0 else None), name


def test_columns_that_an_arrow_udf_passes_through_are_those_of_its_events(rig: Rig) -> None:
    """Spark takes them again when the blocks behind them are read already."""
    count = 9_000  # of ticks, too, more than are read at once

    def marked(stream: DataFrame, name: str) -> DataFrame:
        return stream.withColumn(name, F.udf(lambda number: number + 1, "long", useArrow=True)("_seq"))

    ticks = rig.ticks("a", rate_per_s=1_000_000, limit=count)
    queries = [rig.start(rig.publish(marked(ticks, "next"), "a", readers=("b",)), "a", trigger_ms=500)]
    wait_until(lambda: rig.channels.meters("a").get("0:n", 0) >= count, what="a backlog", alive=queries)
    queries.append(rig.start(rig.publish(marked(rig.read("b", "a.0"), "later"), "b"), "b"))
    wait_until(lambda: len(rig.events("b.0")) == count, what="all events", alive=queries)
    rows = rig.events("b.0")
    assert [(row["_seq"], row["next"], row["later"]) for row in rows] == [(n, n + 1, n + 1) for n in range(count)]
    assert all(row["_time"] == row["_born"] for row in rows)


@pytest.mark.long  # few columns of all types do in the short run
def test_a_schema_of_five_hundred_columns_survives(rig: Rig) -> None:
    ticks = rig.ticks("a", rate_per_s=1_000, limit=10)
    wide = ticks.select("*", *((F.col("_seq") + index).alias(f"c{index}") for index in range(500)))
    queries = (
        rig.start(rig.publish(wide, "a", readers=("b",)), "a"),
        rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b"),
    )
    wait_until(lambda: len(rig.events("b.0")) == 10, what="all events", alive=queries)
    assert [row["c499"] for row in rig.events("b.0")] == list(range(499, 509))


def test_names_that_need_quoting_survive(rig: Rig) -> None:
    odd = rig.ticks("a", rate_per_s=1_000, limit=5).select("*", F.col("_seq").alias("a.b `c` ü"))
    queries = (
        rig.start(rig.publish(odd, "a", readers=("b",)), "a"),
        rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b"),
    )
    wait_until(lambda: len(rig.events("b.0")) == 5, what="all events", alive=queries)
    assert [row["a.b `c` ü"] for row in rig.events("b.0")] == list(range(5))


def test_a_stream_without_columns_keeps_its_count(rig: Rig) -> None:
    queries = (
        rig.start(rig.publish(rig.ticks("a", rate_per_s=1_000, limit=10).select(), "a", readers=("b",)), "a"),
        rig.start(rig.publish(rig.read("b", "a.0"), "b"), "b"),
    )
    wait_until(lambda: rig.channels.meters("b").get("0:n") == 10, what="ten empty events", alive=queries)


def test_what_python_reads_and_writes_of_blocks_is_what_the_java_side_does(rig: Rig, broker: redis.Redis) -> None:
    """Measurements keep what they read of a channel, and write it to another."""
    wide = rig.ticks("a", rate_per_s=1_000, limit=10).select(
        "*", *(F.expr(expression).alias(name) for name, (expression, _) in COLUMNS.items())
    )
    query = rig.start(rig.publish(wide, "a"), "a")
    wait_until(lambda: len(rig.events("a.0")) == 10, what="all events", alive=(query,))
    rig.channels.open_channel("b.0", schema_json=wide.schema.json(), readers=["c"])
    names, token = [keys.channel("b.0"), keys.meta("b.0"), keys.readers("b.0")], rig.channels.take_fence("b.0")
    blocks = [fields[b"b"] for _, fields in broker.xrange(keys.channel("a.0"))]
    batches = [batch for block in blocks for batch in block_codec.decode_block(block)]
    for number, batch in enumerate(batches, start=1):
        scripts.run(broker, "write", names, [token, number, 0, batch.num_rows, block_codec.encode_block(batch), 0])
    again = rig.start(rig.publish(rig.read("c", "b.0"), "c"), "c")
    wait_until(lambda: len(rig.events("c.0")) == 10, what="all events", alive=(again,))
    assert rig.events("c.0") == rig.events("a.0")
    assert all(row[name] == value for row in rig.events("c.0") for name, (_, value) in COLUMNS.items())


def test_doubles_of_an_earlier_version_are_read_as_the_whole_numbers_and_decimals_that_they_are_now(
    rig: Rig, broker: redis.Redis
) -> None:
    """Aggregates of these were doubles; a block may still wait in a channel whose stream has other types now."""
    now = rig.ticks("a", rate_per_s=1_000, limit=1).selectExpr(
        "_seq", "_time", "_born", "IF(_seq < 0, NULL, _seq) AS most",
        "CAST(IF(_seq < 0, NULL, _seq) AS decimal(12,2)) AS cost")
    rig.channels.open_channel("b.0", schema_json=now.schema.json(), readers=["c"])
    names, token = [keys.channel("b.0"), keys.meta("b.0"), keys.readers("b.0")], rig.channels.take_fence("b.0")
    numbers = [0, 1, 2, 3]
    earlier = pa.RecordBatch.from_pydict({
        **{name: pa.array(numbers, pa.int64()) for name in ("_seq", "_time", "_born")},
        "most": [9007199254740992.0, None, -3.0, float("nan")], "cost": [1.1, None, -0.25, 5.0]})
    scripts.run(broker, "write", names, [token, 1, 0, 4, block_codec.encode_block(earlier), 0])
    query = rig.start(rig.publish(rig.read("c", "b.0"), "c"), "c")
    wait_until(lambda: len(rig.events("c.0")) == 4, what="all events", alive=(query,))
    assert [(row["most"], row["cost"]) for row in rig.events("c.0")] == [
        (2**53, Decimal("1.10")), (None, None), (-3, Decimal("-0.25")), (None, Decimal("5.00"))]
