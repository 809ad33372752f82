"""Prints of a task's own code, as lines of its log: JSON objects on standard error, as Weir's own lines are."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from .state import query_being_built, task_being_built

LONGEST = 2_000  # characters of a line
LINES_PER_S = 50  # of a Python worker; others are counted and left out
STANDARD_ERROR = 2


@dataclass(frozen=True, slots=True)
class TaskPrints:
    """The running task, and its query, that prints are attributed to. It goes to Python workers with the task's
    function."""

    task: str
    query: str

    @classmethod
    def of_what_is_built(cls) -> TaskPrints:
        """The prints of the task that is being built."""
        return cls(task_being_built(), query_being_built())

    @contextmanager
    def attributed(self) -> Iterator[None]:
        """Attribute to the task what is printed meanwhile: ``info`` on standard output, ``warning`` on standard
        error."""
        out, err = _Lines(self, "info"), _Lines(self, "warning")
        try:
            with redirect_stdout(out), redirect_stderr(err):
                yield
        finally:
            out.end()
            err.end()


class _Lines(io.TextIOBase):
    """A stream that writes whole lines, each with whose it is."""

    def __init__(self, prints: TaskPrints, level: str) -> None:
        self._prints, self._level, self._rest = prints, level, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._tell(line)
        self._rest = self._rest[:LONGEST]
        return len(text)

    def end(self) -> None:
        """Write what has no end yet."""
        self._tell(self._rest)
        self._rest = ""

    def _tell(self, line: str) -> None:
        if line.strip() and (written := _budget.lines(line.rstrip()[:LONGEST], now_s=time.monotonic())):
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            whose = {"level": self._level, "task": self._prints.task, "fragment": self._prints.query, "timestamp": at}
            with suppress(OSError):
                os.write(STANDARD_ERROR, "".join(
                    f"{json.dumps({'event': event, **whose})}\n" for event in written).encode())


@dataclass(slots=True)
class Budget:
    """So many lines a second."""

    since_s: float = float("-inf")
    written: int = 0
    left_out: int = 0

    def lines(self, line: str, *, now_s: float) -> tuple[str, ...]:
        """Lines to write for a line: itself, and before it how many others were not; nothing beyond the budget."""
        if now_s - self.since_s >= 1.0:
            notice = [f"{self.left_out} lines were left out: more than {LINES_PER_S} a second."] * bool(self.left_out)
            self.since_s, self.written, self.left_out = now_s, 1, 0
            return *notice, line
        if self.written >= LINES_PER_S:
            self.left_out += 1
            return ()
        self.written += 1
        return (line,)


_budget = Budget()  # of this process
