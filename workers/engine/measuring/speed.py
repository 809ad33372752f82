"""The speed of a core while something is measured on it: steps of a small loop in a microsecond of CPU.

CPU seconds are no measure of work where a virtual machine's host runs others on the second thread of a core: the core
then gives half as many steps for each, and no steal is told. A thread that is held to the core runs the loop for a
moment now and then, and takes some hundredth of the core.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from statistics import fmean
from types import TracebackType

STEPS = 6_000
EVERY_S = 0.1


class CoreSpeed:
    """Measures the speed of a core every so many seconds within the block."""

    def __init__(self, core: int, every_s: float = EVERY_S) -> None:
        self._core, self._every_s = core, every_s
        self._end_event = threading.Event()
        self._speeds: list[float] = []
        self._thread = threading.Thread(target=self._look, name=f"speed-{core}", daemon=True)

    def __enter__(self) -> CoreSpeed:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_event.set()
        self._thread.join()

    def mean(self) -> float | None:
        """Mean steps in a microsecond since the last call; None without a measurement."""
        speeds, self._speeds = self._speeds, []
        return round(fmean(speeds), 2) if speeds else None

    def _look(self) -> None:
        with suppress(OSError):  # a core that is not ours: then it is told of where the system lets it run
            os.sched_setaffinity(0, {self._core})  # of this thread
        while not self._end_event.wait(self._every_s):
            began_s, total = time.thread_time(), 0.0
            for step in range(STEPS):
                total += 1 / (2 * step + 1)
            if (took_s := time.thread_time() - began_s) > 0:
                self._speeds.append(STEPS / took_s / 1e6)
