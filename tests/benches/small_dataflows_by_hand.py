"""Small dataflows as queries of plain PySpark, all in one session: what they take.

    python -m tests.benches.small_dataflows_by_hand DATAFLOWS[,DATAFLOWS…] SETTLE_S SECONDS LIMIT_S...

Writes a line of JSON for each number of dataflows and limit. The operators are those of Weir's task types, without
valves, channels and agents, and the state of folds is Spark's. Batches are half a limit apart; how late events are is
calculated from how long batches take.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import Any

from scheduler.model.dataflow import Task
from tests.benches.engine import Driver, bench
from tests.benches.latency_cost_estate import RATE_PER_S, document
from tests.benches.tree_usage import memory_mb, used_s
from workers.library.registry import resolve, task_types
from workers.library.state import going_on


def main() -> None:
    """Start, and measure under each limit."""
    counts, settle_s, seconds, *limits = sys.argv[1:]
    with bench() as at:
        driver = Driver(at)
        try:
            for count in map(int, counts.split(",")):
                for limit_s in map(float, limits):
                    running = [_started(driver, number, limit_s) for number in range(count)]
                    time.sleep(float(settle_s))
                    row = {"limit": f"{limit_s:g} s", "dataflows": count} | _measured(running, limit_s, float(seconds))
                    sys.stdout.write(json.dumps(row) + "\n")
                    sys.stdout.flush()
                    for query in running:
                        query.stop()
        finally:
            driver.spark.stop()


def _started(driver: Driver, number: int, limit_s: float) -> Any:
    source, *steps = document(number)["tasks"]
    types, trigger_ms = task_types(), round(500 * limit_s)
    frame = driver.spark.readStream.format("rate").option("rowsPerSecond", RATE_PER_S).option(
        "numPartitions", 1).load().selectExpr(
        "value AS _seq", "unix_millis(timestamp) AS _time", "unix_millis(timestamp) AS _born")
    for task in (Task(stated["id"], stated["type"], stated.get("config", {})) for stated in (source, *steps)):
        config = {parameter.name: parameter.default for parameter in types[task.type].parameters
                  if parameter.default is not None} | {"rate_per_s": RATE_PER_S} | dict(task.config)
        with going_on(task.id):
            frame = resolve(types[task.type])(frame, config)
    name = f"small-{number}-{limit_s:g}"
    return frame.writeStream.queryName(name).option(
        "checkpointLocation", str(driver.folder / "checkpoints" / name)).trigger(
        processingTime=f"{trigger_ms} milliseconds").format("noop").start()


def _measured(queries: list[Any], limit_s: float, seconds: float) -> dict[str, Any]:
    before_s, began_s, pids = used_s(os.getpid()), time.monotonic(), [os.getpid()]
    time.sleep(seconds)
    cores = (used_s(*pids) - before_s) / (time.monotonic() - began_s)
    took_ms = [progress["durationMs"].get("triggerExecution", 0) for query in queries
               for progress in query.recentProgress[-10:] if progress["numInputRows"]]
    wait_ms = 500 * limit_s / 2
    return {
        "cores": round(cores, 3), "memory_mb": round(memory_mb(*pids)),
        "p50_ms": round(wait_ms + statistics.median(took_ms)) if took_ms else None,
        "p99_ms": round(2 * wait_ms + max(took_ms)) if took_ms else None}


if __name__ == "__main__":
    main()
