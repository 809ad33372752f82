"""The events that a trial feeds: the tasks upstream make them once, a file keeps them, a cycle replays them.

    <data-dir>/feeds/<digest>.arrow     events in Arrow's file format, with Spark's schema beside Arrow's
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from scheduler.model.canonical import canonical_config, canonical_json
from scheduler.model.columns import number_of
from scheduler.model.errors import WeirError
from scheduler.model.task_types import TaskType
from workers.engine.connectors.arrow_streams import DecodingRoom, batches_of
from workers.engine.files import disk
from workers.library.code import code_digest
from workers.library.registry import companion

EVENTS = 2_000  # distinct ones; then they come again
# A trial lets event time pass faster than the clock: it begins so far back (ms) that it does not come ahead of it.
_BACK_MS = 20 * 365 * 86_400_000
_SCHEMA = b"spark_schema"
_END = b"ARROW1"  # of each file of Arrow


@dataclass(frozen=True)
class EventFeed:
    """Events in the order in which they were made, and their schema as Spark writes it."""

    events: pa.RecordBatch
    schema_json: str

    def between(self, first: int, end: int, *, now_ms: int, most: int) -> Iterator[pa.RecordBatch]:
        """The events of these numbers, born now, in blocks of at most ``most``.

        In each cycle ``_seq`` and ``_time`` go on from the cycle before, so that neither ever goes back.
        """
        rows = self.events.num_rows
        while first < end:
            cycle, start = divmod(first, rows)
            count = min(end - first, rows - start, most)
            yield self._moved(self.events.slice(start, count), cycle, now_ms)
            first += count

    def _moved(self, batch: pa.RecordBatch, cycle: int, now_ms: int) -> pa.RecordBatch:
        columns = []
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if field.name == "_born":
                column = pa.array([now_ms] * batch.num_rows, field.type)
            elif field.name in ("_seq", "_time"):
                begin = -_BACK_MS if field.name == "_time" else 0
                column = pa.array(column.to_numpy() + begin + cycle * self._span(field.name), field.type)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _span(self, name: str) -> int:
        """By how much a cycle advances a column."""
        values = self.events.column(name).to_numpy()
        if name == "_seq":
            values = number_of(values)  # an event stays of its partition
        return int(values.max() - values.min()) + 1


def digest(feed: Sequence[Mapping[str, Any]], task_types: Mapping[str, TaskType]) -> str:
    """A name for the output of a chain of tasks; it changes with the meaning of a config, with code, and with what a
    source reads."""
    chain = [
        [task["type"], task_types[task["type"]].version, code_digest(task_types[task["type"]]),
         canonical_config(task_types[task["type"]], task.get("config", {})),
         _stamp(task_types[task["type"]], task.get("config", {}))]
        for task in feed
    ]
    return hashlib.sha256(canonical_json(chain).encode()).hexdigest()[:24]


def _stamp(task_type: TaskType, config: Mapping[str, Any]) -> Any:
    """What tells apart what a source reads from one time to the next; None of one that reads nothing, or cannot now."""
    try:
        stamp = companion(task_type, "_stamp") if task_type.kind == "source" else None
        return None if stamp is None else stamp(config)
    except (WeirError, OSError):  # the slot says what is wrong
        return None


def path_of(data_dir: Path, name: str) -> Path:
    """The file with the events of that name."""
    return data_dir / "feeds" / f"{name}.arrow"


def write(path: Path, batches: Iterable[pa.RecordBatch], *, schema_json: str) -> int:
    """Keep events in a file, at most ``EVENTS``; returns how many."""
    table = pa.Table.from_batches(list(batches)).slice(0, EVENTS).combine_chunks()
    table = table.replace_schema_metadata({_SCHEMA: schema_json.encode()})
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return table.num_rows


def read_kept(path: Path) -> EventFeed | None:
    """The events of a file; None for a missing or damaged file."""
    try:
        return read(path)
    except (OSError, ValueError):  # Arrow's errors are the one or the other
        return None


def read(path: Path) -> EventFeed:
    """The events of a file, which a slot has written: it decodes to no more than it has bytes.

    Raises
    ------
    OSError, ValueError
        It cannot be read, or is no such file.
    """
    with disk.opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - len(_END)))
        if file.read() != _END:
            raise ValueError(f"{path.name} has no end: it was cut short")
        file.seek(0)
        table = pa.Table.from_batches(batches_of(file, DecodingRoom(EVENTS, 16 * size, size))).combine_chunks()
    schema_json = table.schema.metadata[_SCHEMA].decode()
    (events,) = table.replace_schema_metadata(None).to_batches()
    return EventFeed(events, schema_json)
