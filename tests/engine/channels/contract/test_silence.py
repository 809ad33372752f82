"""Where nothing comes any more, there is one batch without events, in which what waits comes out; and late events."""

from __future__ import annotations

import json
from functools import partial

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from workers.engine.agents.node_files.checkpoint import read_progress
from workers.engine.channels.spark_channels import count_late
from workers.engine.spark import queries
from workers.engine.spark.fold_states import read_states
from workers.library.operators import window
from workers.library.state import going_on

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
EVENTS, IDLE_MS, EVERY = 300, 2_000, 10
CONFIG = {"aggregates": ["n=count(*)"], "size": 0.1, "idle": IDLE_MS / 1000}


def _windows(rig: Rig, reader: str) -> DataFrame:
    events = rig.read(reader, "a.0", writes=(f"{reader}.0",), idle_ms=IDLE_MS)
    with going_on(reader, fragment=reader, count_late=partial(count_late, config=rig.config, fragment=reader,
                                                              position=0)):
        return window(events, CONFIG)


def test_the_windows_of_a_silent_source_close_once_and_late_events_are_counted(rig: Rig) -> None:
    ticks = rig.ticks("a", rate_per_s=200, limit=EVENTS)
    some_late = F.expr(f"IF(_seq % {EVERY} = {EVERY - 1}, _time - 60000, _time)")
    source = rig.publish(ticks.withColumn("_time", some_late), "a", readers=("b",))
    made = rig.start(rig.publish(_windows(rig, "b"), "b"), "b")
    written = rig.start(source, "a")

    def counted() -> int:
        return sum(row["n"] for row in rig.events("b.0"))

    in_time = EVENTS - EVENTS // EVERY
    wait_until(lambda: counted() == in_time, what="all windows, the last one as well", alive=(made, written))
    wait_until(lambda: int(rig.channels.meters("b").get("0:late", 0)) == EVENTS // EVERY, what="the count of late ones",
               alive=(made,))
    checkpoint = rig.checkpoint("b")
    assert queries.rest(made._query, pause=lambda: rig.channels.pause("b"))
    batch = read_progress(checkpoint).batch
    states = read_states(rig.spark, checkpoint, folds=1, batch=batch, run_id=str(made.runId))
    assert states == read_states(rig.spark, checkpoint, folds=1, batch=batch)
    assert not any(key["open"] for key in json.loads(states[0])[""]["keys"].values())


def test_silence_is_told_once_and_changes_no_place(rig: Rig) -> None:
    rig.channels.open_channel("a.0", schema_json=rig.ticks("a", rate_per_s=1).schema.json(), readers=("b",))
    source = rig.source("b", "a.0", idle_ms=1)._source
    first = source.initialOffset()
    wait_until(lambda: not source.latestOffset(first, None).equals(first), what="silence")
    noted = source.latestOffset(first, None)
    assert json.loads(noted.json()) == json.loads(first.json()) and not noted.equals(first)
    again = source.deserializeOffset(noted.json())
    assert again.equals(noted) and source.latestOffset(again, None).equals(noted)
