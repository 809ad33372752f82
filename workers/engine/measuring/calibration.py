"""Calibration: the speed of a node's cores, measured once, for a minute, as soon as its slots have little to do.

Profiles that come with Weir are told for a core of a known speed (`scheduler/performance/shipped.py`). What is looked
at is the small loop of `speed.py`, by its own CPU time: it takes a hundredth of a core, and other work disturbs it
little. The result stays in the node's folder, and counts until the class of machine is another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from .speed import CoreSpeed

LASTS_MS = 60_000


class Calibration:
    """Measures the speed of the cores once.

    Parameters
    ----------
    look : callable, optional
        Begins to look at a core, given by its number.
    """

    def __init__(self, path: Path, *, machine: str, look: Callable[[int], CoreSpeed] = CoreSpeed) -> None:
        self._path = path
        self._machine = machine
        self._look = look
        self._looking: CoreSpeed | None = None
        self._block = ExitStack()
        self._until_ms = self._left_s = 0
        self.speed = self._kept()

    @property
    def left_s(self) -> int | None:
        """Seconds that it still takes, once it has begun; None before and after."""
        return None if self._looking is None else self._left_s

    def turn(self, now_ms: int, *, is_calm: bool) -> None:
        """Begin if the speed is unknown and the node is calm; end after a minute."""
        if self._looking is None:
            if self.speed is None and is_calm:
                self._looking = self._block.enter_context(self._look(min(os.sched_getaffinity(0))))
                self._until_ms = now_ms + LASTS_MS
                self._left_s = LASTS_MS // 1000
            return
        self._left_s = max(0, (self._until_ms - now_ms) // 1000)
        if now_ms >= self._until_ms:
            self._keep(self._looking.mean())
            self.stop()

    def stop(self) -> None:
        """End the measurement."""
        self._block.close()
        self._looking = None

    def _keep(self, speed: float | None) -> None:
        if speed is None:
            return
        self.speed = speed
        temporary = self._path.with_suffix(".new")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps({"machine": self._machine, "speed": speed}))
        temporary.replace(self._path)

    def _kept(self) -> float | None:
        try:
            document = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return None
        return document.get("speed") if document.get("machine") == self._machine else None
