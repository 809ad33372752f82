"""Sources that Spark reads, hosted as every other: each row once over kills, refused where they may not be read."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from scheduler.model.columns import number_of
from scheduler.model.dataflow import Task
from tests.engine.connectors.playing import Played, PlayedReader, fragment_of, until

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(900)]
BATCH = 3000
NUMBERS = Task("s1", "spark_source", {
    "source": "rate-micro-batch", "options": {"rowsPerBatch": str(BATCH), "numPartitions": "2"}, "every": 0.2,
    "columns": ["value:bigint", "timestamp:timestamp"]})


@pytest.fixture
def host(broker: redis.Redis, broker_url: str, tmp_path: Path) -> Iterator[Played]:
    played = Played(broker, broker_url, tmp_path / "data", {
        "WEIR_SPARK_SOURCES": "rate-micro-batch,json,no-such-format", "WEIR_SLOT_MEMORY_MB": "512"})
    played.start()
    yield played
    played.close()


def reading(host: Played, task: Task) -> PlayedReader:
    host.want(fragment_of(task))
    reader = PlayedReader(host.broker, task.id)
    until(lambda: reader.has_place and host.source(task.id).get("state") == "running", within_s=180,
          saying=lambda: host.report)
    return reader


def values(reader: PlayedReader) -> list[int]:
    return [row["value"] for row in reader.read()]


def driver_of(host: Played) -> psutil.Process | None:
    """The JVM that the host has started; what was read before it was may come without one."""
    children = psutil.Process(host.process.pid).children(recursive=True)
    return next((child for child in children if child.name() == "java"), None)


def require_each_once(reader: PlayedReader) -> None:
    """Each number once and none is missing, but of the batch that is being read: it comes by partitions."""
    counts = Counter(values(reader))
    whole = max(counts) // BATCH * BATCH
    assert max(counts.values()) == 1 and set(range(whole)) <= set(counts)


def test_rows_come_once_though_host_and_driver_are_killed_in_the_middle_of_a_batch(host: Played) -> None:
    reader, rng = reading(host, NUMBERS), random.Random(3)
    for victim in ("host", "driver", "host"):
        before = len(reader.rows)
        until(lambda: len(values(reader)) > before + 3000, within_s=180, saying=lambda: host.report)  # noqa: B023
        time.sleep(rng.random() * 0.4)
        if victim == "driver":
            until(lambda: driver_of(host) is not None and host.source("s1").get("state") == "running", within_s=180)
            driver_of(host).kill()
            continue
        children = psutil.Process(host.process.pid).children(recursive=True)
        host.kill()
        psutil.wait_procs(children, timeout=30)
        assert not [child for child in children if child.is_running()], "its JVM ends with it"
        host.start()
    until(lambda: len(values(reader)) > 20_000, within_s=240, saying=lambda: host.report)
    require_each_once(reader)
    assert [number_of(row["_seq"]) for row in reader.rows] == list(range(len(reader.rows)))


def test_a_full_channel_holds_spark_back_and_what_goes_leaves_nothing(host: Played) -> None:
    reader = reading(host, NUMBERS)
    host.broker.hset("weir:ch:in-s1.0:meta", "capacity", 2)
    until(lambda: host.source("s1").get("state") == "throttled", within_s=120, saying=lambda: host.report)
    assert host.broker.xlen("weir:ch:in-s1.0") == 3
    until(lambda: len(values(reader)) > 15_000, within_s=120, saying=lambda: host.report)
    require_each_once(reader)
    checkpoint = host.data_dir / "checkpoints" / "in-s1"
    assert checkpoint.exists()
    host.want()
    until(lambda: not host.report["connectors"] and not checkpoint.exists(), saying=lambda: host.report)
    until(lambda: not psutil.Process(host.process.pid).children(recursive=True))


def test_a_file_stream_of_sparks_is_read_and_what_does_not_work_is_told(host: Played, tmp_path: Path) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    (folder / "a.json").write_text('{"value": 1}\n{"value": 2}\n')
    json_task = Task("s2", "spark_source", {
        "source": "json", "options": {"path": str(folder)}, "schema": "value BIGINT", "columns": ["value:bigint"],
        "every": 0.2})
    reader = reading(host, json_task)
    until(lambda: sorted(values(reader)) == [1, 2], saying=lambda: host.report)
    wrong: dict[str, Any] = {
        "s3": {"source": "no-such-format", "columns": ["a"]}, "s4": {**NUMBERS.config, "columns": ["nothing"]},
        "s5": {"source": "rate", "columns": ["value"]}}
    host.want(fragment_of(json_task), *(
        fragment_of(Task(name, "spark_source", config), f"f1-{number}")
        for number, (name, config) in enumerate(wrong.items(), start=5)))
    for name, why in (("s3", "no-such-format"), ("s4", "gives no column nothing"), ("s5", "WEIR_SPARK_SOURCES")):
        until(lambda: why in (host.source(name).get("error") or ""), saying=lambda: json.dumps(host.report))  # noqa: B023
    (folder / "b.json").write_text('{"value": 3}\n')
    until(lambda: sorted(values(reader)) == [1, 2, 3], saying=lambda: host.report)
