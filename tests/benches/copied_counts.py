"""How large copies of a word count's state are by their interval, without Spark: what is sent to another node.

The folds of shipped types over real text, 2,000 words a second of played time in batches of half a second: ``total``
collects each word's times by the hundred, a window counts each word in 15 minutes, an hour or 12 hours of the events'
time, of which three overlap. A line of text is a tenth of a second of that: half a minute passes in a second. States
are in stores of rows, and copies are made as between two batches of a query: first all, then what is new since the last
one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

from scheduler.contracts.savepoints import Savepoint
from workers.engine.agents.transport.copying import make_copies
from workers.engine.agents.transport.news import AHEAD, NEWER
from workers.engine.agents.transport.parcels import FilesBeside
from workers.engine.agents.transport.store_copies import StoreCopies
from workers.library.batch_states import keeping, parts_of
from workers.library.config import settings
from workers.library.folds import Accumulate, Fold
from workers.library.operators import WINDOW, window_fold
from workers.library.state import NOTHING, ONE, fold_rows
from workers.library.state_store import StoreLocation

from .real_text import lines_of_text
from .recordings import BEGAN_MS

MINUTE_S = 60
WINDOWS_S = {"15 min": 15 * MINUTE_S, "1 h": 60 * MINUTE_S, "12 h": 12 * 60 * MINUTE_S}
COUNTS = ("total", *WINDOWS_S)
LINE_MS = 100
WORDS_PER_S, BATCH_S = 2_000, 0.5
WARM_S = 30  # played, before the first copy
HOLDER = "holder"
ARRIVED_MS = 2 * BEGAN_MS  # long after what events tell of: none is ahead of its time


def sizes_of_copies(count: str, *, intervals_s: Sequence[float], rounds: int) -> list[dict[str, Any]]:
    """A line for each interval: bytes of the state and of a round, and the CPU that making one takes; medians."""
    with tempfile.TemporaryDirectory() as name:
        counting = Counting(count, Path(name))
        counting.go_on(WARM_S)
        counting.copy()
        lines = []
        for interval_s in intervals_s:
            copies = []
            for _ in range(rounds):
                counting.go_on(interval_s)
                copies.append(counting.copy())
            whole, size = counting.whole(), median(size for size, _ in copies)
            lines.append({
                "count": count, "interval, s": interval_s, "state, KB": round(whole / 1024),
                "a copy, KB": round(size / 1024, 1), "of the state": f"{100 * size / whole:.1f}%",
                "KB/s": round(size / 1024 / interval_s, 1), "CPU of a copy, ms": round(
                    1000 * median(cpu_s for _, cpu_s in copies), 1)})
        return lines


@dataclass
class Counting:
    """A fold with its state in a store, and the files of its copies beside it."""

    count: str
    folder: Path
    _text: str = NOTHING
    _words: Iterator[tuple[int, str]] = field(default_factory=lambda: cycle(
        (number, word) for number, line in enumerate(lines_of_text()) for word in line.split(" ")))
    _seq: int = 0

    def __post_init__(self) -> None:
        self._files = FilesBeside(self.folder)
        self._fold, self._reads = self._fold_and_columns()
        self._location = StoreLocation(str(self.folder), "fold", 0)
        self._store = SimpleNamespace(files=self._files, fold_stores=SimpleNamespace(folder=self.folder))

    def go_on(self, seconds: float) -> None:
        """Take in what comes in so many seconds of played time."""
        size = round(WORDS_PER_S * BATCH_S)
        for _ in range(round(seconds / BATCH_S)):
            batch = list(islice(self._words, size))
            words, numbers = [word for _, word in batch], list(range(self._seq, self._seq + size))
            self._seq += size
            columns = {
                "word": words, "value": [1.0] * size, "seq": numbers, "nothing": [None] * size,
                "born": [ARRIVED_MS + number * 1000 // WORDS_PER_S for number in numbers],
                "time": [BEGAN_MS + LINE_MS * line for line, _ in batch],
                "_key": words if self.count == "total" else [ONE] * size}
            keeper = keeping(self._text, self._location, parts_of(self._fold))
            fold_rows(self._fold, keeper.states, columns, reads=self._reads, kept=())
            self._text = keeper.save()
            keeper.close()

    def copy(self) -> tuple[int, float]:
        """Make a copy for another node, as if that had the one before: its bytes, and CPU seconds."""
        before_s = time.process_time()
        make_copies(self._store, (HOLDER,), self._saved)
        past_s = time.process_time() - before_s
        size = self._files.size(HOLDER, NEWER)
        if size is None:
            return self._files.size(HOLDER, AHEAD) or 0, past_s
        self._files.rename(HOLDER, NEWER, AHEAD)
        return size, past_s

    def whole(self) -> int:
        """How many bytes a copy of all has now."""
        return len(StoreCopies(self.folder).copy(self._saved.states) or b"")

    @property
    def _saved(self) -> Savepoint:
        return Savepoint(states={"counts": [self._text]}, repeats=1)

    def _fold_and_columns(self) -> tuple[Fold, tuple[str, ...]]:
        if self.count == "total":
            return Accumulate(100), ("value", "time")
        size_s = WINDOWS_S[self.count]
        _, fold = window_fold(settings(WINDOW, {
            "kind": "sliding", "size": size_s, "slide": size_s / 3, "by": ["word"], "aggregates": ["n=count(*)"]}))
        return fold, ("word", "time", "seq", "born", "word", "nothing")
