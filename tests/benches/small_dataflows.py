"""Small dataflows on Weir, on Apache Flink and as plain queries of PySpark: cores, memory, latency.

Each is a generator of ten messages a second, JSON, parse, range, the average of ten readings by key. Weir is a whole
system of which slots are counted, and its site apart; Flink has one JobManager and one TaskManager, checkpoints every
five seconds on disk, and event by event no limit to set; PySpark has one session. The drivers are one of Weir's without
agent and site, with a batch twice in a limit, and with batches that stay open. One side runs at a time. The jobs are
alike and not the same: a direction, not a factor.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benches import latency_cost
from tests.benches.arguments import count, positive
from tests.benches.flink.cluster import flink
from tests.benches.latency_cost_estate import RATE_PER_S
from tests.benches.results import machine, table, write
from tests.benches.tree_usage import memory_mb, used_s
from workers.engine.worker_settings import ROOT

COLUMNS = (
    "side", "dataflows", "limit", "cores", "times_flink", "further_mcores", "memory_mb", "p50_ms", "p99_ms",
    "started_s", "promised", "met")
PARTS = ("driver", "slot", "fold_host", "workers")  # of a slot: cores and memory of each


def weir(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each number of dataflows and limit, in a system of its own."""
    yield from latency_cost.measure(
        given.limits, dataflows=given.dataflows, slots=given.slots, settle_s=given.warm, seconds=given.seconds)


def by_flink(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each number of dataflows."""
    for dataflows in given.dataflows:
        with tempfile.TemporaryDirectory(prefix="weir-flink-") as name, \
                flink(Path(name), slots=dataflows) as cluster:
            began_s = time.monotonic()
            ages = cluster.submit(dataflows, RATE_PER_S)
            started_s = time.monotonic() - began_s
            time.sleep(given.warm)
            pids = (cluster.job_manager, cluster.task_manager)
            before, from_ms, began_s = [used_s(pid) for pid in pids], 1000 * time.time(), time.monotonic()
            time.sleep(given.seconds)
            past_s = time.monotonic() - began_s
            manager, tasks = ((used_s(pid) - was) / past_s for pid, was in zip(pids, before, strict=True))
            yield {
                "limit": "–", "dataflows": dataflows, "started_s": round(started_s, 1),
                "cores": round(manager + tasks, 3), "job_manager_cores": round(manager, 3),
                "memory_mb": round(memory_mb(*pids)), **_percentiles(ages, from_ms)}


def in_one_driver(module: str, *options: str, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each number of dataflows and limit, in one driver of a process of its own."""
    program = (
        sys.executable, "-P", "-m", f"tests.benches.{module}", *options, ",".join(map(str, given.dataflows)),
        str(given.warm), str(given.seconds), *(limit.removesuffix(" s") for limit in given.limits))
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as queries:
        assert queries.stdout is not None
        for line in queries.stdout:
            yield json.loads(line)
    if queries.returncode:
        raise SystemExit(f"the queries in one driver ended with status {queries.returncode}")


SIDES: dict[str, Callable[[argparse.Namespace], Iterator[dict[str, Any]]]] = {
    "Weir": weir, "Flink": by_flink,
    "PySpark": lambda given: in_one_driver("small_dataflows_by_hand", given=given),
    "driver": lambda given: in_one_driver("small_dataflows_driver", given=given),
    "open driver": lambda given: in_one_driver("small_dataflows_driver", "--open", given=given)}


def compared(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with what they come to beside one another.

    ``times_flink`` is the CPU as a multiple of Flink's with as many dataflows, in the same round where there is one;
    ``further_mcores`` what each further dataflow took in thousandths of a core, beside the row of the same side, limit
    and round with the next fewer dataflows.
    """
    flink = {(row["dataflows"], row["round"]): row["cores"] for row in rows if row["side"] == "Flink"}
    flink |= {(number, None): cores for (number, _), cores in flink.items()}
    out = []
    for row in rows:
        beside = flink.get((row["dataflows"], row["round"]), flink.get((row["dataflows"], None)))
        fewer = [other for other in rows if other["dataflows"] < row["dataflows"] and all(
            other[key] == row[key] for key in ("side", "limit", "round"))]
        less = max(fewer, key=lambda other: other["dataflows"], default=None)
        out.append({
            **row, "times_flink": round(row["cores"] / beside, 2) if beside else None,
            "further_mcores": None if less is None else round(
                1000 * (row["cores"] - less["cores"]) / (row["dataflows"] - less["dataflows"]), 1)})
    return out


def _percentiles(ages: Path, from_ms: float) -> dict[str, int | None]:
    noted = [tuple(map(int, line.split())) for path in ages.iterdir() for line in path.read_text().splitlines()]
    late = [age for at, age in noted if at >= from_ms]
    if len(late) < 2:
        return {"p50_ms": None, "p99_ms": None}
    return {"p50_ms": round(statistics.median(late)), "p99_ms": round(statistics.quantiles(late, n=100)[98])}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description="Run small dataflows on Weir, on Apache Flink (installed the first time, 330 MB) and as plain "
                    "queries of PySpark, one side after the other: cores, memory, how late results are.")
    parser.add_argument("--sides", nargs="+", choices=tuple(SIDES), default=list(SIDES))
    parser.add_argument("--dataflows", nargs="+", type=count, default=[40], help="ascending, as 1 10 40")
    parser.add_argument("--limits", nargs="+", default=["5 s", "1 s"], help="seconds, as documents have them")
    parser.add_argument("--slots", type=count, default=2, help="of Weir")
    parser.add_argument("--warm", type=positive, default=150.0, help="seconds before each measurement")
    parser.add_argument("--seconds", type=positive, default=60.0, help="of each measurement")
    parser.add_argument("--rounds", type=count, default=1, help="each in the opposite order of the one before")
    parser.add_argument("--json", type=Path, default=Path("small-dataflows.json"))
    given = parser.parse_args(arguments)
    results: dict[str, Any] = {"machine": machine(), "load_before": os.getloadavg()[0], "rows": []}
    for number in range(given.rounds):
        for side in given.sides if number % 2 == 0 else reversed(given.sides):
            for row in SIDES[side](given):
                results["rows"].append({"side": side, "round": number, **row})
                write(given.json, results | {"load_after": os.getloadavg()[0]})
                sys.stderr.write(f"{json.dumps(results['rows'][-1])}\n")
    rows = compared(results["rows"])
    write(given.json, results | {"rows": rows, "load_after": os.getloadavg()[0]})
    print(table([{column: row.get(column) for column in COLUMNS} for row in rows]))
    if parts := [row for row in rows if "driver_mb" in row]:
        columns = ("side", "dataflows", "limit", *(f"{part}_{what}" for what in ("cores", "mb") for part in PARTS))
        print("\nOf slots, by process:\n" + table([{column: row[column] for column in columns} for row in parts]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
