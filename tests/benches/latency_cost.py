"""What latency costs: small dataflows under one limit after the other, in a whole system on this machine."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.benches.arguments import count, positive
from tests.benches.latency_cost_estate import SYSTEM_PID
from tests.benches.results import machine, table, write
from workers.engine.worker_settings import ROOT
from workers.launcher.broker import free_port
from workers.processes import spawn, stop

READY_S = 600.0
LIMITS = ("none", "10 s", "5 s", "2 s", "500 ms", "100 ms", "20 ms")


@contextmanager
def system(data: Path, *, slots: int, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[Mapping[str, str]]:
    """A whole system in a folder, with more variables; the environment in which programs reach it."""
    variables = {key: value for key, value in os.environ.items() if key not in ("REDIS_URL", "DATABASE_URL")}
    environment = {**variables, "PYTHONPATH": str(ROOT), "WEIR_DATA_DIR": str(data), **more}
    with (data / "up.log").open("ab") as log:
        process = spawn(
            [sys.executable, "-P", "-m", "workers.launcher", "--slots", str(slots), "--port", str(free_port()),
             "--data-dir", str(data)], env=environment, cwd=ROOT, stdout=log)
    try:
        deadline = time.monotonic() + READY_S
        while "ready after" not in (text := (data / "up.log").read_text()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the system is not ready after {READY_S:.0f} s: {text[-2000:]}")
            time.sleep(0.5)
        yield {**environment, "REDIS_URL": (data / "broker" / "url").read_text().strip(), SYSTEM_PID: str(process.pid)}
    finally:
        stop(process, timeout_s=30)


def measure(
    limits: Sequence[str], *, dataflows: Sequence[int], slots: int, settle_s: float, seconds: float,
    is_built_in: bool = False,
) -> Iterator[dict[str, Any]]:
    """A row for each number of dataflows and limit, as soon as it is measured.

    Parameters
    ----------
    limits : sequence of str
        As documents have them.
    dataflows : sequence of int
        Beside the sample that a new installation runs; each number at least the one before it.
    slots : int
        Of the system.
    settle_s, seconds : float
        How long after each change of limits is measured, and for how long.
    is_built_in : bool, optional
        Whether dataflows have tasks of built-in expressions alone.
    """
    numbers = ",".join(map(str, dataflows))
    arguments = (*(("--built-in",) if is_built_in else ()), numbers, str(settle_s), str(seconds), *limits)
    program = (sys.executable, "-P", "-m", "tests.benches.latency_cost_estate", *arguments)
    with tempfile.TemporaryDirectory(prefix="weir-latency-") as name, \
            system(Path(name), slots=slots) as environment, \
            subprocess.Popen(program, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as estate:
        assert estate.stdout is not None
        for line in estate.stdout:
            yield json.loads(line)
    if estate.returncode:
        raise SystemExit(f"the dataflows ended with status {estate.returncode}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description="Run small dataflows of five tasks at 10 events/s each, which share nothing, under one latency "
                    "limit after the other: cores of all slots, latencies, and how many limits were promised and met.")
    parser.add_argument("--dataflows", type=count, default=40)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--built-in", action="store_true", help="tasks of built-in expressions alone: four a dataflow")
    parser.add_argument("--limits", nargs="+", default=list(LIMITS), help="as documents have them")
    parser.add_argument("--settle", type=positive, default=75.0, help="seconds after each change of limits")
    parser.add_argument("--seconds", type=positive, default=60.0, help="for which each limit is measured")
    parser.add_argument("--json", type=Path, default=Path("latency-cost.json"))
    given = parser.parse_args(arguments)
    results: dict[str, Any] = {"machine": machine(), "load_before": os.getloadavg()[0], "rows": []}
    for row in measure(given.limits, dataflows=[given.dataflows], slots=given.slots, settle_s=given.settle,
                       seconds=given.seconds, is_built_in=given.built_in):
        results["rows"].append(row)
        write(given.json, results | {"load_after": os.getloadavg()[0]})
        sys.stderr.write(f"{json.dumps(row)}\n")
    print(table(results["rows"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
