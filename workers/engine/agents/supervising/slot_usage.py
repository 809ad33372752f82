"""The usage of a slot: CPU and memory over its process tree (the driver, its JVM, its Python workers)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from workers.engine.measuring.load import Compilers, Pages, pages_of
from workers.processes import descendants

TREE_EVERY_MS = 10_000  # finding the tree and weighing its memory reads much of /proc; CPU times are cheap
TREND_SAMPLES = 60


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU in cores since the last sample; memory in MiB, shared pages counted once; its growth, when known.

    ``cpu_ms`` and ``memory_mb_s`` are running totals since ``since_ms``, when the meter began.
    """

    cpu: float = 0.0
    memory_mb: int = 0
    memory_trend_mb_per_h: float | None = None
    since_ms: int = 0
    cpu_ms: int = 0
    memory_mb_s: int = 0
    python_mb: int = 0  # of memory_mb that of all but the JVM, mapped files left out
    compiling_ms: int = 0  # of cpu_ms that of the JVM's compilers, which work for minutes and then hardly ever


class TreeMeter:
    """Samples one process tree.

    Parameters
    ----------
    from_now : bool, optional
        True where totals begin with the first sample; else they hold what the processes used before, too.
    """

    def __init__(self, pid: int, *, from_now: bool = False) -> None:
        self._pid = pid
        self._from_now = from_now
        self._compiled_before_s = 0.0
        self._processes: dict[int, psutil.Process] = {}
        self._cpu_s: dict[int, float] = {}
        self._tree_at_ms: int | None = None
        self._sampled_at_ms: int | None = None
        self._memory: deque[tuple[int, float]] = deque(maxlen=TREND_SAMPLES)
        self._since_ms = 0
        self._total_cpu_s = 0.0
        self._compilers = Compilers()
        self._compiling_s: dict[int, float] = {}  # of JVMs that have ended, too
        self._total_mb_s = 0.0
        self._python_mb = 0.0

    def sample(self, now_ms: int) -> Usage:
        """Usage since the sample before."""
        if self._tree_at_ms is None or now_ms - self._tree_at_ms >= TREE_EVERY_MS or len(self._memory) < 3:
            self._find_tree()
            self._tree_at_ms = now_ms
            memory = {pid: _pages(process) for pid, process in self._processes.items()}
            self._memory.append((now_ms, sum(pages.all_mb for pages in memory.values())))
            self._python_mb = sum(
                pages.all_mb - pages.files_mb for pid, pages in memory.items() if not _is_java(self._processes[pid]))
        used_s = 0.0
        for pid, process in list(self._processes.items()):
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    if compiling_s := self._compilers.cpu_s(process):
                        self._compiling_s[pid] = compiling_s
            except psutil.Error:
                del self._processes[pid]
                continue
            total_s = times.user + times.system
            used_s += total_s - self._cpu_s.get(pid, total_s)
            # What a process used before it was found belongs to the total, and not to the time since the last sample.
            was_there = self._from_now and self._sampled_at_ms is None
            self._total_cpu_s += total_s - self._cpu_s.get(pid, total_s if was_there else 0.0)
            self._cpu_s[pid] = total_s
        if self._from_now and self._sampled_at_ms is None:
            self._compiled_before_s = sum(self._compiling_s.values())
        elapsed_s = (now_ms - self._sampled_at_ms) / 1000 if self._sampled_at_ms is not None else 0.0
        self._since_ms = self._since_ms or now_ms
        self._total_mb_s += self._memory[-1][1] * elapsed_s
        self._sampled_at_ms = now_ms
        return Usage(
            cpu=round(used_s / elapsed_s, 3) if elapsed_s > 0 else 0.0,
            memory_mb=round(self._memory[-1][1]),
            memory_trend_mb_per_h=trend_per_h(self._memory),
            since_ms=self._since_ms,
            cpu_ms=round(1000 * self._total_cpu_s),
            memory_mb_s=round(self._total_mb_s),
            python_mb=round(self._python_mb),
            compiling_ms=round(1000 * (sum(self._compiling_s.values()) - self._compiled_before_s)),
        )

    def _find_tree(self) -> None:
        pids = {self._pid, *descendants(self._pid)}
        for pid in pids - self._processes.keys():
            with suppress(psutil.Error):
                self._processes[pid] = psutil.Process(pid)
        for pid in self._processes.keys() - pids:
            del self._processes[pid]
        self._cpu_s = {pid: used_s for pid, used_s in self._cpu_s.items() if pid in self._processes}


def trend_per_h(samples: Sequence[tuple[int, float]]) -> float | None:
    """Slope of the least-squares line through (ms, value), per hour; None before half the samples are there."""
    if len(samples) < TREND_SAMPLES // 2:
        return None
    mean_ms = sum(at_ms for at_ms, _ in samples) / len(samples)
    mean = sum(value for _, value in samples) / len(samples)
    spread = sum((at_ms - mean_ms) ** 2 for at_ms, _ in samples)
    if not spread:
        return None
    slope = sum((at_ms - mean_ms) * (value - mean) for at_ms, value in samples) / spread
    return round(slope * 3_600_000, 1)


def _is_java(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.Error:
        return False


def _pages(process: psutil.Process) -> Pages:
    """The process's share of memory: a forked worker's pages are mostly its parent's."""
    try:
        return pages_of(process)
    except psutil.Error:
        return Pages(0.0, 0.0)
