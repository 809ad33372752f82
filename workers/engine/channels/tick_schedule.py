"""Schedule files: when each sequence number of a finite or repeated source is due.

Little-endian 64-bit integers: due offsets in ms, not descending. With recorded times the file begins with the eight
bytes ``WEIRTCK2`` and holds pairs: due offset, event time in ms since the epoch.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

PAIRS = b"WEIRTCK2"


def write_schedule(path: Path, *, due_ms: Sequence[int], time_ms: Sequence[int] | None = None) -> Path:
    """Write a schedule file, in one step so that no query sees half of it.

    Parameters
    ----------
    due_ms : sequence of int
        The time at which each number is due, in ms after the source started; not descending.
    time_ms : sequence of int, optional
        Event times, in ms since the epoch; without them an event's time is when it is due.

    Raises
    ------
    ValueError
        The due offsets descend, or the two sequences differ in length.
    """
    due = np.asarray(due_ms, dtype="<i8")
    if np.any(np.diff(due) < 0):
        raise ValueError("due offsets must not descend")
    if time_ms is not None and len(time_ms) != len(due):
        raise ValueError(f"{len(due)} due offsets, but {len(time_ms)} times")
    scratch = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    if time_ms is None:
        scratch.write_bytes(due.tobytes())
    else:
        scratch.write_bytes(PAIRS + np.column_stack([due, np.asarray(time_ms, dtype="<i8")]).tobytes())
    os.replace(scratch, path)
    return path


def read_schedule(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """The due offsets of a schedule file, and the recorded times where it has them; mapped, not loaded."""
    with path.open("rb") as file:
        pairs = file.read(len(PAIRS)) == PAIRS
    if not path.stat().st_size:
        return np.empty(0, dtype="<i8"), None
    if not pairs:
        return np.memmap(path, dtype="<i8", mode="r"), None
    if path.stat().st_size == len(PAIRS):
        return np.empty(0, dtype="<i8"), np.empty(0, dtype="<i8")
    table = np.memmap(path, dtype="<i8", mode="r", offset=len(PAIRS)).reshape(-1, 2)
    return table[:, 0], table[:, 1]


class TickSchedule:
    """The times at which numbers are due, in ms after number 0; the Java side computes the same
    (``TickSchedule.java``).

    Parameters
    ----------
    file : path, optional
        A schedule file, repeated ``repeat_ms`` later each time where that is positive.
    """

    def __init__(
        self, *, rate_per_s: float | None = None, file: Path | None = None, limit: int | None = None,
        repeat_ms: int = 0,
    ) -> None:
        self._rate_per_s = rate_per_s
        self._repeat_ms = repeat_ms
        self._due = None if file is None else read_schedule(file)[0]
        endless = self._due is None or (repeat_ms > 0 and len(self._due) > 0)
        sizes = [size for size in (limit, None if endless else len(self._due)) if size is not None]
        self.size = min(sizes, default=None)
        self.may_skip = self._due is None and limit is None

    def due_ms(self, numbers: np.ndarray) -> np.ndarray:
        """The due offsets of some numbers."""
        if self._due is None:
            return np.floor(numbers * 1000.0 / self._rate_per_s).astype(np.int64)
        rounds, index = np.divmod(numbers, len(self._due))
        return rounds * self._repeat_ms + self._due[index]

    def due_of(self, number: int) -> int:
        """The due offset of one number."""
        return int(self.due_ms(np.array([number], dtype=np.int64))[0])
