"""Folds at the fold host: the events are those that Spark's own folds give, and each comes exactly once."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.written_blocks import read_blocks
from workers.engine.agents.node_files.checkpoint import read_progress
from workers.engine.agents.node_files.fold_stores import FoldStores
from workers.engine.channels import open_streams
from workers.engine.spark import hosted_folds, queries
from workers.engine.spark.fold_states import read_states
from workers.engine.spark.hosted_folds import HostedFolds
from workers.library.registry import resolve, task_types
from workers.library.state import going_on

from .rig import Query, Rig, wait_until
from .test_real_time import rests

pytestmark = [pytest.mark.spark, pytest.mark.broker]
EVENTS = 420
# Of each chain its tasks. The first has three folds and a projection; a window and a join count what is late.
CHAINS: dict[str, list[tuple[str, dict]]] = {
    "averages of averages": [("kalman_filter", {}), ("block_average", {"window": 4, "by": ["sensor_id"]}),
                             ("window", {"size": 0.1, "by": ["sensor_id"], "aggregates": ["mean=avg(value)"]})],
    "deduplicate": [("deduplicate", {"by": ["sensor_id", "value"], "within": 0.05})],
    "window": [("window", {"size": 0.1, "lateness": 0, "by": ["sensor_id"], "aggregates": ["mean=avg(value)"]})],
    "join": [("join", {"on": ["sensor_id"], "left": "obs = 'temperature'", "left_columns": ["warm=value"],
                       "right": "obs = 'humidity'", "right_columns": ["damp=value"], "after": 0.05})],
    "second_order_moment": [("second_order_moment", {"variables": 3, "by": ["obs"]})],
    "distinct_count": [("distinct_count", {"field": "sensor_id", "precision": 6, "window": 5})],
    "interpolate": [("interpolate", {"method": "linear", "window": 3})],
    "join_by_message": [("join_by_message", {"schema": "own", "fields": ["temperature", "humidity"]})],
    "accumulate": [("accumulate", {"window": 3})],
    "exact_average": [("exact_average", {"window": 3})],
    "roll_up": [("exact_average", {"window": 2}), ("roll_up", {"blocks": 2})],
    "sliding_linear_regression": [("sliding_linear_regression", {"train": 4, "predict": 2, "every": 2})],
    "align": [("align", {"side": "obs", "sides": ["temperature", "humidity"], "on": ["msg_id"],
                         "columns": ["warm=temperature.value", "damp=humidity.value"]})],
    "error_estimate": [("error_estimate", {"actual": "value", "predicted": "guess", "window": 5})],
    "round_robin": [("round_robin", {"of": 3, "part": 1})],
}
IN_SHORT = {"averages of averages"}


def observations(ticks: DataFrame) -> DataFrame:
    """Of each tick one reading of three sensors in turn; every seventh is missing, every ninth is a second late."""
    seq = F.col("_seq")
    return ticks.select(
        "_seq", F.when(seq % 9 == 4, F.col("_time") - 1_000).otherwise(F.col("_time")).alias("_time"), "_born",
        F.format_string("m%d", (seq / 2).cast("long")).alias("msg_id"),
        F.format_string("s%d", seq % 3).alias("sensor_id"),
        F.when(seq % 2 == 0, "temperature").otherwise("humidity").alias("obs"), F.lit("{}").alias("meta"),
        F.when(seq % 7 != 3, (seq * 37 % 101) / 4).alias("value"),
        (seq % 11).cast("double").alias("guess"))


def built(
    rig: Rig, fragment: str, name: str, *, is_open: bool, is_hosted: bool = True, large: int = 1 << 18
) -> DataFrame:
    """A chain, with a valve behind each task; only the last one's is published."""
    frame = rig.read(fragment, "a.0", writes=(f"{fragment}.9",), real_time=is_open)
    folds = HostedFolds(rig.checkpoint(fragment), is_open)
    for position, (task, config) in enumerate(CHAINS[name]):
        if position == 2:
            frame = frame.withColumn("value", F.floor(F.col("value")).cast("double"))
        with going_on(f"t{position}", hosted=folds.fold if is_hosted else None, stores=rig.folder / "folds",
                      fragment=fragment, large=large):
            frame = rig.valve(resolve(task_types()[task])(frame, dict(config)), fragment, position)
    return frame


def made(rig: Rig) -> list[str]:
    """The stream, in small blocks; their ids."""
    ticks = observations(rig.ticks("a", rate_per_s=400, limit=EVENTS, writes=("a.0",), real_time=True))
    query = rig.start(rig.publish(ticks, "a", readers=("b", "s")), "a", real_time=True)
    wait_until(lambda: len(rig.events("a.0")) == EVENTS, what="the stream", alive=(query,))
    query.stop()
    return [entry for entry, _ in read_blocks(rig.channels, "a.0", count=EVENTS)]


def reader(rig: Rig, name: str, *, is_open: bool, large: int) -> Query:
    frame = built(rig.with_config(max_blocks=1, blocks_each=1), "b", name, is_open=is_open, large=large)
    assert open_streams.refusal(frame) == ""
    return rig.start(rig.publish(frame, "b", 9), "b", real_time=is_open)


def blocks_read(rig: Rig, fragment: str, blocks: list[str]) -> int:
    """How many blocks of the stream a fragment has read, in the batch that is open, too."""
    offset = read_progress(rig.checkpoint(fragment)).offsets.get("a.0", "0-0")
    return blocks.index(offset) + 1 if offset in blocks else 0


def rest(rig: Rig, query: Query, *, is_open: bool) -> None:
    """Stop a query between two batches."""
    rig.channels.pause("b")
    if is_open:
        wait_until(lambda: rests(rig, "b"), what="rest", alive=(query,))
    else:
        assert queries.stop(query._query, pause=lambda: None, drain_s=240)
    query.stop()
    rig.channels.resume("b")


def work_on(rig: Rig, name: str, blocks: list[str], *, is_open: bool, more: int, how: str, rest_s: float) -> None:
    """Start the chain, and end it some blocks later. As in slots, a batch ends in the mode in which it was begun."""
    progress, enough = read_progress(rig.checkpoint("b")), min(blocks_read(rig, "b", blocks) + more, len(blocks))
    is_open = is_open if progress.is_done else progress.is_open
    query = reader(rig, name, is_open=is_open, large=2_000)
    wait_until(lambda: blocks_read(rig, "b", blocks) >= enough and (not is_open or has_begun(rig)), what="some",
               alive=(query,))
    time.sleep(rest_s)
    if how == "rests":
        rest(rig, query, is_open=is_open)
        return
    if how == "the host dies":
        hosted_folds.host_of(rig.spark).process.kill()
        wait_until(lambda: query.exception() is not None or blocks_read(rig, "b", blocks) == len(blocks),
                   what="the query fails")
    query.stop()


def has_begun(rig: Rig) -> bool:
    """Whether a batch of the chain is open."""
    return open_streams.OpenTimes(rig.spark, rig.config.redis_url).still_ms("b") > 0


def of_spark(rig: Rig, name: str, blocks: list[str]) -> list[dict]:
    """What Spark's own folds make of the stream, in as few batches as can be."""
    frame = built(rig.with_config(max_blocks=EVENTS), "s", name, is_open=False, is_hosted=False)
    query = rig.start(rig.publish(frame, "s", 9), "s")
    wait_until(lambda: blocks_read(rig, "s", blocks) == len(blocks) and read_progress(rig.checkpoint("s")).is_done,
               what="Spark's", alive=(query,))
    query.stop()
    return rig.events("s.9")


def parsed(states: Mapping[str, list[str]]) -> dict[str, list[Any]]:
    """States as values: the order of a text's keys is that in which they came, or were read again."""
    return {name: [json.loads(text) for text in texts] for name, texts in states.items()}


@pytest.mark.parametrize("name", [
    name if name in IN_SHORT else pytest.param(name, marks=pytest.mark.long) for name in CHAINS])
def test_the_host_gives_what_spark_gives_in_either_mode_through_stops_and_its_death(rig: Rig, name: str) -> None:
    rig.spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")  # as in slots
    blocks, chance = made(rig), random.Random(name)
    rig.channels.pace("b", 20)
    for is_open, more, how in [
            (True, 30, "stopped"), (True, 30, "the host dies"), (True, 20, "rests"), (False, 4, "stopped"),
            (False, 4, "the host dies"), (False, 3, "rests")]:
        work_on(rig, name, blocks, is_open=is_open, more=more, how=how, rest_s=chance.random() / 10)
    while blocks_read(rig, "b", blocks) < len(blocks) or not read_progress(rig.checkpoint("b")).is_done:
        work_on(rig, name, blocks, is_open=True, more=len(blocks), how="rests", rest_s=0.0)
    assert rig.events("b.9") == of_spark(rig, name, blocks)
    assert len(rig.events("b.9")) >= 10

    done, folds = read_progress(rig.checkpoint("b")).batch, len(CHAINS[name])
    states = read_states(rig.spark, rig.checkpoint("b"), folds=folds, batch=done)
    expected = read_states(rig.spark, rig.checkpoint("s"), folds=folds, batch=read_progress(rig.checkpoint("s")).batch)
    stores = FoldStores(rig.folder)
    assert parsed(stores.whole({"": states})) == parsed(stores.whole({"": expected}))
