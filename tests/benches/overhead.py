"""What Weir adds: a dataflow as one query of Weir, against the same operators in a query that is written by hand.

Both run in the same driver, one after the other, in alternating order, with batches as far apart and as large. By hand
there is one of Spark's rate sources and a sink that drops everything; Weir has its own source, a valve behind a task,
and a channel in which the output is published. Neither has an agent beside it. For CPU the source by hand is
``rate-micro-batch``, which has events for each batch: ``rate`` has new ones once a second only, so that half of the
batches were left out, and their cost, with batches half a second apart.

CPU is without that of the JVM's compilers, which stands beside it: they work for minutes after code has begun to run,
as much as the code itself, and in runs of seconds that was most of what one side seemed to take more than the other.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from scheduler.model.dataflow import Task
from tests.benches.arguments import positive
from tests.benches.engine import Bench, Driver, bench
from tests.benches.results import machine, table, write
from workers.engine.measuring.load import TreeLoad
from workers.library.registry import resolve, task_types
from workers.library.state import going_on

BY_HAND, WEIR, CLOSED = "by hand", "Weir", "Weir, output closed"
SIDES = (BY_HAND, WEIR, CLOSED)
WAITS_S = 120  # for a first batch, for an end, and for batches that take longer than a run
FEWEST_BATCHES = 2  # of a run
ABOVE_PEAK = 1.5  # so much more than by hand was done in a first try: with far more each batch is longer than the last
FLOWS: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]] = {
    "ETL": (
        ("senml_parse", {"schema": "urban"}), ("range_filter", {"ranges": {"temperature": [-12.5, 43.1]}}),
        ("interpolate", {"window": 5}), ("join_by_message", {}), ("annotate", {}), ("csv_to_senml", {})),
    "STATS": (("senml_parse", {"schema": "urban"}), ("kalman_filter", {}), ("block_average", {"window": 10})),
    "pi": (("pi_viete", {}),)}


@dataclass(frozen=True, slots=True)
class Run:
    """CPU seconds of a time, the events of the batches that ended meanwhile, and how long these were at work.

    ``compilers_s`` is what the JVM's compilers took besides, and ``batches`` how many ended.
    """

    cpu_s: float
    events: int
    busy_s: float
    compilers_s: float = 0.0
    batches: int = 0

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of an event."""
        return 1e6 * self.cpu_s / self.events

    @property
    def per_busy_s(self) -> float:
        """Events of a second of work."""
        return self.events / self.busy_s


Runs = Mapping[str, Sequence[Run]]


def chain_of(flow: str, *, rate_per_s: float) -> tuple[Task, ...]:
    """The tasks of a flow from its source to its output."""
    source = Task("source", "urban_sensing", {**_defaults("urban_sensing"), "rate_per_s": rate_per_s})
    middle = [Task(f"task-{at}", name, {**_defaults(name), **config}) for at, (name, config) in enumerate(FLOWS[flow])]
    return (source, *middle, Task("out", "output", {**_defaults("output"), "name": "out"}))


class Sides:
    """Starts a chain in one driver, by hand or as Weir does."""

    def __init__(self, at: Bench) -> None:
        self.driver = Driver(at)
        # One that is stopped in its first batches loads classes: beside other work that takes longer than in a slot.
        self.driver.spark.conf.set("spark.sql.streaming.stopTimeout", f"{WAITS_S}s")
        self._at, self._number = at, 0

    def run(
        self, side: str, tasks: tuple[Task, ...], *, trigger_ms: int, warm_s: float, seconds: float,
        is_even: bool = True,
    ) -> Run:
        """Run one side for a while.

        Parameters
        ----------
        side : str
            One of `SIDES`.
        tasks : tuple of Task
            The chain.
        trigger_ms : int
            Between its batches.
        warm_s, seconds : float
            For how long it runs before it is measured, and how long that takes.
        is_even : bool, optional
            By hand, whether each batch has as many events, whenever it comes.
        """
        self._number += 1
        name = f"overhead-{self._number}"
        query, stop = self._by_hand(name, tasks, trigger_ms, is_even) if side == BY_HAND else self._weir(
            name, tasks, trigger_ms, is_open=side == WEIR)
        try:
            _await_events(query)
            time.sleep(warm_s)
            loads = [TreeLoad(os.getpid()), TreeLoad(self._at.broker_pid)]
            for load in loads:
                load.cpu_s()
            compiled_s = loads[0].compilers_s
            events, busy_s, batches = followed(lambda: query.lastProgress, seconds=seconds)
            taken_s = sum(load.cpu_s() for load in loads)
        finally:
            stop()
        if not events:
            raise TimeoutError(f"no batch ended within {WAITS_S} s")
        return Run(taken_s, events, busy_s, loads[0].compilers_s - compiled_s, batches)

    def close(self) -> None:
        """End the driver."""
        self.driver.spark.stop()

    def _by_hand(
        self, name: str, tasks: Sequence[Task], trigger_ms: int, is_even: bool
    ) -> tuple[Any, Callable[[], None]]:
        frame = self._events_by_hand(tasks[0].config["rate_per_s"], trigger_ms, is_even).selectExpr(
            "value AS _seq", "unix_millis(timestamp) AS _time", "unix_millis(timestamp) AS _born")
        for task in tasks:
            with going_on(task.id, inherited=None):
                frame = resolve(task_types()[task.type])(frame, dict(task.config))
        query = frame.writeStream.queryName(name).outputMode("append").option(
            "checkpointLocation", str(self.driver.folder / "checkpoints" / name)).trigger(
            processingTime=f"{trigger_ms} milliseconds").format("noop").start()
        return query, query.stop

    def _events_by_hand(self, rate_per_s: float, trigger_ms: int, is_even: bool) -> DataFrame:
        """Events with a number and a time: as many for each batch, or by the clock."""
        reader = self.driver.spark.readStream.option("numPartitions", 1)
        if not is_even:
            return reader.format("rate").option("rowsPerSecond", round(rate_per_s)).load()
        return reader.format("rate-micro-batch").option(
            "rowsPerBatch", max(1, round(rate_per_s * trigger_ms / 1000))).option(
            "advanceMillisPerBatch", trigger_ms).load()

    def _weir(
        self, name: str, tasks: tuple[Task, ...], trigger_ms: int, *, is_open: bool
    ) -> tuple[Any, Callable[[], None]]:
        query = self.driver.start(name, tasks, trigger_ms=trigger_ms, is_open=is_open)
        return query, lambda: self.driver.stop(name, query)


def _await_events(query: Any) -> None:
    """Wait until a query has done a batch with events."""
    deadline = time.monotonic() + WAITS_S
    while not ((progress := query.lastProgress) and progress["numInputRows"]):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no batch with events ended within {WAITS_S} s")
        time.sleep(0.1)


def followed(newest: Callable[[], Any], *, seconds: float, longest_s: float = WAITS_S) -> tuple[int, float, int]:
    """The events of all batches that end within a time, for how long they were at work, and how many they are.

    Where fewer than two end, the time is longer, up to ``longest_s``.
    """
    seen: dict[int, tuple[int, float]] = {}
    first = newest()
    skipped = None if first is None else first["batchId"]
    began = time.monotonic()
    while (past_s := time.monotonic() - began) < seconds or (len(seen) < FEWEST_BATCHES and past_s < longest_s):
        progress = newest()
        if progress is not None and progress["batchId"] != skipped and progress["numInputRows"]:
            took = progress["durationMs"]
            seen[progress["batchId"]] = (
                progress["numInputRows"], (took.get("triggerExecution", 0) - took.get("latestOffset", 0)) / 1000)
        time.sleep(0.02)
    return sum(events for events, _ in seen.values()), sum(busy_s for _, busy_s in seen.values()), len(seen)


def compared(calm: Runs, saturated: Runs) -> list[dict[str, Any]]:
    """A row for each side: medians of CPU of an event and of the peak rate; both against by hand, round by round."""
    rows = []
    base_us = [run.cpu_us for run in calm[BY_HAND]]
    base_peak = [run.per_busy_s for run in saturated[BY_HAND]]
    for side in SIDES:
        cpu_us = [run.cpu_us for run in calm[side]]
        peak = [run.per_busy_s for run in saturated[side]]
        rows.append({
            "side": side, "CPU us an event": round(statistics.median(cpu_us), 1),
            "more CPU": _percent([with_more / base for with_more, base in zip(cpu_us, base_us, strict=True)]),
            "events a batch": round(statistics.median(run.events / max(1, run.batches) for run in calm[side])),
            "ms a batch": round(statistics.median(1000 * run.cpu_s / max(1, run.batches) for run in calm[side])),
            "compilers ms a batch": round(
                statistics.median(1000 * run.compilers_s / max(1, run.batches) for run in calm[side])),
            "peak events/s": round(statistics.median(peak)),
            "lower peak": _percent([base / with_more for with_more, base in zip(peak, base_peak, strict=True)])})
    return rows


def measure(
    flow: str, *, rate_per_s: float, peak_per_s: float, trigger_ms: int, seconds: float, rounds: int
) -> list[dict[str, Any]]:
    """Measure one dataflow on all sides.

    Parameters
    ----------
    flow : str
        One of `FLOWS`.
    rate_per_s, peak_per_s : float
        Events/s of the source for CPU, and for the peak at most: it is half as much again as by hand was done of that.
    trigger_ms : int
        Between the batches.
    seconds : float
        Of each run, after half as long to warm up.
    rounds : int
        Of all sides, each in another order.
    """
    calm: dict[str, list[Run]] = {side: [] for side in SIDES}
    saturated: dict[str, list[Run]] = {side: [] for side in SIDES}
    usual = chain_of(flow, rate_per_s=rate_per_s)
    with bench() as at:
        sides = Sides(at)
        try:
            for side in SIDES:  # code is compiled, Python's workers are there
                sides.run(side, usual, trigger_ms=trigger_ms, warm_s=1, seconds=seconds / 2)
            tried = sides.run(
                BY_HAND, chain_of(flow, rate_per_s=peak_per_s), trigger_ms=trigger_ms, warm_s=0, seconds=1)
            most = chain_of(flow, rate_per_s=min(peak_per_s, ABOVE_PEAK * max(rate_per_s, tried.per_busy_s)))
            for number in range(rounds):
                for side in SIDES[number % 3:] + SIDES[: number % 3]:
                    for tasks, runs in ((usual, calm), (most, saturated)):
                        runs[side].append(sides.run(
                            side, tasks, trigger_ms=trigger_ms, warm_s=seconds / 2, seconds=seconds,
                            is_even=tasks is usual))
        finally:
            sides.close()
    return [{"dataflow": flow, **row} for row in compared(calm, saturated)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description="Run a dataflow as one query of Weir, and the same operators by hand in one query of Spark, in one "
                    "driver, alternating: CPU of an event (the JVM's compilers apart), and how many events a second "
                    "of work does at the most.")
    parser.add_argument("--flows", nargs="+", choices=tuple(FLOWS), default=list(FLOWS))
    parser.add_argument("--rate", type=positive, default=500.0, help="events/s, for CPU")
    parser.add_argument("--peak", type=positive, default=20_000.0, help="events/s that no side can do")
    parser.add_argument("--trigger-ms", type=int, default=1000)
    parser.add_argument("--seconds", type=positive, default=15.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("overhead.json"))
    given = parser.parse_args(arguments)
    results: dict[str, Any] = {"machine": machine(), "load_before": os.getloadavg()[0], "rows": []}
    for flow in given.flows:
        results["rows"] += measure(
            flow, rate_per_s=given.rate, peak_per_s=given.peak, trigger_ms=given.trigger_ms, seconds=given.seconds,
            rounds=given.rounds)
        write(given.json, results | {"load_after": os.getloadavg()[0]})
    print(table(results["rows"]))
    return 0


def _defaults(type_name: str) -> dict[str, Any]:
    return {parameter.name: parameter.default for parameter in task_types()[type_name].parameters
            if parameter.default is not None}


def _percent(ratios: Sequence[float]) -> str:
    return f"{100 * (statistics.median(ratios) - 1):+.0f}%"


if __name__ == "__main__":
    raise SystemExit(main())
