"""The first events of a source that can tell them without Spark: those of a recording.

A generator's are Spark's expressions, and what a live source will read is not known before it reads. A package's source
that can tell its own brings ``<build>_first_events(config, count)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from scheduler.model.task_types import TaskType

from . import registry
from .columns import STREAM
from .config import settings
from .files import format_of, replay_files, replay_path
from .json_values import shown
from .replay import REPLAY

LONGEST_LINE = 1 << 20  # characters of a line that are read


def first_events(task_type: TaskType, config: Mapping[str, Any], count: int) -> list[dict[str, Any]] | None:
    """The first events that a source will give, without Weir's own columns; None where that is not known beforehand.

    Raises
    ------
    scheduler.model.errors.WeirError
        The recording cannot be read here.
    """
    function = _recorded if task_type.build == REPLAY.build else registry.companion(task_type, "_first_events")
    return None if function is None else [shown(event) for event in function(config, count)]


def _recorded(config: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    values = settings(REPLAY, config)
    files = replay_files(replay_path(values["path"]))
    kind = format_of(files[0]) if values["format"] == "auto" else values["format"]
    if kind == "parquet":
        import pyarrow.parquet as pq

        batch = next(pq.ParquetFile(files[0]).iter_batches(count), None)
        rows = [] if batch is None else batch.to_pylist()
        return [{name: value for name, value in row.items() if name not in STREAM} for row in rows]
    # As a replay reads it: every line is an event, but for the header of a CSV whose time column is told by its name.
    named = values["time_column"]
    has_header = kind == "csv" and named is not None and not named.isdigit()
    with open(files[0], encoding="utf-8", errors="replace") as text:
        lines = (line.rstrip("\r\n") for line in iter(lambda: text.readline(LONGEST_LINE), "") if line.strip())
        return [{kind: line} for line in islice(lines, int(has_header), int(has_header) + count)]
