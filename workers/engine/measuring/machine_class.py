"""The class of a machine's slots: a profile fits the slots of the class that it was measured on."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

import psutil


@cache
def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def memory_mb() -> int:
    """The machine's memory in MiB."""
    return psutil.virtual_memory().total >> 20


def slot_memory_mb(slots: int) -> int:
    """A slot's memory in MiB: an even share of the machine's."""
    return memory_mb() // max(1, slots)


class Stolen:
    """The CPU that a virtual machine asks for and its host gives to others (steal); 0 on a physical machine."""

    def __init__(self) -> None:
        self._last_times = self._times()

    def share(self) -> float:
        """The part, 0 to 1, of the CPU time asked for since the last call that was not given."""
        now, before = self._times(), self._last_times
        self._last_times = now
        used, stolen = (max(0.0, after - earlier) for after, earlier in zip(now, before, strict=True))
        return stolen / (used + stolen) if used + stolen else 0.0

    @staticmethod
    def _times() -> tuple[float, float]:
        times = psutil.cpu_times()._asdict()
        used = sum(times.get(name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
        return used, times.get("steal", 0.0)


def machine_class(slots: int) -> str:
    """The class of a machine: slots of two machines of one class do the same with the same task.

    A slot is one core with its share of the memory, so the class is the processor, the cores and the memory (in GiB,
    rounded: two machines of a size differ by some MiB) and into how many slots they are divided.
    """
    return f"{processor()}, {os.cpu_count()} cores, {round(memory_mb() / 1024)} GiB, {slots} slots"


def disk_of(folder: Path) -> dict[str, int | None]:
    """Free space and size in MB of the disk with the data folder; unknown where that cannot be told."""
    try:
        usage = psutil.disk_usage(str(folder))
    except OSError:
        return {"disk_free_mb": None, "disk_total_mb": None}
    return {"disk_free_mb": usage.free >> 20, "disk_total_mb": usage.total >> 20}
