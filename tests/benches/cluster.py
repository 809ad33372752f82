"""Measures what batches take on a Spark cluster's executors, against those of a local slot.

    python -m tests.benches.cluster [--repeats 6] [--seconds 10] [--rate 50] [--trigger 200] [--log FILE]
        [--json FILE]

A cluster of two workers and two nodes of one slot each, all on this machine: one node's slot runs here, the other's on
the cluster. Both run the same chains, one at a time, in turn: all others are paused meanwhile. The order changes from
turn to turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from scheduler.contracts.reports import QueryReport
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from workers.engine import desired_publishing
from workers.engine.channels.channel_registry import Channels
from workers.engine.observed import read_reports
from workers.engine.worker_settings import ROOT
from workers.launcher.spark_cluster import Cluster, free_port, running
from workers.library.registry import task_types
from workers.processes import spawn, stop

from .arguments import count, positive
from .engine import Bench, _chain, _until, bench, cpu_s

SIDES = LOCAL, CLUSTER = "local", "cluster"
KINDS = {"sql": "SQL only", "python": "a Python stage", "state": "state in Python"}
READY_WITHIN_S, SETTLE_S, LOOK_S = 900.0, 3.0, 0.2
GOAL = 2.0  # times what a batch takes locally


@dataclass
class Figures:
    """Of one chain on one side: what newest batches took, and all of them, in ms, without the wait for events."""

    batches_ms: list[float] = field(default_factory=list)
    phases_ms: dict[str, list[float]] = field(default_factory=dict)
    batches: int = 0
    busy_ms: int = 0
    cpu_s: float = 0.0

    def summary(self) -> dict[str, Any]:
        """Medians, means over all batches (of CPU that of all processes of the side), and how many they were."""
        return {
            "median_ms": round(statistics.median(self.batches_ms)), "mean_ms": round(self.busy_ms / self.batches),
            "cpu_ms": round(1000 * self.cpu_s / self.batches), "batches": self.batches,
            "phases_ms": {phase: round(statistics.median(values)) for phase, values in self.phases_ms.items()}}


class Sides:
    """Two nodes with the same chains; one chain of one node works at a time."""

    def __init__(self, at: Bench, pids: Mapping[str, Sequence[int]], *, rate_per_s: float, trigger_ms: int) -> None:
        self._pids = pids
        self._broker = redis.Redis.from_url(at.url)
        self._channels = Channels(self._broker)
        tasks, fragments = {}, {}
        for side in SIDES:
            for kind in KINDS:
                chain = _chain(kind, rate_per_s)
                names = [f"{side}-{kind}-{task.id}" for task in chain]
                for number, (name, task) in enumerate(zip(names, chain, strict=True)):
                    tasks[name] = RunningTask(name, task.type, task.config, (names[number - 1],) if number else ())
                fragments[name] = Fragment(f"{side}-{kind}", tuple(names), f"{side}/0", len(names), {})
        estate = Estate(
            1, tasks, fragments={fragment.id: fragment for fragment in fragments.values()},
            slots=tuple(Slot(side, 0) for side in SIDES))
        for side in SIDES:
            desired_publishing.publish(
                self._broker, desired_publishing.desired_of(estate, side, task_types(), trigger_ms))

    def await_all(self) -> None:
        """Wait until every chain has done batches, then pause all."""
        names = {f"{side}-{kind}" for side in SIDES for kind in KINDS}
        _until(lambda: all(
            name in self._queries() and self._queries()[name].batches > 20 for name in names), within_s=READY_WITHIN_S)
        for name in names:
            self._channels.pause(name)

    def measure(self, name: str, figures: Figures, *, seconds: float) -> None:
        """Let one chain work for so long, after a moment in which it makes up for its pause."""
        self._channels.resume(name)
        time.sleep(SETTLE_S)
        side = name.partition("-")[0]
        first, seen, cpu_before_s = self._queries()[name], set(), self._cpu_s(side)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            query = self._queries()[name]
            if query.batch not in seen and query.batch_ms:
                seen.add(query.batch)
                figures.batches_ms.append(query.batch_ms - query.phases_ms.get("asking", 0))
                for phase, phase_ms in query.phases_ms.items():
                    figures.phases_ms.setdefault(phase, []).append(phase_ms)
            time.sleep(LOOK_S)
        last = self._queries()[name]
        figures.cpu_s += self._cpu_s(side) - cpu_before_s
        figures.batches += last.batches - first.batches
        figures.busy_ms += last.busy_ms - first.busy_ms
        self._channels.pause(name)
        time.sleep(1.0)

    def _cpu_s(self, side: str) -> float:
        return sum(cpu_s(pid) for pid in self._pids[side])

    def _queries(self) -> dict[str, QueryReport]:
        return dict(read_reports(self._broker).queries())


@contextmanager
def agents(at: Bench, cluster: Cluster, *, log: Path | None) -> Iterator[dict[str, int]]:
    """An agent of each side, with one slot; their processes."""
    env = {**os.environ, "REDIS_URL": at.url, "PYTHONPATH": str(ROOT), "WEIR_PIN": "never", "WEIR_CLASS_ARCHIVE": "0"}
    on_cluster = {"WEIR_SPARK_MASTER": cluster.url, "SPARK_CONF_DIR": str(cluster.conf)}
    processes = {}
    try:
        for side in SIDES:
            argv = [
                sys.executable, "-m", "workers.engine.agents.node_agent", "--node", side, "--slots", "1", "--data-dir",
                    str(at.folder)]
            with open(log or os.devnull, "ab") as output:
                processes[side] = spawn(argv, env=env | (on_cluster if side == CLUSTER else {}), stdout=output)
        yield {side: process.pid for side, process in processes.items()}
    finally:
        for process in processes.values():
            stop(process, timeout_s=10)


def measure(sides: Sides, *, repeats: int, seconds: float) -> dict[str, Any]:
    """Each chain on both sides in turn; by kind and side what its batches took, and how many times as long.

    Parameters
    ----------
    sides : Sides
        What runs.
    repeats : int
        How often each chain is let work on each side.
    seconds : float
        For how long.
    """
    figures = {(kind, side): Figures() for kind in KINDS for side in SIDES}
    sides.await_all()
    for turn in range(repeats):
        for kind in KINDS:
            for side in SIDES if turn % 2 == 0 else reversed(SIDES):
                sides.measure(f"{side}-{kind}", figures[kind, side], seconds=seconds)
    results = {}
    for kind, words in KINDS.items():
        of_sides = {side: figures[kind, side].summary() for side in SIDES}
        ratio = of_sides[CLUSTER]["median_ms"] / of_sides[LOCAL]["median_ms"]
        results[words] = {**of_sides, "ratio": round(ratio, 2), "goal": GOAL}
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Compare batches of a Spark cluster with those of a local slot.")
    parser.add_argument("--repeats", type=count, default=6)
    parser.add_argument("--seconds", type=positive, default=10.0, help="measured in each turn")
    parser.add_argument("--rate", type=positive, default=50.0, help="events/s")
    parser.add_argument("--trigger", type=count, default=200, help="ms between batches")
    parser.add_argument("--log", type=Path, help="what agents and slots log goes there")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    load_before = os.getloadavg()
    with bench() as at:
        cluster = Cluster(
            at.folder / "spark-cluster", port=free_port("127.0.0.1"), web_port=free_port("127.0.0.1"))
        with running(cluster) as processes, agents(at, cluster, log=given.log) as of_agents:
            workers = [process.pid for process in processes.values()]
            pids = {LOCAL: [of_agents[LOCAL]], CLUSTER: [of_agents[CLUSTER], *workers]}
            sides = Sides(at, pids, rate_per_s=given.rate, trigger_ms=given.trigger)
            results = measure(sides, repeats=given.repeats, seconds=given.seconds)
    print(f"A batch, ms: its median, and the CPU of all processes. Goal: {GOAL:g} times as long at most.")
    print(f"{'':<18}{'local':>8}{'cluster':>8}{'times':>7}{'CPU local':>12}{'cluster':>8}")
    for words, row in results.items():
        local, on_cluster = row[LOCAL], row[CLUSTER]
        print(f"{words:<18}{local['median_ms']:>8}{on_cluster['median_ms']:>8}{row['ratio']:>7}"
              f"{local['cpu_ms']:>12}{on_cluster['cpu_ms']:>8}")
    results["load_average"] = {"before": load_before[0], "after": os.getloadavg()[0]}
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
