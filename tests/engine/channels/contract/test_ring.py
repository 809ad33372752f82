"""A stream is divided by keys: Spark, Java and Python find the same bundle, which has all events of its keys."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from scheduler.model.columns import NUMBER_BITS
from scheduler.model.key_loads import STRETCH, STRETCHES, KeyCounts
from scheduler.model.key_texts import key_text_of
from scheduler.model.ring import KEY_GROUPS, Ring, key_group
from tests.benches.elastic_ring import ElasticRing
from tests.library.told_marks import PartitionMarks
from workers.engine.channels import keys
from workers.engine.spark import queries
from workers.library.state import key_text

from .rig import EVERYTHING, Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
KINDS = (
    "text STRING, whole BIGINT, small TINYINT, flag BOOLEAN, real DOUBLE, single FLOAT, price DECIMAL(20,4), day DATE, "
    "at TIMESTAMP, local TIMESTAMP_NTZ, bytes BINARY")


def values_of(chance: Random) -> list[tuple]:
    """Rows of every kind: what is hard about each, and some by chance."""
    texts = ["", "a", "\x00", "\x1f", "\x1b", "a\x1fb", "x" * 31, "y" * 32, "z" * 65, "Grüße, 世界 🌍"]
    reals = [0.0, -0.0, float("nan"), float("inf"), -1.5, 0.1, 1e300, 3.0]
    when = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    of_kind = [
        texts, [0, -1, 2**63 - 1, -(2**63), 7], [0, -128, 127], [True, False], reals, reals,
        [Decimal("0.0000"), Decimal("-12.3400"), Decimal("9999999999999999.9999")],
        [dt.date(1970, 1, 1), dt.date(2024, 2, 29)],
        [when, dt.datetime(2024, 2, 29, 12, 34, 56), dt.datetime(2026, 1, 1, 0, 0, 0, 120_000)],
        [when, dt.datetime(2024, 2, 29, 12, 34, 56)], [b"", b"\x00\x1f\xff"],
    ]
    texts += ["".join(chr(chance.randrange(0x20, 0x3000)) for _ in range(chance.randrange(80))) for _ in range(40)]
    of_kind[1] += [chance.randrange(-(2**63), 2**63) for _ in range(40)]
    reals += [chance.gauss(0, 1e6) for _ in range(40)]
    return [tuple(chance.choice([None, *values]) for values in of_kind) for _ in range(400)]


def test_spark_java_and_python_find_the_same_group_for_every_kind_of_key(rig: Rig) -> None:
    rows = rig.spark.createDataFrame(values_of(Random(40)), StructType.fromDDL(KINDS)).coalesce(1).cache()
    ring = Ring.even(["text"], ["f1-2", "f1-0", "f1-1"])
    several = (["text", "whole"], ["real", "text", "bytes"], ["flag", "text", "day"])
    for by in (*([name] for name in rows.columns), *several):
        of = Ring(tuple(by), ring.tokens)
        texts = rows.select(key_text(rows, by).alias("text"), F.xxhash64(key_text(rows, by)).alias("hash")).collect()
        dealt = list(rig.probe.dealtByKey(rows._jdf, json.dumps(of.document())))
        assert [int(group) for group in dealt[::2]] == [key_group(row.text) for row in texts] == [
            row.hash % 2**64 // (2**64 // KEY_GROUPS) for row in texts], by
        assert dealt[1::2] == [of.owner(key_group(row.text)) for row in texts]
    keyed = rows.select("text", "whole", "small", "flag").collect()
    texts = rows.select(key_text(rows, ["text", "whole", "small", "flag"]).alias("key")).collect()
    assert [key_text_of(row) for row in keyed] == [row.key for row in texts]
    rows.unpersist()


def test_keys_that_folds_hold_for_one_are_one(rig: Rig) -> None:
    rows = rig.spark.createDataFrame(
        [(0.0, 1), (-0.0, 1), (float("nan"), 2), (-float("nan"), 2), (None, 3)], "real DOUBLE, key INT").coalesce(1)
    groups = list(rig.probe.dealtByKey(rows._jdf, json.dumps(Ring.even(["real"], ["a"]).document())))[::2]
    assert groups[0] == groups[1] and groups[2] == groups[3] and len(set(groups)) == 3


def test_tokens_change_between_two_batches_and_no_key_is_in_two_bundles(rig: Rig) -> None:
    small = rig.with_config(max_rows=60)
    bundles = ("r", "s", "t")
    rings = [
        Ring.even(["sensor"], ["r", "s"]),
        ElasticRing(("sensor",), {0: "r", KEY_GROUPS // 2: "s"}).with_token(9_000, "t"),
        ElasticRing(("sensor",), {0: "r", KEY_GROUPS // 2: "s"}).with_token_moved(KEY_GROUPS // 2, 50_000),
        Ring(("sensor",), {0: "t"}, leaving=("r", "s"))]

    def stream():
        ticks = small.ticks("a", rate_per_s=500)
        return ticks.withColumn("sensor", F.concat(F.lit("sensor "), (F.col("_seq") % 50).cast("string")))

    rig.open_parts(stream(), "a.0", bundles, capacity=EVERYTHING)
    rig.channels.route("a", 0, "r", rings[0], from_batch=0)
    from_batch = {0: rings[0]}
    for ring in rings[1:]:
        query = rig.start(rig.publish(stream(), "a"), "a")
        before = len(rig.batches("a.0"))
        wait_until(lambda before=before: len(rig.batches("a.0")) > before + 1, what="batches", alive=(query,))
        assert rig.channels.route("a", 0, "r", ring)
        wait_until(lambda: rig.channels.routed("a", 0, "r").effective, what="the boundary", alive=(query,))
        from_batch[rig.channels.routed("a", 0, "r").from_batch] = ring
        if ring is not rings[-1]:
            query.stop()  # wherever it is: the next one repeats what is not done
    assert queries.rest(query, pause=lambda: rig.channels.pause("a"))
    query.stop()
    assert rig.channels.routed("a", 0, "r").partitioning == rings[-1]
    whole = rig.batches("a.0")
    parts = {bundle: rig.batches(keys.part("a.0", bundle)) for bundle in bundles}
    for batch, numbers in whole.items():
        ring = from_batch[max(first for first in from_batch if first <= batch)]
        for bundle in bundles:
            assert parts[bundle].get(batch, []) == [
                number for number in numbers if ring.owner(key_group(f"sensor {number % 50}")) == bundle]
    numbers = rig.numbers("a.0")
    assert numbers == list(range(len(numbers))) and len(from_batch) == len(rings)


def test_writers_count_the_stretches_of_the_ring_that_python_finds_and_the_most_frequent_keys(rig: Rig) -> None:
    """One event in three has the key ``hot``, one in nine is null; all others differ."""
    rows = rig.spark.range(9_000).select(
        F.expr("CASE WHEN id % 3 = 0 THEN 'hot' WHEN id % 9 = 1 THEN NULL ELSE concat('k', id) END AS sensor"))
    rows = rows.coalesce(1)
    texts = [row.text for row in rows.select(key_text(rows, ["sensor"]).alias("text")).collect()]
    ring = json.dumps(Ring.even(["sensor"], ["a", "b"]).document())
    counts = KeyCounts.of(json.loads(rig.probe.keysCounted(rows._jdf, ring, 1)))
    by_stretch = Counter(key_group(text) // STRETCH for text in texts)
    assert counts.by_stretch == tuple(by_stretch[stretch] for stretch in range(STRETCHES))
    exact = Counter(texts)
    by_text = {key.text: key for key in counts.frequent}
    assert by_text.keys() == {"hot", "\x00"}, "keys with a hundredth of the events, and no others"
    for text, key in by_text.items():
        assert key.group == key_group(text) and exact[text] - len(texts) / 16 <= key.events <= exact[text]


def test_parts_are_told_by_java_what_the_reference_tells(rig: Rig) -> None:
    """Partitions that fall silent and come back, arrivals that go back, and times ahead of theirs."""
    chance, born, rows = Random(41), 1_000_000, []
    for number in range(600):
        born += chance.choice([-20, 0, 1, 1, 40, 300, 700])
        seq = (chance.choice([0, 0, 1, 2**20]) << NUMBER_BITS) + number
        rows.append((seq, born + chance.randint(-500, 50), born, f"s{chance.randrange(9)}"))
    ring = replace(Ring.even(["sensor"], ["a", "b", "c"]), ahead_ms=20)
    frame = rig.spark.createDataFrame(rows, "_seq BIGINT, _time BIGINT, _born BIGINT, sensor STRING").coalesce(1)
    marks, texts = PartitionMarks(ahead_ms=20, parts=3), [[], [], []]
    for seq, time, at, sensor in rows:
        part = ring.served.index(ring.owner(key_group(sensor)))
        texts[part].append(marks.before(seq, time, at, part))
    for part, marked in enumerate(texts):
        assert list(rig.probe.marksTold(frame._jdf, json.dumps(ring.document()), part)) == [*marked, marks.behind(part)]
    assert sum(text is not None and ";" in text for marked in texts for text in marked) > 50
