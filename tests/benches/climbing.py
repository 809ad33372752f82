"""One run of a schedule: enacted, its source raised in stairs until it does not keep up, and what was measured of it.

CPU of a slot is that of its driver and Python workers, as a share of a core, above what the slot took without queries.
Memory is what a driver and its Python workers hold of their own, as a share of the slot's part of the machine's memory,
likewise above base. Trials (`workers.engine.measuring.load`) count only what is live of a heap: predictions are lower.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from scheduler.applying import apply_plan
from scheduler.latency.histograms import percentile_ms
from scheduler.model.estate import Estate
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes
from scheduler.planning import plan_removal, plan_submission
from scheduler.scheduling import Schedule
from workers.engine import observed
from workers.engine.channels.histogram import histogram_of
from workers.engine.measuring.load import TreeLoad
from workers.engine.measuring.machine_class import Stolen, slot_memory_mb
from workers.engine.measuring.speed import CoreSpeed
from workers.engine.spark.pinning import core_for
from workers.processes import descendants

from .estate import NODE, RunningEstate
from .experiment_dataflows import TEAM
from .experiments import Carried, Sample, Stair, carried, is_over

SAMPLE_S = 0.25
BASE_S = 2.0
BASE_WINDOWS = 10
AT_REST = 0.05  # of a core
LOAD_EVERY = 4  # samples
LEAST_SAMPLES = 6
SETTLES = 0.35  # of a stair, before it counts: a new rate takes as long as latency is until it is seen at the sink
STARTED = 0.6  # of the first stair, after which the source is taken to be in time
STARTING_S = 60.0
VIOLIN = 60  # quantiles of latency that are kept of a stair


@dataclass(frozen=True, slots=True)
class Load:
    """CPU and memory of a slot, as shares of it."""

    cpu: float
    memory: float


@dataclass
class StairFound:
    """What was measured on a stair."""

    carried: Carried
    loads: dict[str, Load]
    latency_ms: list[float]  # quantiles at the sink, evenly spaced
    compilers_cores: dict[str, float]  # what the compilers of each slot's JVM took of its core, in no load
    others_cores: float  # what the machine's other processes took, broker and services included
    batches_per_s: dict[str, float]  # with events, by query
    stolen: float  # the part of the CPU asked for that the machine's host gave to others
    speeds: dict[str, float]  # of each slot's core, as `workers.engine.measuring.speed` tells it


@dataclass
class Base:
    """What slots take without queries: cores, and MiB of heap and Python."""

    cpu: dict[str, float] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)


class Slots:
    """The slots of the node under measurement, by name: their processes' CPU and memory."""

    def __init__(self, running: RunningEstate) -> None:
        report = observed.read_reports(running.client)[NODE].slots
        self.pids = {f"{NODE}/{name}": slot.pid for name, slot in report.items()}
        self.cores = {f"{NODE}/{name}": core_for(int(name)) for name in report}
        self._trees = {name: TreeLoad(pid) for name, pid in self.pids.items()}
        for tree in self._trees.values():
            tree.cpu_s()

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds of each slot so far."""
        return {name: tree.cpu_s() for name, tree in self._trees.items()}

    def compilers_s(self) -> dict[str, float]:
        """Likewise of their compilers, as they were when CPU was asked for last."""
        return {name: tree.compilers_s for name, tree in self._trees.items()}

    def memory_mb(self) -> dict[str, float]:
        """What the driver and the Python workers of each slot hold of their own, in MiB.

        Walls let nobody ask a driver from outside how much of its heap is live, so that what is free of it counts, too.
        """
        return {name: _own_mb(self.pids[name]) + tree.python_mb() for name, tree in self._trees.items()}

    def end_python_workers(self) -> None:
        """End the Python workers that the queries before have left, but not those that fork them."""
        for pid in self.pids.values():
            # An argument of its own: the driver's JVM names it, too, within another.
            forked = {
                child_pid for child_pid in descendants(pid) if "workers.engine.spark.daemon" in _command(child_pid)
            }
            for child in forked:
                with suppress(psutil.Error):
                    if psutil.Process(child).ppid() in forked:
                        os.kill(child, 9)


def base_of(slots: Slots) -> Base:
    """What the slots take without queries, once their drivers have come to rest; the least where they do not."""
    least = dict.fromkeys(slots.pids, 1.0)
    for _ in range(BASE_WINDOWS):
        before, began = slots.cpu_s(), time.monotonic()
        time.sleep(BASE_S)
        after, passed = slots.cpu_s(), time.monotonic() - began
        least = {name: min(least[name], (after[name] - before[name]) / passed) for name in after}
        if max(least.values()) <= AT_REST:
            break
    return Base(least, slots.memory_mb())


class Climb:
    """Runs one schedule and takes it up its stairs."""

    def __init__(
        self, running: RunningEstate, slots: Slots, base: Base, *, task_types: TaskTypes, prices: Prices,
        parts: Mapping[str, float],
    ) -> None:
        self._running = running
        self._slots = slots
        self._base = base
        self._types = task_types
        self._prices = prices
        self._parts = parts
        self._bundles: dict[str, tuple[str, ...]] = {}
        self._speeds: dict[str, CoreSpeed] = {}

    def run(
        self, schedule: Schedule, stairs: Sequence[Stair], *, on_stair: Callable[[StairFound], None]
    ) -> list[StairFound]:
        """Enact the schedule, climb, and take the dataflow away again, whatever happens."""
        dataflow = schedule.job.dataflow
        estate = self._running.estate
        plan = plan_submission(
            estate, dataflow, dataflow_id=dataflow.name, team=TEAM, task_types=self._types, prices=self._prices,
            schedule=schedule)
        enacted = apply_plan(estate, plan)
        self._bundles = bundles_by_task(enacted, dataflow.name)
        try:
            self._running.enact(enacted, within_s=STARTING_S)
            with ExitStack() as stack:
                self._speeds = {name: stack.enter_context(CoreSpeed(core)) for name, core in self._slots.cores.items()}
                return self._climb(stairs, on_stair)
        finally:
            removal = plan_removal(enacted, dataflow.name, task_types=self._types, prices=self._prices)
            self._running.enact(apply_plan(enacted, removal), within_s=STARTING_S)
            self._running.wait(lambda: not self._running.fragments(), what="nothing runs", within_s=STARTING_S)
            self._slots.end_python_workers()

    def _climb(self, stairs: Sequence[Stair], on_stair: Callable[[StairFound], None]) -> list[StairFound]:
        ends_s = self._began_s(stairs[0]) + stairs[0].seconds
        climbed: list[StairFound] = []
        for stair in stairs[1:]:
            began_s, ends_s = ends_s, ends_s + stair.seconds
            if not stair.counts:
                continue
            _sleep_until(began_s + SETTLES * stair.seconds)
            climbed.append(self._stair(stair, ends_s))
            on_stair(climbed[-1])
            if is_over([stair.carried for stair in climbed]):
                break
        return climbed

    def _stair(self, stair: Stair, ends_s: float) -> StairFound:
        samples: list[Sample] = []
        before, busy, began = self._latencies(), _busy_s(), time.monotonic()
        last, late_s = before, None
        batches, stolen = self._batches(), Stolen()
        cpu = self._slots.cpu_s()
        compilers = self._slots.compilers_s()
        for speed in self._speeds.values():
            speed.mean()
        while len(samples) < LEAST_SAMPLES or time.monotonic() < ends_s - SAMPLE_S / 2:
            if len(samples) % LOAD_EVERY == 0:
                cpu, now = self._slots.cpu_s(), self._latencies()
                last, late_s = now, mean_s(last, now)
            samples.append(Sample(time.monotonic(), self._out(), cpu, late_s))
            late_s = None
            time.sleep(SAMPLE_S)
        passed, cpu_after = time.monotonic() - began, self._slots.cpu_s()
        cores = {name: (cpu_after[name] - samples[0].cpu_s[name]) / (time.monotonic() - samples[0].at_s)
                 for name in cpu_after}
        stolen_share = stolen.share()
        compiling = {name: max(0.0, seconds - compilers[name]) / passed
                     for name, seconds in self._slots.compilers_s().items()}
        others = (_busy_s() - busy) / passed - sum(cores.values()) - sum(compiling.values())
        batches_per_s = {name: round((count - batches.get(name, 0)) / passed, 2)
                         for name, count in self._batches().items()}
        speeds = {name: mean for name, speed in self._speeds.items() if (mean := speed.mean())}
        latency = quantiles_ms(before, last)
        memory = self._slots.memory_mb()
        loads = {name: Load(max(0.0, cores[name] - self._base.cpu[name]), self._share(name, memory[name]))
                 for name in cores}
        what = carried(samples, rate_per_s=stair.rate_per_s, parts=self._parts, source="source")
        return StairFound(what, loads, latency, compiling, max(0.0, others), batches_per_s, stolen_share, speeds)

    def _share(self, name: str, memory_mb: float) -> float:
        base_mb = self._base.memory_mb[name]
        return max(0.0, memory_mb - base_mb) / (slot_memory_mb(len(self._slots.pids)) - base_mb)

    def _began_s(self, first: Stair) -> float:
        """When the source began, by how far it is on its first stair: only its first batches come late."""
        deadline = time.monotonic() + STARTING_S
        while not self._out()["source"]:
            if time.monotonic() > deadline:
                raise TimeoutError("The source has not begun to emit.")
            time.sleep(SAMPLE_S)
        began_s, ends_s = inf, time.monotonic() + STARTED * first.seconds
        while time.monotonic() < min(ends_s, began_s + first.seconds - 1):
            time.sleep(SAMPLE_S)
            began_s = min(began_s, time.monotonic() - self._out()["source"] / first.rate_per_s)
        return began_s

    def _out(self) -> dict[str, int]:
        """How many events have left each task."""
        names = [bundle for bundles in self._bundles.values() for bundle in bundles]
        counts = observed.read_meters(self._running.client, names).counts
        return {task: sum(counts[bundle].get("0:n", 0) for bundle in bundles)
                for task, bundles in self._bundles.items()}

    def _batches(self) -> dict[str, int]:
        """How many batches with events each query has done, by what its slot has told last."""
        reported = self._running.fragments()
        return {
            name: reported[name].batches if name in reported else 0
            for names in self._bundles.values() for name in names}

    def _latencies(self) -> dict[int, int]:
        """The latencies of what has left the sink, as a histogram."""
        threads_counted: dict[int, int] = {}
        names = self._bundles["sink"]
        for counts in observed.read_meters(self._running.client, names).counts.values():
            for bucket, count in histogram_of(counts, "0:lat").items():
                threads_counted[bucket] = threads_counted.get(bucket, 0) + count
        return threads_counted


def bundles_by_task(estate: Estate, dataflow_id: str) -> dict[str, tuple[str, ...]]:
    """By task of a submitted dataflow, the queries that run it."""
    climbed = {}
    for task, running in estate.submitted[dataflow_id].running.items():
        fragment = estate.fragments[estate.places[running][0]]
        climbed[task] = tuple(bundle.id for bundle in fragment.queries)
    return climbed


def quantiles_ms(before: Mapping[int, int], after: Mapping[int, int]) -> list[float]:
    """Evenly spaced quantiles of the latencies that were counted between two readings."""
    grown = {bucket: count - before.get(bucket, 0) for bucket, count in after.items()}
    values = [percentile_ms(grown, (number + 0.5) / VIOLIN) for number in range(VIOLIN)]
    return [round(value, 1) for value in values if value is not None]


def mean_s(before: Mapping[int, int], after: Mapping[int, int]) -> float | None:
    """The mean of the latencies that were counted between two readings; None where nothing was."""
    spread = quantiles_ms(before, after)
    return fmean(spread) / 1000 if spread else None


def clear(folder: Path) -> None:
    """Remove what runs have written, so that the disk does not fill up."""
    for name in ("outputs", "recordings", "checkpoints"):  # the folders stay: they are the slots' own
        for entry in (folder / name).glob("*"):
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _own_mb(slot_pid: int) -> float:
    java = next(child_pid for child_pid in descendants(slot_pid) if _name(child_pid) == "java")
    rollup = Path(f"/proc/{java}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Anonymous:")) / 1024


def _busy_s() -> float:
    times = psutil.cpu_times()
    return times.user + times.nice + times.system + times.irq + times.softirq


def _command(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""


def _sleep_until(moment_s: float) -> None:
    time.sleep(max(0.0, moment_s - time.monotonic()))


def document(stair_found: StairFound) -> dict[str, Any]:
    """What was measured on a stair, as JSON."""
    carried = stair_found.carried
    return {
        "rate_per_s": carried.rate_per_s,
        "offered_per_s": carried.offered_per_s,
        "carried_per_s": carried.carried_per_s,
        "slowest": carried.slowest,
        "latency_slope": carried.latency_slope,
        "stable": carried.stable,
        "others_cores": stair_found.others_cores,
        "compilers_cores": {name: round(cores, 3) for name, cores in stair_found.compilers_cores.items()},
        "loads": {name: {"cpu": load.cpu, "memory": load.memory} for name, load in stair_found.loads.items()},
        "latency_ms": stair_found.latency_ms,
        "batches_per_s": stair_found.batches_per_s,
        "stolen": round(stair_found.stolen, 3),
        "speeds": stair_found.speeds,
    }
