"""Real-time mode of Spark: batches that stay open, and whose one task takes events as they come.

A batch stays open for ten seconds at least, and for five minutes where few events come. What it reads and publishes,
and that both are exactly once, is Weir's (``LiveReader.java``, ``Journal.java``): of an open batch Spark knows only
where it began.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # agents read checkpoints without Spark
    from pyspark.sql import DataFrame, SparkSession

_JOURNALS = Path("sources", "0", "journal")  # in a checkpoint: a query in real-time mode has one source


@dataclass(frozen=True, slots=True)
class QueryMode:
    """Whether a query's batches stay open; and of one whose do not, why they cannot, or nothing where they can."""

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


def busy_ms(spark: SparkSession, redis_url: str, fragment: str) -> int:
    """For how long the open batch of a fragment has been at work so far, in ms: all the time but for what it waited."""
    return int(spark._jvm.weir.RealTime.busyMs(redis_url, fragment))


def refusal(events: DataFrame) -> str:
    """Why a stream cannot be made in real-time mode, in words; empty where it can."""
    return str(events.sparkSession._jvm.weir.RealTime.refusal(events._jdf))


def still_ms(spark: SparkSession, redis_url: str, fragment: str) -> int:
    """For how long the open batch of a fragment has neither taken an event nor looked for one, in ms: one that waits
    looks once a second. 0 where no batch is open."""
    return int(spark._jvm.weir.RealTime.stillMs(redis_url, fragment))


def rests(spark: SparkSession, redis_url: str, fragment: str) -> bool:
    """Whether a fragment that was paused has no batch open, and opens none until it is resumed."""
    return bool(spark._jvm.weir.RealTime.rests(redis_url, fragment))
