"""Several streams that enter and leave the paths of an element are what the recorded sequence of paths makes."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scheduler.model.alternates import alternates_in
from scheduler.model.documents import read_document
from workers.engine.channels.spark_channels import one_of
from workers.engine.noted_switches import noted_switches
from workers.engine.spark.dynamic_tasks import _builds
from workers.library.registry import columns_of, resolve, task_types

from .rig import Query, Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
STREAM = ["_seq", "_time", "_born"]


def path(name: str, split_at: int) -> dict:
    """Numbers below a bound leave by one output, as text, and all others by the other, as numbers; whatever comes by
    the second input leaves by the first output."""
    def sql(task_id: str, query: str) -> dict:
        return {"id": task_id, "type": "sql", "config": {"query": query}}

    def joining(source: str, target: str, **port: str) -> dict:
        return {"from": source, "to": target, **port}

    return {
        "name": name,
        "tasks": [sql("low", f"SELECT CAST(n AS string) AS n, '{name}' AS made FROM input WHERE n < {split_at}"),
                  sql("high", f"SELECT n, '{name}' AS made FROM input WHERE n >= {split_at}"),
                  sql("side", f"SELECT m AS n, '{name}' AS made FROM input")],
        "streams": [
            joining("input", "low", input="main"), joining("input", "high", input="main"),
            joining("input", "side", input="side"), joining("low", "output", output="texts"),
            joining("side", "output", output="texts"), joining("high", "output", output="numbers")]}


DOCUMENT = {
    "name": "x",
    "tasks": [
        {"id": "s", "type": "urban_sensing"},
        {"id": "main", "type": "sql", "config": {"query": "SELECT CAST(_seq % 7 AS int) AS n FROM input"}},
        {"id": "side", "type": "sql", "config": {"query": "SELECT CAST(_seq AS string) AS m FROM input"}},
        {"id": "work", "alternates": [path("few", 2), path("many", 5)]},
        {"id": "a", "type": "output", "config": {"name": "a"}}, {"id": "b", "type": "output", "config": {"name": "b"}}],
    "streams": [
        {"from": "s", "to": "main"}, {"from": "s", "to": "side"}, {"from": "main", "to": "work", "input": "main"},
        {"from": "side", "to": "work", "input": "side"}, {"from": "work", "to": "a", "output": "texts"},
        {"from": "work", "to": "b", "output": "numbers"}]}


def build(kind: str, events: DataFrame, **config: object) -> DataFrame:
    return resolve(task_types()[kind])(events, config)


def start(rig: Rig) -> Query:
    """The tasks of the document in one query, from its source's numbers to the element."""
    rig.spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")  # as in slots
    work = read_document(json.dumps(DOCUMENT), task_types=task_types(), columns_of=columns_of).task("work")
    ticks = rig.ticks("a", rate_per_s=500)
    main = build("into_port", ticks.select(*STREAM, (F.col("_seq") % 7).cast("int").alias("n")), port="main")
    side = build("into_port", ticks.where("_seq % 3 = 0").select(*STREAM, F.col("_seq").cast("string").alias("m")),
                 port="side")
    entering = rig.publish(main.unionByName(side, allowMissingColumns=True).coalesce(1), "a", 0)
    made = one_of(entering, _builds(alternates_in(work.type, work.config), task_types()), rig.config, task="t",
                  fragment="a", position=1)
    return rig.start(rig.publish(made, "a", 1, readers=("b", "c"), retain=1_000_000), "a")


def reader(rig: Rig, fragment: str, port: str) -> Query:
    """What reads one output of the element, in a query of its own."""
    return rig.start(rig.publish(build("from_port", rig.read(fragment, "a.1"), port=port), fragment, 0), fragment)


def test_each_stream_that_leaves_is_what_the_recorded_sequence_of_paths_makes(rig: Rig) -> None:
    rig.channels.switch("a", 1, "many", from_batch=0)
    query = start(rig)
    readers = reader(rig, "b", "texts"), reader(rig, "c", "numbers")
    for number, name in enumerate(["few", "many"], 2):
        wait_until(lambda number=number: len(rig.events("b.0")) > 100 * number, what="events", alive=(query, *readers))
        assert rig.channels.switch("a", 1, name)
        wait_until(lambda number=number: len(noted_switches(rig.channels._redis, "t")) == number, what=name,
                   alive=(query, *readers))
        query.stop()  # wherever it is
        wait_until(lambda query=query: not query.isActive, what="the stop")
        query = start(rig)
    switches = noted_switches(rig.channels._redis, "t")
    upto = switches[-1].seq + 100
    wait_until(lambda: min(max(rig.numbers(channel), default=0) for channel in ("b.0", "c.0")) > upto, what="the rest",
               alive=(query, *readers))
    texts, numbers = [], []
    for seq in range(upto):
        name = max((switch for switch in switches if switch.seq <= seq), key=lambda switch: switch.seq).alternate
        n = seq % 7
        (texts if n < {"few": 2, "many": 5}[name] else numbers).append((seq, n, name))
        texts += [(seq, seq, name)] if seq % 3 == 0 else []
    got = {channel: [(row["_seq"], row["n"], row["made"]) for row in rig.events(channel) if row["_seq"] < upto]
           for channel in ("b.0", "c.0")}
    assert {name for *_, name in texts} == {"few", "many"}
    assert sorted(got["b.0"]) == sorted((seq, str(n), name) for seq, n, name in texts)
    assert got["c.0"] == numbers, "in the order of the stream"
    assert set(rig.events("c.0")[0]) == {*STREAM, "n", "made"}
