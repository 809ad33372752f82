"""Ends a process that takes too much memory, before the machine has none left for others.

Clients of other systems unpack what they are sent before anybody can count it: a batch of Kafka's of 1 MB may be a
gigabyte. What the process is to say of it, it says first.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

CHECK_S = 0.1
TOO_MUCH_MEMORY = 7  # the status with which a process ends that took more than it may
_PAGE = os.sysconf("SC_PAGE_SIZE")


def most_bytes(limit_mb: int, *, at_most: int = 0) -> int:
    """The most memory that a process may take: as an operator has set it, else half of the machine's.

    Parameters
    ----------
    at_most : int, optional
        A bound of its own in bytes, where there is one.
    """
    most = (limit_mb << 20) or _PAGE * os.sysconf("SC_PHYS_PAGES") // 2
    return min(most, at_most or most)


def taken_bytes() -> int:
    """The memory that this process has now, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def watch_memory(most: int, say: Callable[[int], None]) -> None:
    """End this process as soon as it has more than so many bytes, once ``say`` was called with how many it has."""
    def watch() -> None:
        while (taken := taken_bytes()) <= most:
            time.sleep(CHECK_S)
        try:
            say(taken)
        finally:
            os._exit(TOO_MUCH_MEMORY)

    threading.Thread(target=watch, name="memory", daemon=True).start()
