"""`./weir bench core-second`: events of one core-second of a job that much passes through, on Weir, Flink SQL, PySpark.

The job reads a recording of JSON lines, parses, filters, and averages by sensor in windows of ten seconds of event
time; what comes out is dropped, on Weir published. Each side has one reader, does the job once to be warm, and then a
few times more: events by the CPU seconds of all its processes, compilers included, of Weir the broker too. Weir keeps
a recording as Arrow from the first time on, the others read lines each time; Flink's client counts nowhere.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import redis

from scheduler.model.canonical import canonical_config
from scheduler.model.dataflow import Task
from tests.benches.arguments import count
from tests.benches.engine import Driver, bench
from tests.benches.flink.cluster import flink
from tests.benches.results import machine, table, write
from tests.benches.tree_usage import used_s
from workers.engine.observed import read_meters
from workers.library.registry import task_types

SENSORS, FILES, WINDOW_S = 100, 10, 10
LOWEST, HIGHEST = 10.0, 30.0
BEGINS_MS = 1_700_000_000_000
TRIGGER_MS = 1000
ENDS_WITHIN_S = 600.0
# A folder of files, in the order of their names and of when they were written; and all of it in one file of another
# folder, for Flink reads files in any order, and a window whose end has passed takes no more.
RECORDING, WHOLE = "readings", "whole"
CHAIN = (
    ("replay", {"path": RECORDING, "format": "json", "time_column": "at", "rate_per_s": 1_000_000.0}),
    ("json_parse", {"field": "json", "columns": ["sensor", "value:double", "at:bigint"]}),
    ("range_filter", {"ranges": {"value": [LOWEST, HIGHEST]}}),
    ("window", {"size": WINDOW_S, "by": ["sensor"], "aggregates": ["mean=avg(value)"]}),
    ("output", {"name": "means"}))
PARSED = "sensor string, value double, at bigint"


def record(folder: Path, events: int, *, seed: int = 42) -> int:
    """Write a reading a millisecond as JSON lines; how many averages come of it before its last windows."""
    rng, windows = random.Random(seed), set()
    (folder / RECORDING).mkdir()
    for number in range(FILES):
        with (folder / RECORDING / f"{number}.json").open("w") as file:
            for at_ms in range(BEGINS_MS + events * number // FILES, BEGINS_MS + events * (number + 1) // FILES):
                reading = {
                    "sensor": f"sensor-{rng.randrange(SENSORS)}", "value": round(rng.gauss(20, 5), 3), "at": at_ms}
                file.write(json.dumps(reading) + "\n")
                if LOWEST <= reading["value"] <= HIGHEST:
                    windows.add((at_ms // (1000 * WINDOW_S), reading["sensor"]))
        os.utime(folder / RECORDING / f"{number}.json", (BEGINS_MS / 1000 + number,) * 2)
    (folder / WHOLE).mkdir()
    with (folder / WHOLE / "readings.json").open("wb") as whole:
        for number in range(FILES):
            with (folder / RECORDING / f"{number}.json").open("rb") as file:
                shutil.copyfileobj(file, whole)
    last = max(window for window, _ in windows)
    return sum(window < last for window, _ in windows)


def on_weir(folder: Path, events: int, results: int, rounds: int) -> list[float]:
    """CPU seconds of each round."""
    os.environ["WEIR_REPLAY_DIRS"] = str(folder)
    tasks = tuple(Task(name, name, canonical_config(task_types()[name], config)) for name, config in CHAIN)
    with bench() as at, redis.Redis.from_url(at.url) as broker:
        driver = Driver(at)

        def run(number: int) -> None:
            name = f"core-second-{number}"
            query = driver.start(name, tasks, trigger_ms=TRIGGER_MS)
            deadline_s, done = time.monotonic() + ENDS_WITHIN_S, (0, 0)
            while done[0] < events or done[1] < results:
                if not query.isActive or time.monotonic() > deadline_s:
                    raise RuntimeError(f"{done} events and averages of {events} and {results}: {query.exception()}")
                time.sleep(0.1)
                counts = read_meters(broker, [name]).counts[name]
                done = counts.get("0:n", 0), counts.get("3:n", 0)
            driver.stop(name, query)
            if done[1] != results:
                raise RuntimeError(f"{done[1]} averages, where {results} come of the recording")

        try:
            return list(_seconds_taken(run, rounds, os.getpid()))
        finally:
            driver.spark.stop()


def on_pyspark(folder: Path, events: int, results: int, rounds: int) -> list[float]:
    """CPU seconds of each round."""
    with bench() as at:
        driver = Driver(at)
        from pyspark.sql import functions as F

        def run(number: int) -> None:
            read = driver.spark.readStream.schema(PARSED).option("maxFilesPerTrigger", 1).json(str(folder / RECORDING))
            means = read.where(F.col("value").between(LOWEST, HIGHEST)).withColumn(
                "time", F.timestamp_millis("at")).withWatermark("time", "0 seconds").groupBy(
                F.window("time", f"{WINDOW_S} seconds"), "sensor").agg(F.avg("value"))
            query = means.writeStream.format("noop").outputMode("append").option(
                "checkpointLocation", str(at.folder / f"by-hand-{number}")).trigger(availableNow=True).start()
            if not query.awaitTermination(ENDS_WITHIN_S):
                raise TimeoutError(f"the query by hand has not read {events} events")

        try:
            return list(_seconds_taken(run, rounds, os.getpid()))
        finally:
            driver.spark.stop()


def on_flink(folder: Path, events: int, results: int, rounds: int) -> list[float]:
    """CPU seconds of each round."""
    with tempfile.TemporaryDirectory(prefix="weir-flink-") as name, flink(Path(name), slots=1) as cluster:
        program = cluster.compiled("CoreSecond")
        arguments = (str(folder / WHOLE), str(LOWEST), str(HIGHEST), str(WINDOW_S))
        return list(_seconds_taken(
            lambda number: cluster.run(program, *arguments), rounds, cluster.job_manager, cluster.task_manager))


def _seconds_taken(run: Callable[[int], None], rounds: int, *pids: int) -> Iterator[float]:
    """CPU seconds of the processes for each round after the first, which makes them warm."""
    for number in range(rounds + 1):
        before_s = used_s(*pids)
        run(number)
        if number:
            yield used_s(*pids) - before_s


SIDES = {"Weir": on_weir, "PySpark": on_pyspark, "Flink SQL": on_flink}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description="Parse, filter and average by windows what a recording has, on Weir, as plain PySpark and as Flink "
                    "SQL (installed the first time, 330 MB), one side after the other: events of a core-second.")
    parser.add_argument("--sides", nargs="+", choices=tuple(SIDES), default=list(SIDES))
    parser.add_argument("--events", type=count, default=1_000_000)
    parser.add_argument("--rounds", type=count, default=3, help="of each side, after one that makes it warm")
    parser.add_argument("--json", type=Path, default=Path("core-second.json"))
    given = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    document: dict[str, Any] = {"machine": machine(), "load_before": os.getloadavg()[0], "rows": rows}
    with tempfile.TemporaryDirectory(prefix="weir-core-second-") as name:
        results = record(Path(name), given.events)
        for side in given.sides:
            # A process each: what one side has loaded is not there for the next.
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
                taken = process.submit(SIDES[side], Path(name), given.events, results, given.rounds).result()
            rates = [given.events / seconds for seconds in taken]
            rows.append({"side": side, "events a core-second": round(statistics.median(rates)),
                         "least": round(min(rates)), "most": round(max(rates))})
            write(given.json, document | {"load_after": os.getloadavg()[0]})
    print(table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
