"""A line that says how far it is, once something takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

FIRST_S, TERMINAL_S, LINES_S = 1.0, 0.2, 5.0


class ProgressLine:
    """Progress on a terminal as a line that changes, elsewhere as a line now and then.

    Parameters
    ----------
    file : TextIO, optional
        The stream that it is shown on; standard error, so that what a command prints stays clean.
    """

    def __init__(self, file: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file or sys.stderr
        self._clock = clock
        self._stage = ""
        self._next_s = 0.0
        self._is_open = False

    def __call__(self, stage: str, part: float) -> None:
        """So much of this is done, from 0 to 1."""
        now_s = self._clock()
        if stage != self._stage:
            self.end()
            self._stage, self._next_s = stage, now_s + FIRST_S
        if now_s < self._next_s:
            return
        is_terminal = self._file.isatty()
        self._next_s = now_s + (TERMINAL_S if is_terminal else LINES_S)
        self._file.write(f"\rweir: {stage}: {part:4.0%}" if is_terminal else f"weir: {stage}: {part:.0%}\n")
        self._file.flush()
        self._is_open = is_terminal

    def end(self) -> None:
        """The line is over."""
        if self._is_open:
            self._file.write("\n")
            self._is_open = False
