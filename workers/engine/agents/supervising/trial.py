"""One trial, from the empty slot to its figures: base load, the query without events, warm-up, the measured window."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import redis

from scheduler.contracts.trials import TrialOrder, TrialProgress, TrialResult, TrialSample
from scheduler.latency.histograms import percentile_ms
from scheduler.model.canonical import RATE_KEY, canonical_json
from scheduler.model.effects import effects_in_words, needs_approval
from scheduler.model.task_types import TaskType, TaskTypes
from workers.engine import trial_store
from workers.engine.channels import keys
from workers.engine.channels.histogram import histogram_of
from workers.engine.measuring import feed, trial_figures
from workers.engine.measuring.feeder import Assignment
from workers.engine.measuring.feeder_process import Feeding
from workers.engine.measuring.load import TreeLoad, held_to
from workers.engine.measuring.machine_class import Stolen, slot_memory_mb
from workers.engine.measuring.speed import CoreSpeed
from workers.engine.measuring.trial_answers import HostAnswer, answer_of
from workers.engine.measuring.trial_figures import TrialBatch
from workers.engine.measuring.window import TrialWindow, Weight, sample_of
from workers.engine.slot_values import counts_of
from workers.engine.spark.pinning import core_for
from workers.engine.trial_store import TrialFailed
from workers.engine.worker_settings import Settings
from workers.library.registry import companion

from ..reconciling.reconcile import FragmentState
from .supervision import SlotGone, SlotProcess

SAMPLE_S = 0.5
BASE_S = 2.0
AT_REST = 0.05  # of a core: no more than this is a driver's that does nothing
SETTLING_S = 20.0
IDLE_S = 1.0
COMMAND_S = 60.0
START_S = 30.0  # at most, for a query's first batch: each of its threads may start a Python worker
WARM_QUERIES = 3  # so that one plans while another waits for its source or its disk


@dataclass
class TrialBaseline:
    """Figures that are measured once in the life of a slot's process: its CPU at rest, and that of queries without
    events."""

    is_warm: bool = False
    base_cpu: float | None = None
    idle_cpu: dict[str, float] = field(default_factory=dict)
    warmed: set[str] = field(default_factory=set)


def queries_on(slot: SlotProcess) -> list[str]:
    """The fragments that have a query on a slot, or are about to; those of paused dataflows rest there without one."""
    reports = slot.report.get("fragments", {})
    return sorted(name for name, report in reports.items() if report.get("state") != FragmentState.STOPPED)


class Measurement:
    """Runs one trial in a slot that is ready and empty."""

    def __init__(
        self, order: TrialOrder, fragment: str, *, slot: SlotProcess, pid: int, settings: Settings,
        broker: redis.Redis, task_types: TaskTypes, baseline: TrialBaseline, is_over: Callable[[], bool],
    ) -> None:
        self._order = order
        self._fragment = fragment
        self._slot = slot
        self._pid = pid
        self._settings = settings
        self._broker = broker
        self._task_types = task_types
        self._baseline = baseline
        self._is_over = is_over
        self._feeding = Feeding(order.rate_per_s)
        self._load = TreeLoad(pid)
        self._core = core_for(int(slot.name))
        self._trigger_s = settings.trigger_ms / 1000
        self._versions: dict[str, Any] = {}
        self._code = ""

    @property
    def pids(self) -> set[int]:
        """Processes that it has started and waits for itself."""
        return self._feeding.pids

    def run(self) -> TrialResult | None:
        """The figures; None where the trial was cancelled.

        Raises
        ------
        TrialFailed
            It cannot be measured, or the task failed.
        SlotGone
            The slot died.
        """
        task_type = self._measurable()
        try:
            with held_to(self._core, self._pid), self._feeding, suppress(_Over):
                return self._run(task_type)
        except ProcessLookupError as error:
            raise SlotGone(f"slot {self._slot.name} died") from error
        return None

    def _run(self, task_type: TaskType) -> TrialResult:
        try:
            path = self._feed(task_type)  # first, for what it leaves in the driver is none of the query's
            self._warm_driver()
            base = self._base()
            fence = self._begin(path)
            idle_cpu, idle_mb = 0.0, 0.0  # a source is never without events
            if path is not None:
                idle_cpu, idle_mb = self._idle(base)
                self._feeding.go(Assignment(
                    self._settings.redis_url, f"{self._fragment}.in", fence, str(path), self._order.rate_per_s,
                    threads=self._order.threads, avoid_core=self._core,
                ))
            return self._measured(base, idle_cpu, idle_mb, task_type)
        finally:
            with suppress(SlotGone):  # then its query is gone, too
                self._slot.ask("end", pid=self._pid, within_s=COMMAND_S)

    # -- step by step --------------------------------------------------------------------------------------------

    def _measurable(self) -> TaskType:
        order = self._order
        task_type = self._task_types.get(order.task_type)
        missing = [task["type"] for task in order.feed if task["type"] not in self._task_types]
        if task_type is None or missing:
            name = order.task_type if task_type is None else missing[0]
            raise TrialFailed(
                "unknown_task_type", f"No task type {name} is installed on node {order.node}",
                remedy="Install the package that brings it on this node, and start its agent again.")
        if not order.approved:
            self._require_no_effects()
        if self._settings.spark_master:
            raise TrialFailed(
                "not_measurable", f"The slots of node {order.node} run on {self._settings.spark_master}, not on a core",
                remedy="Measure on a node whose slots are its own cores (without WEIR_SPARK_MASTER).")
        if order.threads > self._settings.threads:
            raise TrialFailed(
                "too_few_threads", f"{order.threads} threads were asked for, and the slots of node {order.node} have "
                f"{self._settings.threads}", remedy="Sweep up to fewer threads, or set WEIR_SLOT_THREADS there.")
        live = [name for name in (task_type.name, *(task["type"] for task in order.feed[:1])) if self._is_live(name)]
        if live:
            raise TrialFailed(
                "not_measurable", f"{live[0]} is a live source: what comes is not made at a rate that is asked for",
                remedy="Measure the task fed by another source that makes the same columns.")
        if task_type.kind == "source" and _has_own_times(task_type):
            raise TrialFailed(
                "not_measurable", f"{task_type.name} goes by a schedule of its own, not at a rate that is asked for",
                remedy="Sources are light: give its profile one static point instead.")
        if task_type.kind != "source" and not order.feed:
            raise TrialFailed(
                "no_feed", f"{task_type.name} reads events, and the trial names no tasks that make them",
                remedy="Name the tasks upstream of it, source first.")
        return task_type

    def _is_live(self, name: str) -> bool:
        task_type = self._task_types.get(name)
        return task_type is not None and task_type.connector is not None

    def _require_no_effects(self) -> None:
        """The site has said so already, or has ordered what it should not have."""
        order = self._order
        for name, config in ((order.task_type, order.config), *(
                (task["type"], task.get("config", {})) for task in order.feed)):
            if needs_approval(self._task_types[name], config):
                raise TrialFailed(
                    "not_approved", f"{name} reaches {effects_in_words(self._task_types[name])}, and is not measured "
                    "without approval", remedy="Measure it as a task of a dataflow that was approved and runs.")

    def _base(self) -> Weight:
        """Memory of the slot without any query, and, once in its life, its CPU."""
        self._tell("base", BASE_S)
        self._ask("end")
        if self._baseline.base_cpu is None:
            self._baseline.base_cpu = self._settled_cpu()
        base, slot_mb = self._weigh(), slot_memory_mb(self._settings.slots)
        if base.total_mb >= slot_mb:
            raise TrialFailed(
                "not_measurable", f"The driver of slot {self._order.node}/{self._order.slot} takes {base.total_mb:.0f} "
                f"MiB by itself, and its slot has {slot_mb:.0f}: nothing is left to measure in",
                remedy="Offer fewer slots on this node (WEIR_SLOTS), or give it more memory.")
        return base

    def _settled_cpu(self) -> float:
        """CPU once the driver has warmed itself up; the least there was where it does not settle."""
        least, deadline = 1.0, time.monotonic() + SETTLING_S
        while least > AT_REST and time.monotonic() < deadline:
            least = min(least, self._cpu_over(BASE_S))
        return least

    def _warm_driver(self) -> None:
        order = self._order
        if self._baseline.is_warm or not order.driver_warm_up_s:
            return
        self._tell("driver", order.driver_warm_up_s)
        tested = {"type": order.task_type, "config": {**order.config, RATE_KEY: order.rate_per_s}}  # it is a source
        chain = [{"type": task["type"], "config": dict(task.get("config", {}))} for task in order.feed] or [tested]
        names = [f"{self._fragment}-warm{number}" for number in range(WARM_QUERIES)]
        try:
            self._ask("hurry", fragments=names, chain=chain, approved=order.approved)
            self._pause(order.driver_warm_up_s)
        finally:
            self._ask("rest", within_s=COMMAND_S)
        self._baseline.is_warm = True

    def _feed(self, task_type: TaskType) -> Path | None:
        """The file with the events to feed; None for a source."""
        if task_type.kind == "source":
            return None
        chain = [{"type": task["type"], "config": dict(task.get("config", {}))} for task in self._order.feed]
        path = feed.path_of(self._settings.data_dir, feed.digest(chain, self._task_types))
        if feed.read_kept(path) is None:  # or it was damaged: then it is made anew
            self._tell("feed")
            self._ask(
                "feed", within_s=2 * COMMAND_S, fragment=f"{self._fragment}-feed", chain=chain, path=str(path),
                approved=self._order.approved)
        return path

    def _begin(self, path: Path | None) -> int:
        self._tell("starting")
        order, config = self._order, dict(self._order.config)
        if path is None:
            config[RATE_KEY] = order.rate_per_s
        answer = self._ask(
            "begin", fragment=self._fragment, task_type=order.task_type, config=config, threads=order.threads,
            schema_json=None if path is None else feed.read(path).schema_json, approved=order.approved,
        )
        self._feeding.began_s = time.time()
        self._code = answer.code
        return answer.fence

    def _idle(self, base: Weight) -> tuple[float, float]:
        """CPU above base load, and memory (MiB), of the query while no event comes."""
        order = self._order
        key = f"{order.task_type} {canonical_json(order.config)} {order.threads}"
        if key not in self._baseline.idle_cpu:
            self._tell("idle", 2 * IDLE_S)
            self._pause(SAMPLE_S)
            # Starting may not be over at first.
            self._baseline.idle_cpu[key] = self._above_base(min(self._cpu_over(IDLE_S) for _ in range(2)))
        return self._baseline.idle_cpu[key], max(0.0, self._weigh().total_mb - base.total_mb)

    def _measured(self, base: Weight, idle_cpu: float, idle_mb: float, task_type: TaskType) -> TrialResult:
        order = self._order
        kind = f"{order.task_type} {canonical_json(order.config)}"
        warm_up_s = order.warm_up_s if kind in self._baseline.warmed else max(order.warm_up_s, order.first_warm_up_s)
        stolen = Stolen()
        with CoreSpeed(self._core) as speed:
            window = self._window(warm_up_s, base, speed)
        self._baseline.warmed.add(kind)  # not where it was cancelled in the middle
        stolen_share = round(stolen.share(), 3)
        heap_mb = self._weigh().heap_mb
        if queries := queries_on(self._slot):
            raise TrialFailed(
                "slot_busy", f"Meanwhile slot {order.node}/{order.slot} was given {', '.join(queries)} to run",
                remedy="Measure again on a slot that nothing is placed on.")
        free_mb = slot_memory_mb(self._settings.slots) - base.total_mb
        memory_mb = heap_mb + median(window.python_mb) - base.total_mb
        series = tuple(
            TrialSample(
                sample.at_s, sample.latency_s, sample.events_per_s, sample.cpu, round(sample.memory / free_mb, 5))
            for sample in window.series)
        events_in = sum(batch.events_in for batch in window.batches)
        return TrialResult(
            order.id, True, threads=order.threads, rate_per_s=order.rate_per_s,
            offered_per_s=self._feeding.offered_per_s(window.began_s, window.ended_s),
            held_back=self._feeding.held_back(window.began_s, window.ended_s),
            achieved_per_s=trial_figures.achieved_per_s(window.batches, measured_s=window.measured_s),
            selectivity=sum(batch.events_out for batch in window.batches) / events_in if events_in else None,
            latency_slope=trial_figures.latency_slope(window.batches, trigger_s=self._trigger_s, now_s=window.ended_s),
            cpu=self._above_base(window.cpu), memory=max(0.0, memory_mb / free_mb),
            idle_cpu=idle_cpu, idle_memory=idle_mb / free_mb,
            base_cpu=self._baseline.base_cpu, base_memory=base.total_mb / slot_memory_mb(self._settings.slots),
            batches_per_s=round(trial_figures.batches_per_s(window.batches, measured_s=window.measured_s), 3),
            measured_s=window.measured_s,
            latency_s=window.latency_s, series=series,
            batches=tuple(trial_figures.row_of(batch, began_s=window.began_s) for batch in window.batches),
            machine={"core": self._core, "trigger_ms": self._settings.trigger_ms, "stolen": stolen_share,
                     "speed": window.speed,
                     "slot_threads": self._settings.threads, "slot_heap_mb": self._settings.slot_memory_mb},
            versions={
                **self._versions, "python": sys.version.split()[0], "type": task_type.version, "code": self._code},
        )

    def _window(self, warm_up_s: float, base: Weight, speed: CoreSpeed) -> TrialWindow:
        """Let its threads begin, let it warm up, and measure; the series is of all that."""
        began_s, window = self._feeding.began_s, TrialWindow()
        before_s, cpu_before = time.time(), self._load.cpu_s()
        steady_s, events_in = None, 0  # since when it gets events at the rate
        self._tell("warming", warm_up_s)
        while True:
            self._pause(SAMPLE_S)
            self._feeding.check()
            now_s, cpu = time.time(), self._load.cpu_s()
            new = self._look()
            if len(window.series) % 2 == 0:
                window.python_mb.append(self._load.python_mb())
            share = self._above_base((cpu - cpu_before) / (now_s - before_s))
            memory = window.python_mb[-1] - base.python_mb
            window.series.append(sample_of(now_s - began_s, new, now_s - before_s, share, memory))
            before_s, cpu_before = now_s, cpu
            events_in += sum(batch.events_in for batch in new)
            if steady_s is None and (events_in >= self._order.threads or now_s - began_s > START_S):
                steady_s = now_s
                self._feeding.faster()
            if window.began_s:
                window.batches += new
                window.ended_s, window.cpu = now_s, (cpu - window.cpu_before) / (now_s - window.began_s)
                if trial_figures.is_enough(
                    window.batches, trigger_s=self._trigger_s, now_s=now_s, measured_s=window.measured_s,
                    seconds=self._order.seconds,
                ):
                    window.speed = speed.mean()
                    window.latency_s = trial_figures.quantiles_s(window.before, self._latencies(), percentile_ms)
                    return window
            elif steady_s is not None and now_s - steady_s >= warm_up_s:
                window.begin(now_s, cpu, self._latencies())
                speed.mean()  # what was before counts no more
                self._tell("measuring", self._order.seconds)

    # -- looking -------------------------------------------------------------------------------------------------

    def _look(self) -> list[TrialBatch]:
        """The batches that ended since the last look."""
        return list(self._ask("look").batches)

    def _latencies(self) -> dict[int, int]:
        return histogram_of(counts_of(self._broker.hgetall(keys.meter(self._fragment))), "0:lat")

    def _weigh(self) -> Weight:
        measured = self._ask("weigh")
        self._versions = {"pyspark": measured.pyspark, "java": measured.java}
        return Weight(measured.heap_mb, self._load.python_mb())

    def _cpu_over(self, seconds: float) -> float:
        before_s, before = time.monotonic(), self._load.cpu_s()
        self._pause(seconds)
        return (self._load.cpu_s() - before) / (time.monotonic() - before_s)

    def _above_base(self, cpu: float) -> float:
        return max(0.0, cpu - (self._baseline.base_cpu or 0.0))

    def _pause(self, seconds: float) -> None:
        """Wait, and let be known that it goes on; in time to end when the trial is cancelled."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0:
            time.sleep(min(left_s, SAMPLE_S))
            if self._is_over():
                raise _Over
            trial_store.still(self._broker, self._order.id)

    def _tell(self, state: str, of_s: float = 0.0) -> None:
        trial_store.tell(self._broker, self._order.id, TrialProgress(state, time.time_ns() // 1_000_000, of_s))

    def _ask(self, do: str, *, within_s: float = COMMAND_S, **arguments: Any) -> HostAnswer:
        return answer_of(self._slot.ask(do, pid=self._pid, within_s=within_s, **arguments), command=do)


class _Over(Exception):
    """The trial was cancelled, or the agent ends."""


def _has_own_times(source: TaskType) -> bool:
    return companion(source, "_schedule") is not None and source.parameter(RATE_KEY) is None
