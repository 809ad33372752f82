"""Measures what a handover costs on this machine: how long an output stands still, and how late its events come then.

    python -m workers.benches.handover [--repeats 6] [--rate 50] [--apart] [--json FILE]

A chain with state in two fragments is fused and cut, again and again, in an agent with two slots of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from scheduler.model.dataflow import Task
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from workers.engine import desired
from workers.engine.channels import codec, keys
from workers.engine.observed import read_reports
from workers.engine.settings import ROOT
from workers.library.registry import task_types
from workers.processes import spawn, stop

from .engine import Bench, _chain, _defaults, _until, bench

NODE = "bench"
OUT = "f1-1.1"  # where the output stays, whoever writes it
SETTLE_S = 5.0


class Chains:
    """An agent that runs one chain, in one fragment or in two."""

    def __init__(self, at: Bench, *, rate_per_s: float, apart: bool) -> None:
        self._broker = redis.Redis.from_url(at.url)
        chain = _every_event(_chain("state", rate_per_s))
        self._tasks = {
            task.id: RunningTask(task.id, task.type, task.config, (chain[n - 1].id,) if n else ())
            for n, task in enumerate(chain)
        }
        self._second_slot = f"{NODE}/{1 if apart else 0}"
        self._generation = 0
        self._inherits: tuple[str, ...] = ()
        env = {**os.environ, "REDIS_URL": at.url, "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", "workers.engine.agents.node", "--node", NODE, "--slots", "2", "--data-dir",
                str(at.folder)]
        self.agent = spawn(argv, env=env, stdout=subprocess.DEVNULL)

    def run(self, *, fused: bool) -> float:
        """Let the chain go on in this form; how long it took until it did, in seconds."""
        self._generation += 1
        tasks, name = tuple(self._tasks), f"f{self._generation}"
        out = {"out": OUT}
        if fused:
            fragments = [Fragment(f"{name}-0", tasks, f"{NODE}/0", 4, channels=out, inherits=self._inherits)]
        else:
            fragments = [
                Fragment(f"{name}-0", tasks[:2], f"{NODE}/0", 2, {tasks[1]: (f"{name}-1",)}, inherits=self._inherits),
                Fragment(f"{name}-1", tasks[2:], self._second_slot, 2, channels=out, inherits=self._inherits),
            ]
        estate = Estate(
            self._generation, self._tasks, fragments={fragment.id: fragment for fragment in fragments},
            slots=(Slot(NODE, 0), Slot(NODE, 1)),
        )
        began_s = time.monotonic()
        desired.publish(self._broker, desired.desired_of(estate, NODE, task_types()))
        names = {fragment.id for fragment in fragments}
        _until(lambda: self._running() == names, within_s=180)
        self._inherits = tuple(sorted(names))
        return time.monotonic() - began_s

    def blocks(self) -> list[tuple[int, int]]:
        """When each block of the output was written, and how old its oldest event was then (ms)."""
        rows = []
        for _, fields in self._broker.xrange(keys.channel(OUT)):
            written_ms = int(fields[b"t"])
            rows.append((written_ms, written_ms - codec.block_rows(fields[b"b"])[0]["_born"]))
        return rows

    def _running(self) -> set[str]:
        return {name for name, query in read_reports(self._broker).queries() if query.state == "running"}


def _every_event(chain: Sequence[Task]) -> list[Task]:
    """The chain with a filter in the average's place, which gives an event for each; all of them are kept."""
    average = Task("average", "kalman_filter", _defaults("kalman_filter"))
    return [*chain[:2], average, Task("out", "output", {**chain[-1].config, "keep_events": 200_000})]


def measure(at: Bench, *, repeats: int, rate_per_s: float, apart: bool) -> dict[str, Any]:
    """Fuse and cut so often; what the output shows of it.

    Parameters
    ----------
    at : Bench
        The node.
    repeats : int
        How often.
    rate_per_s : float
        Events per second.
    apart : bool
        Whether the halves are on two slots.
    """
    chains = Chains(at, rate_per_s=rate_per_s, apart=apart)
    results: dict[str, dict[str, list[float]]] = {}
    try:
        chains.run(fused=False)
        _until(chains.blocks, within_s=60)
        time.sleep(2 * SETTLE_S)
        for number in range(2 * repeats):
            fused = number % 2 == 0
            quiet = chains.blocks()
            began_ms = time.time_ns() // 1_000_000
            took_s = chains.run(fused=fused)
            time.sleep(SETTLE_S)
            during = [quiet[-1], *(block for block in chains.blocks() if block[0] > quiet[-1][0])]
            measured_runs = results.setdefault("fused" if fused else "cut", {})
            measured_runs.setdefault("took_s", []).append(took_s)
            stood = max(later[0] - earlier[0] for earlier, later in itertools.pairwise(during))
            measured_runs.setdefault("output_stood_still_s", []).append(stood / 1000)
            usual = statistics.median(age for written, age in quiet if written < began_ms)
            measured_runs.setdefault("latency_before_s", []).append(usual / 1000)
            measured_runs.setdefault("oldest_event_s", []).append(max(age for _, age in during) / 1000)
    finally:
        stop(chains.agent, timeout_s=10)
    return {
        what: {
            name: {"median": round(statistics.median(values), 2), "worst": round(max(values), 2), "times": len(values)}
            for name, values in measured_runs.items()
        }
        for what, measured_runs in results.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure handovers on this machine.")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--apart", action="store_true", help="the second fragment on the second slot")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    load_before = os.getloadavg()
    with bench() as at:
        results = measure(at, repeats=given.repeats, rate_per_s=given.rate, apart=given.apart)
    results["load_average"] = {"before": load_before[0], "after": os.getloadavg()[0]}
    print(json.dumps(results, indent=2))
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
