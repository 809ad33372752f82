"""Calibration: how fast the cores of a node are, measured for a minute when its slots first have little to do; and from
then on minute by minute, for a virtual machine's host may give its cores more or less.

Profiles that come with Weir are of a core of a known speed (`scheduler/performance/shipped.py`). Measured is the small
loop of `speed.py`, by its own CPU time, so other work disturbs it little. It takes a hundredth of a core during the
first minute, and a four-thousandth later. The result of the first minute stays in the node's folder, and counts until
the class of machine is another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from .speed import EVERY_S, CoreSpeed

LASTS_MS = 60_000
WATCHES_EVERY_S = 2.0  # once it is calibrated


class Calibration:
    """Measures the speed of a node's cores.

    Parameters
    ----------
    look : callable, optional
        Begins to look at a core, given by its number, every so many seconds.
    """

    def __init__(
        self, path: Path, *, machine: str, look: Callable[[int, float], CoreSpeed] = CoreSpeed
    ) -> None:
        self._path = path
        self._machine = machine
        self._look = look
        self._measurement: CoreSpeed | None = None
        self._block = ExitStack()
        self._until_ms = self._left_s = 0
        self.speed = self._stored_speed()
        self.speed_now: float | None = None

    @property
    def left_s(self) -> int | None:
        """Seconds that calibration still takes, once it has begun; None before and after."""
        return None if self._measurement is None or self.speed is not None else self._left_s

    def report(self) -> dict[str, float | None]:
        """The fields of a node's report about it."""
        return {"speed": self.speed, "calibrating_s": self.left_s, "speed_now": self.speed_now}

    def turn(self, now_ms: int, *, is_calm: bool) -> None:
        """Begin where the node is calm, or was calibrated before, and take what each minute brings."""
        if self._measurement is None:
            if self.speed is None and is_calm:
                self._begin(now_ms, EVERY_S)
            elif self.speed is not None:
                self._begin(now_ms, WATCHES_EVERY_S)
            return
        self._left_s = max(0, (self._until_ms - now_ms) // 1000)
        if now_ms < self._until_ms:
            return
        self.speed_now, self._until_ms = self._measurement.mean(), now_ms + LASTS_MS
        if self.speed is None:
            self._keep(self.speed_now)
            self.stop()

    def stop(self) -> None:
        """Stop looking; the next turn begins anew."""
        self._block.close()
        self._measurement = None

    def _begin(self, now_ms: int, every_s: float) -> None:
        self._measurement = self._block.enter_context(self._look(min(os.sched_getaffinity(0)), every_s))
        self._until_ms, self._left_s = now_ms + LASTS_MS, LASTS_MS // 1000

    def _keep(self, speed: float | None) -> None:
        if speed is None:
            return
        self.speed = speed
        temporary = self._path.with_suffix(".new")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps({"machine": self._machine, "speed": speed}))
        temporary.replace(self._path)

    def _stored_speed(self) -> float | None:
        try:
            document = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return None
        return document.get("speed") if document.get("machine") == self._machine else None
