"""CPU and memory of processes with all below them, as the system counts them: compilers and all that is resident."""

from __future__ import annotations

from contextlib import suppress

import psutil

from workers.engine.measuring.load import pages_of
from workers.processes import descendants


def used_s(*pids: int) -> float:
    """CPU seconds that those of the processes that run now have used since they began, and their children that ended.
    """
    total = 0.0
    for process in _processes(pids):
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def memory_mb(*pids: int) -> float:
    """Memory of the processes in MiB, what they share counted once."""
    total = 0.0
    for process in _processes(pids):
        with suppress(psutil.Error):
            total += pages_of(process).all_mb
    return total


def _processes(pids: tuple[int, ...]) -> list[psutil.Process]:
    processes = []
    for pid in {each for root in pids for each in (root, *descendants(root))}:
        with suppress(psutil.Error):
            processes.append(psutil.Process(pid))
    return processes
