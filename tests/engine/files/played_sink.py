"""A query that stages, a keeper that closes, and ends of both between any two changes of the disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workers.engine.files import disk
from workers.engine.files.closing import FileLimits, close_due
from workers.engine.files.staging import Staging, begin_run, stage

CHANGES = ("write", "move", "remove", "remove_folder")
PER_BATCH = 3


class Killed(BaseException):
    """The process has ended: nothing catches it."""


class Disk:
    """Stands in for the functions of ``disk``: looks before each change, and ends the process before a chosen one."""

    def __init__(self, monkeypatch: Any, look: Callable[[], None] = lambda: None) -> None:
        self.changes, self.kill_at = 0, -1
        self.look = look
        for name in CHANGES:
            monkeypatch.setattr(disk, name, self._watched(name, getattr(disk, name)))
        monkeypatch.setattr(disk.os, "fsync", lambda descriptor: None)

    def _watched(self, name: str, change: Callable[..., None]) -> Callable[..., None]:
        def watched(*arguments: Any) -> None:
            self.look()
            self.changes += 1
            if self.changes == self.kill_at:
                if name == "write":
                    arguments[0].write_bytes(b"half")
                raise Killed
            change(*arguments)

        return watched


class Sink:
    """A sink's folder, and the query that writes it: its checkpoint knows what was planned and what is done."""

    def __init__(self, root: Path, format: str) -> None:
        self.folder, self.checkpoint = root / "sink" / "f1-0", root / "checkpoint"
        self.format = format
        self._numbers_by_file: dict[tuple[object, ...], list[int]] = {}
        self.next_event, self.batch = 0, 0
        self.staging: Staging | None = None
        self.zombies: list[tuple[Staging, int, list[int]]] = []

    def start(self) -> None:
        """Begin, or go on from the checkpoint."""
        run = begin_run(self.folder, self.checkpoint)
        self.staging = Staging(self.folder, self.format, run)

    def step(self) -> None:
        """One batch: planned, staged, done. One that was planned and is not done is repeated."""
        if self.staging is None:
            self.start()
        (self.checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (self.checkpoint / "offsets" / str(self.batch)).touch()
        events = list(range(self.next_event, self.next_event + PER_BATCH))
        self.zombies = [*self.zombies[-3:], (self.staging, self.batch, events)]
        stage(self.staging, self.batch, batches_of(self.format, events))
        self.batch, self.next_event = self.batch + 1, self.next_event + PER_BATCH

    def close(self, *, all_of_it: bool = False, file_bytes: int = 1 << 30) -> None:
        """The keeper's turn."""
        if self.folder.exists():
            close_due(self.folder, FileLimits(file_bytes, 1e9), now_s=0.0, all_of_it=all_of_it)

    def haunt(self) -> None:
        """What was killed writes once more."""
        for zombie in self.zombies:
            staging, batch, events = zombie
            stage(staging, batch, batches_of(self.format, events))

    def killed(self) -> None:
        """The query's process has ended."""
        self.staging = None

    def clear(self) -> None:
        """Between two batches the query gets a fresh checkpoint, as after a pause in which its input moved."""
        if (self.checkpoint / "offsets" / str(self.batch)).exists():  # planned and not done: repeated before that
            self.step()
        disk.shutil.rmtree(self.checkpoint, ignore_errors=True)
        self.staging, self.batch = None, 0

    def visible(self) -> list[int]:
        """What a reader finds, in the order of the stream: first what Spark's sink left."""
        if not self.folder.exists():
            return []
        paths = [path for path in self.folder.iterdir() if not path.name.startswith((".", "_"))]
        ordered = sorted(paths, key=lambda path: (not path.name.startswith("part-"), path.name))
        return [event for path in ordered for event in self._read(path)]

    def _read(self, path: Path) -> list[int]:
        status = path.stat()
        key = (path.name, status.st_ino, status.st_mtime_ns, status.st_size)
        if key not in self._numbers_by_file:
            self._numbers_by_file[key] = read(path)
        return self._numbers_by_file[key]


def batches_of(format: str, events: list[int]) -> list[pa.RecordBatch]:
    if format == "json":
        return [pa.record_batch({"line": [json.dumps({"_seq": event}) for event in events]})]
    return [pa.record_batch({"_seq": events[:1]}), pa.record_batch({"_seq": events[1:]})]


def read(path: Path) -> list[int]:
    if path.suffix == ".json":
        return [json.loads(line)["_seq"] for line in path.read_text().splitlines()]
    return pq.read_table(path)["_seq"].to_pylist()
