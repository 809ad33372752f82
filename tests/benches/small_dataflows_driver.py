"""Small dataflows as queries of Weir in one driver, without agent and site: what they take, batch by batch or open.

    python -m tests.benches.small_dataflows_driver [--open] DATAFLOWS[,DATAFLOWS…] SETTLE_S SECONDS LIMIT_S...

Writes a line of JSON for each number of dataflows and limit. Batches are half a limit apart; with ``--open`` they stay
open, with groups of events as far apart as the limit, or 2 s, the longest that there is.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from typing import Any

import redis

from scheduler.latency.histograms import percentile_ms
from scheduler.latency.real_time import APARTS_S
from scheduler.model.dataflow import Task
from tests.benches.engine import Bench, Driver, bench
from tests.benches.latency_cost_estate import RATE_PER_S, document
from tests.benches.tree_usage import by_kind, memory_mb, used_s
from workers.engine.observed import read_meters
from workers.library.registry import task_types


def main() -> None:
    """Start, and measure under each limit."""
    stays_open = "--open" in sys.argv
    counts, settle_s, seconds, *limits = (text for text in sys.argv[1:] if text != "--open")
    with bench() as at:
        driver = Driver(at)
        try:
            for count in map(int, counts.split(",")):
                for turn, limit_s in enumerate(map(float, limits)):
                    names = [f"small-{number}-{count}-{turn}" for number in range(count)]
                    trigger_ms = round(1000 * min(limit_s, APARTS_S[-1]) if stays_open else 500 * limit_s)
                    running = [
                        driver.start(name, _tasks(number), trigger_ms=trigger_ms, real_time=stays_open)
                        for number, name in enumerate(names)]
                    time.sleep(float(settle_s))
                    row = {"limit": f"{limit_s:g} s", "dataflows": count} | _measured(at, names, float(seconds))
                    sys.stdout.write(json.dumps(row) + "\n")
                    sys.stdout.flush()
                    for name, query in zip(names, running, strict=True):
                        driver.stop(name, query)
        finally:
            driver.spark.stop()


def _tasks(number: int) -> tuple[Task, ...]:
    types = task_types()
    tasks = []
    for stated in document(number)["tasks"]:
        defaults = {parameter.name: parameter.default for parameter in types[stated["type"]].parameters
                    if parameter.default is not None}
        rate = {"rate_per_s": RATE_PER_S} if types[stated["type"]].kind == "source" else {}
        tasks.append(Task(stated["id"], stated["type"], defaults | rate | stated.get("config", {})))
    return tuple(tasks)


def _measured(at: Bench, names: list[str], seconds: float) -> dict[str, Any]:
    last = len(document(0)["tasks"]) - 1
    with redis.Redis.from_url(at.url) as broker:
        before, before_s, began_s = read_meters(broker, names), used_s(os.getpid()), time.monotonic()
        parts = by_kind(os.getpid())
        time.sleep(seconds)
        cores = (used_s(os.getpid()) - before_s) / (time.monotonic() - began_s)
        parts_taken, after = by_kind(os.getpid()).since(parts), read_meters(broker, names)
    latency: Counter[int] = Counter()
    prefix = f"{last}:lat:"
    for name in names:
        for field, total in after.counts[name].items():
            if field.startswith(prefix):
                latency[int(field.removeprefix(prefix))] += total - before.counts[name].get(field, 0)
    p50, p99 = (percentile_ms(latency, share) for share in (0.5, 0.99))
    return {
        "cores": round(cores, 3), "memory_mb": round(memory_mb(os.getpid())), **parts_taken,
        "p50_ms": None if p50 is None else round(p50), "p99_ms": None if p99 is None else round(p99)}


if __name__ == "__main__":
    main()
