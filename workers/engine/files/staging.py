"""Staging: how a query writes the batches of a file sink, each whole or not at all.

A batch that Spark repeats stages the same events under the same name; one that is in a closed file by then is left
out when files are closed. So the writer needs no lock, and one that was thought dead does no harm.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from workers.library.disk_room import require_room

from . import disk
from .folder import META, FolderState, has_state, locked, read_state, recover, staged_name, write_state
from .spark_sink import adopt, clear_uncommitted

if TYPE_CHECKING:
    import pyarrow as pa

RUN = "files_run"  # a file in the query's checkpoint, which goes with it
_WRITING = "writing-"


@dataclass(frozen=True, slots=True)
class Staging:
    """The place where a query stages its batches: the sink's folder, its format (``parquet`` or ``json``), and the
    run."""

    folder: Path
    format: str
    run: int = 0


def begin_run(folder: Path, checkpoint: Path) -> int:
    """The run of a query that is about to start from its checkpoint; only for who alone may start it.

    A checkpoint that has no run gets the next one, but for that of an earlier version, whose batches Spark's own file
    sink wrote: it goes on after the last of these.

    Raises
    ------
    OSError
        The disk is full, or another process holds the folder.
    """
    run_file = checkpoint / RUN
    with locked(folder):
        state = recover(folder)
        if run_file.exists():
            run = int(run_file.read_text())
        else:
            has_begun = any((checkpoint / "offsets").glob("[0-9]*"))
            if has_begun and not has_state(folder):
                clear_uncommitted(folder)
            state = adopt(folder) or state
            run = 0 if has_begun and state.runs <= 1 else state.runs
        if run >= state.runs:
            write_state(folder, FolderState(state.run, state.batch, state.file, run + 1))
        if not run_file.exists():
            checkpoint.mkdir(parents=True, exist_ok=True)
            disk.replace_text(run_file, str(run))
        for path in (folder / META).glob(f"{_WRITING}*"):  # of a query that was killed
            disk.remove(path)
    return run


def stage(staging: Staging, batch: int, batches: Iterable[pa.RecordBatch]) -> int:
    """Stage a batch's events; how many there were. Without events nothing is written.

    Raises
    ------
    OSError
        The disk is full, but for the room that sinks leave.
    """
    filled = (part for part in batches if part.num_rows)
    first = next(filled, None)
    if first is None:
        return 0
    state = read_state(staging.folder)
    if (staging.run, batch) <= (state.run, state.batch):  # repeated, and in a closed file by now
        return first.num_rows + sum(part.num_rows for part in filled)
    meta = staging.folder / META
    meta.mkdir(parents=True, exist_ok=True)
    require_room(meta)
    path = meta / f"{_WRITING}{staging.run}-{batch}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    write = _write_lines if staging.format == "json" else _write_arrow
    count = 0

    def fill(file: IO[bytes]) -> None:
        nonlocal count
        count = write(file, first, filled)

    disk.write(path, fill)
    disk.move(path, meta / staged_name(staging.run, batch))
    return count


def _write_lines(file: IO[bytes], first: pa.RecordBatch, more: Iterable[pa.RecordBatch]) -> int:
    count = 0
    for part in (first, *more):
        lines = part.column(0).to_pylist()
        file.write("".join(f"{line}\n" for line in lines).encode())
        count += len(lines)
    return count


def _write_arrow(file: IO[bytes], first: pa.RecordBatch, more: Iterable[pa.RecordBatch]) -> int:
    import pyarrow as pa

    count = 0
    with pa.ipc.new_file(file, first.schema) as writer:
        for part in (first, *more):
            writer.write_batch(part)
            count += part.num_rows
    return count
