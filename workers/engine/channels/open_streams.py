"""Real-time mode of Spark: batches that stay open, and whose one task takes events as they come.

A batch stays open for ten seconds at least, and for five minutes where few events come. What it reads and publishes,
and that both are exactly once, is Weir's (``LiveReader.java``, ``Journal.java``): of an open batch Spark knows only
where it began.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # agents read checkpoints without Spark
    from pyspark.sql import DataFrame, SparkSession

_JOURNALS = Path("sources", "0", "journal")  # in a checkpoint: a query in real-time mode has one source
_TIMES_STAND_S = 0.25


@dataclass(frozen=True, slots=True)
class QueryMode:
    """The batch mode of a query, and the reason why its batches cannot stay open; empty where they can."""

    is_open: bool = False
    refusal: str = ""

    def document(self) -> dict[str, bool | str]:
        """For a report."""
        return {"real_time": self.is_open, "not_real_time": self.refusal}


def journal(checkpoint: Path) -> tuple[int, list[str]] | None:
    """The newest batch of which something was read in real-time mode, and the offsets that it reached (JSON); None
    where there is none."""
    folder = checkpoint / _JOURNALS
    batches = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    if not batches:
        return None
    try:
        lines = (folder / str(max(batches))).read_text().split("\n")
    except FileNotFoundError:  # it was done, and has been deleted meanwhile
        return None
    return (max(batches), lines[:-1]) if len(lines) > 1 else None  # one without its end was being written


def refusal(events: DataFrame) -> str:
    """The reason why a stream cannot be made in real-time mode, in words; empty where it can."""
    return str(events.sparkSession._jvm.weir.RealTime.refusal(events._jdf))


class OpenTimes:
    """For how long the open batches of a driver have been at work, and for how long they have not moved.

    The JVM is asked for all of them at once, and not again for a quarter of a second: a report tells of each query.
    """

    def __init__(
        self, spark: SparkSession, redis_url: str, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._spark, self._redis_url, self._monotonic_s = spark, redis_url, monotonic_s
        self._asked_s = float("-inf")
        self._times: dict[str, tuple[int, int]] = {}  # busy, still

    def busy_ms(self, fragment: str) -> int:
        """For how long the open batch of a fragment has been at work so far, in ms: all the time but for what it
        waited; 0 where none is open."""
        return self._times_of(fragment)[0]

    def still_ms(self, fragment: str) -> int:
        """For how long the open batch of a fragment has neither taken an event nor looked for one, in ms: one that
        waits looks once a second. 0 where none is open."""
        return self._times_of(fragment)[1]

    def _times_of(self, fragment: str) -> tuple[int, int]:
        if self._monotonic_s() - self._asked_s >= _TIMES_STAND_S:
            lines = self._spark._jvm.weir.RealTime.openTimes(self._redis_url).splitlines()
            self._times = {
                name: (int(busy), int(still)) for busy, still, name in (line.split(" ", 2) for line in lines)}
            self._asked_s = self._monotonic_s()
        return self._times.get(fragment, (0, 0))


@cache
def open_times(spark: SparkSession, redis_url: str) -> OpenTimes:
    """The times of open batches in a session's driver."""
    return OpenTimes(spark, redis_url)


def rests(spark: SparkSession, redis_url: str, fragment: str) -> bool:
    """True where a fragment that was paused has no batch open, and opens none until it is resumed."""
    return bool(spark._jvm.weir.RealTime.rests(redis_url, fragment))
