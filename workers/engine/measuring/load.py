"""The load of a slot during a trial: CPU of its process tree, memory that is in use, and the core that it is held to.

**Memory.** What a JVM has taken from the system says nothing: it grows up to its bound and never shrinks. What counts
is what is live on its heap after a full collection, and beside it the Python processes by their proportional set size
(pages that forked workers share count once). Code, class metadata and network buffers of the JVM are left out: they
belong to the driver and grow with whatever it ever ran. So are pages of files that Python has mapped, a recording's
among them: the system takes them back where it needs memory.

**CPU** is without that of the JVM's compilers: they work for minutes after code has begun to run, as much as the code
itself, and then hardly ever. What a query takes for good is what is planned with.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from workers.processes import descendants

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
COMPILERS = ("C1 CompilerThre", "C2 CompilerThre")  # HotSpot's threads, as Linux cuts their names


@dataclass(frozen=True, slots=True)
class Pages:
    """Memory of a process in MiB, shared pages divided among those that share them."""

    all_mb: float
    files_mb: float  # of mapped files, code included


class Compilers:
    """The compilers of JVMs; a slot's are there from its beginning and stay."""

    def __init__(self) -> None:
        self._threads: dict[int, list[Path]] = {}

    def cpu_s(self, process: psutil.Process) -> float:
        """CPU seconds that a process's compilers have taken; none where it is no JVM.

        Raises
        ------
        psutil.Error
            It has ended.
        """
        pid = process.pid
        if pid not in self._threads and process.name() == "java" and (compilers := _compilers_of(pid)):
            self._threads[pid] = compilers
        return sum(map(_thread_s, self._threads.get(pid, ())))


class TreeLoad:
    """CPU and Python memory of a process and all below it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._last_cpu_s: dict[int, float] | None = None
        self._compilers = Compilers()
        self._total_s = 0.0
        self.compilers_s = 0.0  # what was left out, by the last call of cpu_s

    def cpu_s(self) -> float:
        """CPU seconds since the first call, compilers left out. A process that came later counts from its start."""
        counted, self.compilers_s = {}, 0.0
        for pid in self._pids():
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                with process.oneshot():
                    times, compilers_s = process.cpu_times(), self._compilers.cpu_s(process)
                    counted[pid] = times.user + times.system - compilers_s
                    self.compilers_s += compilers_s
        before = counted if self._last_cpu_s is None else self._last_cpu_s
        self._total_s += sum(max(0.0, used - before.get(pid, 0.0)) for pid, used in counted.items())
        self._last_cpu_s = counted
        return self._total_s

    def python_mb(self) -> float:
        """Memory of all but the JVM in MiB, shared pages counted once, those of files not at all."""
        total = 0.0
        for pid in self._pids():
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.name() != "java":
                    pages = pages_of(process)
                    total += pages.all_mb - pages.files_mb
        return total

    def _pids(self) -> list[int]:
        return [self._pid, *descendants(self._pid)]


def pages_of(process: psutil.Process) -> Pages:
    """The memory of a process, with its part of what it shares with others.

    Raises
    ------
    psutil.Error
        It has ended.
    """
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
        mb = {name: int(amount.split()[0]) / 1024 for name, _, amount in (line.partition(":") for line in lines[1:])}
        return Pages(mb["Pss"], mb.get("Pss_File", 0.0))
    except PermissionError:
        return Pages(process.memory_info().rss / 2**20, 0.0)
    except (OSError, KeyError) as error:  # the file is empty once the process has ended
        raise psutil.NoSuchProcess(process.pid) from error


def _compilers_of(pid: int) -> list[Path]:
    try:
        return [thread for thread in Path(f"/proc/{pid}/task").iterdir() if _comm(thread) in COMPILERS]
    except OSError:  # it has just ended
        return []


def _comm(thread: Path) -> str:
    try:
        return (thread / "comm").read_text().strip()
    except OSError:
        return ""


def _thread_s(thread: Path) -> float:
    try:
        # The thread's name stands in parentheses and may hold spaces: what is counted follows the last one.
        user, system = (thread / "stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / _TICKS_PER_S


def heap_mb(jvm: Any) -> float:
    """Live memory on a driver's heap, in MiB: used after a full collection, which this call makes."""
    management = jvm.java.lang.management
    management.ManagementFactory.getMemoryMXBean().gc()
    used = 0
    for pool in management.ManagementFactory.getMemoryPoolMXBeans():
        if pool.getType().name() == "HEAP" and (usage := pool.getCollectionUsage()) is not None:
            used += usage.getUsed()
    return used / 2**20


@contextmanager
def held_to(core: int, pid: int) -> Iterator[None]:
    """Hold all threads of a process tree to one core within the block; later threads inherit it."""
    before = os.sched_getaffinity(pid)
    _hold(pid, {core})
    try:
        yield
    finally:
        if before != {core}:
            _hold(pid, before)


def _hold(pid: int, cores: set[int]) -> None:
    for process_id in [pid, *descendants(pid)]:
        with suppress(OSError):
            for thread in Path(f"/proc/{process_id}/task").iterdir():
                with suppress(OSError):
                    os.sched_setaffinity(int(thread.name), cores)
