"""A task type that takes its time for each word without taking a core: for benches alone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.model.task_types import TaskType
from workers.library.columns import STREAM
from workers.library.state import fold_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WORD_S = 0.002
AT_ONCE = 10  # words that it waits for together: short waits are too long where cores have much to do
_words = itertools.count(1)
SLOW_COUNT = TaskType(
    name="bench_slow_count", kind="transform", family="statistics",
    doc="Counts each word, and waits for two milliseconds for each.", build="tests.benches.slow_count:slow_count",
    effects=(), stateful=True, movable_state=True, by_key=True, passes_key=True, key="word",
    cost_us=1e6 * WORD_S)
TASK_TYPES = [SLOW_COUNT]


@dataclass(frozen=True, slots=True)
class SlowCount:
    """``step`` gives how many events a key has had."""

    def start(self) -> dict[str, int]:
        return {"count": 0}

    def step(self, state: dict[str, int], _: int) -> Iterable[tuple[int]]:
        if next(_words) % AT_ONCE == 0:
            time.sleep(AT_ONCE * WORD_S)
        state["count"] += 1
        return [(state["count"],)]


def slow_count(events: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Each event, with how many its word has had."""
    return fold_stream(
        events, SlowCount(), by=["word"], reads=["_seq"], kept=(*STREAM, "word"), added="count bigint")


def offer_slow_count(folder: Path) -> str:
    """A folder that offers the type to sites and slots, as an installed package does."""
    info = folder / "weir_bench_slow_count-1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weir-bench-slow-count\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[weir.task_types]\nslow_count = tests.benches.slow_count:TASK_TYPES\n")
    return str(folder)
