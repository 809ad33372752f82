"""Task types that hold as much state as is asked for, from the first event of a fold or of a key on: for benches
alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.model.task_types import Parameter, TaskType
from workers.library.columns import STREAM
from workers.library.state import fold_stream
from workers.library.state_store import Parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LENGTH = 1_000  # characters of each entry
HOARD = TaskType(
    name="bench_hoard", kind="transform", family="statistics", doc="Counts events by key, and keeps a text of each.",
    build="tests.benches.hoard:hoard", effects=(), stateful=True, movable_state=True, key="all",
    parameters=(Parameter("megabytes", "integer", "How much all texts are.", required=True, minimum=1),))
HOARD_BY_KEY = TaskType(
    name="bench_hoard_by_key", kind="transform", family="statistics",
    doc="Counts the events of each key, and keeps a text with it.", build="tests.benches.hoard:hoard_by_key",
    effects=(), stateful=True, movable_state=True, by_key=True, passes_key=True, key="by",
    parameters=(
        Parameter("by", "list", "The key.", required=True, items="string", column="names"),
        Parameter("kilobytes", "integer", "How much the text of each key is.", required=True, minimum=1)))
TASK_TYPES = [HOARD, HOARD_BY_KEY]


@dataclass(frozen=True, slots=True)
class Hoard:
    """``step`` takes a sequence number and gives how many events its key has had; each key has a text."""

    keys: int

    def start(self) -> dict:
        return {"held": {str(key): [0, f"{key:08d}" * (LENGTH // 8)] for key in range(self.keys)}}

    def parts(self) -> Parts:
        """All are read and written one by one; none is ever due."""
        return {"held": _never}

    def step(self, state: dict, seq: int) -> Iterable[tuple]:
        entry = state["held"][str(seq * 7_919 % self.keys)]
        entry[0] += 1
        return [(entry[0],)]


@dataclass(frozen=True, slots=True)
class KeyHoard:
    """``step`` gives how many events a key has had; it has a text."""

    length: int

    def start(self) -> dict:
        return {"count": 0, "text": "t" * self.length}

    def step(self, state: dict, _: int) -> Iterable[tuple]:
        state["count"] += 1
        return [(state["count"],)]


def _never(_: list) -> None:
    return None


def hoard(events: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Each event, with how many its key has had."""
    fold = Hoard(config["megabytes"] * 1_000_000 // LENGTH)
    return fold_stream(events, fold, by=[], reads=["_seq"], kept=STREAM, added="count bigint")


def hoard_by_key(events: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Each event, with how many its key has had."""
    fold = KeyHoard(config["kilobytes"] * 1_000)
    return fold_stream(
        events, fold, by=config["by"], reads=["_seq"], kept=(*STREAM, *config["by"]), added="count bigint")


def offer_task_types(folder: Path) -> str:
    """A folder that offers the type to slots, as an installed package does."""
    info = folder / "weir_bench_hoard-1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weir-bench-hoard\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[weir.task_types]\nhoard = tests.benches.hoard:TASK_TYPES\n")
    return str(folder)
