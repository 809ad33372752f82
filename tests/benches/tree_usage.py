"""CPU and memory of processes with all below them, as the system counts them: compilers and all that is resident."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import psutil

from workers.engine.measuring.load import pages_of
from workers.processes import descendants

# What a slot consists of, by what its processes' command lines have.
KINDS = {
    "org.apache.spark.deploy.SparkSubmit": "driver", "workers.engine.agents.slot": "slot",
    "workers.engine.spark.fold_host": "fold_host", "workers.engine.spark.daemon": "workers"}


@dataclass(frozen=True, slots=True)
class KindUsage:
    """What processes of a kind have used since they began, and what memory they have, at a moment."""

    at_s: float
    used_s: Mapping[str, float]
    memory_mb: Mapping[str, float]

    def since(self, before: KindUsage) -> dict[str, float]:
        """A row's cells: cores of each kind since then, and memory now."""
        past_s = self.at_s - before.at_s
        cores = {f"{kind}_cores": round((used - before.used_s.get(kind, 0.0)) / past_s, 3)
                 for kind, used in self.used_s.items()}
        return cores | {f"{kind}_mb": round(mb) for kind, mb in self.memory_mb.items()}


def by_kind(*pids: int) -> KindUsage:
    """What the parts of slots take, of all processes below these."""
    used = dict.fromkeys(KINDS.values(), 0.0)
    memory = dict.fromkeys(KINDS.values(), 0.0)
    for process in _processes(pids):
        with suppress(psutil.Error):
            command = " ".join(process.cmdline())
            kind = next((kind for part, kind in KINDS.items() if part in command), None)
            if kind is not None:
                used[kind] += _used_s(process)
                memory[kind] += pages_of(process).all_mb
    return KindUsage(time.monotonic(), used, memory)


def used_s(*pids: int) -> float:
    """CPU seconds that those of the processes that run now have used since they began, and their children that ended.
    """
    total = 0.0
    for process in _processes(pids):
        with suppress(psutil.Error):
            total += _used_s(process)
    return total


def memory_mb(*pids: int) -> float:
    """Memory of the processes in MiB, what they share counted once."""
    total = 0.0
    for process in _processes(pids):
        with suppress(psutil.Error):
            total += pages_of(process).all_mb
    return total


def _used_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system + times.children_user + times.children_system


def _processes(pids: tuple[int, ...]) -> Iterator[psutil.Process]:
    for pid in {process for root in pids for process in (root, *descendants(root))}:
        with suppress(psutil.Error):
            yield psutil.Process(pid)
