"""The folder of a file sink: what is whole and may be read, and what is staged in it.

    <folder>/events-<run>-<first batch>-<last batch>.parquet   closed files (or ``.json``): whole, and never changed
    <folder>/.weir/<run>-<batch>.staged                        a batch that is not in a closed file yet
    <folder>/.weir/<name of a file>.closing                    a file that is being closed
    <folder>/.weir/state.json                                  the last batch that is in a closed file
    <folder>/.weir/lock                                        held by who closes, or begins a run

Readers leave out names that begin with a dot, as pyarrow, pandas, DuckDB and Spark do by themselves, and so read each
event once at every moment.

A *run* numbers the checkpoints of a query, each of which counts its batches from 0. ``state.json`` decides: a batch
up to the one that it names is in a closed file, whatever else lies about. It is replaced in one step when the closed
file is written under its name in ``.weir``; that file is moved to its place afterwards, by whoever comes next. So a
process may end at any moment: before that step the file never was, after it its batches are no longer staged.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from . import disk

META, STATE, LOCK = ".weir", "state.json", "lock"
STAGED, CLOSING = ".staged", ".closing"
SUFFIX = {"parquet": ".parquet", "json": ".json"}
_STAGED = re.compile(r"(\d+)-(\d+)\.staged")
LOCK_S, LOOK_S = 20.0, 0.05


class FolderBusy(OSError):
    """Somebody else has held the folder for long."""


@dataclass(frozen=True, slots=True)
class FolderState:
    """The progress of a folder's files: all batches up to ``batch`` of ``run`` are in closed files, the last in
    ``file``.

    ``runs`` is how many runs there have been: the number of the next one.
    """

    run: int = 0
    batch: int = -1
    file: str = ""
    runs: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Staged:
    """A batch that is staged."""

    run: int
    batch: int
    path: Path
    size: int
    staged_s: float


def read_state(folder: Path) -> FolderState:
    """The progress of the folder's files; the beginning where it holds none."""
    try:
        return FolderState(**json.loads(disk.text_of(folder / META / STATE)))
    except FileNotFoundError:
        return FolderState()


def write_state(folder: Path, state: FolderState) -> None:
    """Replace the state, in one step."""
    disk.replace_text(folder / META / STATE, json.dumps(asdict(state)))


def has_state(folder: Path) -> bool:
    """True where the folder has files of this kind already."""
    return (folder / META / STATE).exists()


def staged_name(run: int, batch: int) -> str:
    """The name of a staged batch."""
    return f"{run}-{batch:012d}{STAGED}"


def staged_in(folder: Path) -> list[Staged]:
    """The batches that are staged, in the order of the stream."""
    staged = []
    for entry in os.scandir(folder / META) if (folder / META).is_dir() else ():
        match = _STAGED.fullmatch(entry.name)
        if match is not None:
            status = entry.stat()
            staged.append(Staged(
                int(match[1]), int(match[2]), Path(entry.path), status.st_size, status.st_mtime))
    return sorted(staged)


def recover(folder: Path) -> FolderState:
    """Bring a folder that a process left at any moment to where ``state.json`` says; only with its lock."""
    state, meta = read_state(folder), folder / META
    closing = meta / f"{state.file}{CLOSING}"
    if state.file and closing.exists():
        disk.move(closing, folder / state.file)
    for batch in staged_in(folder):
        if (batch.run, batch.batch) <= (state.run, state.batch):
            disk.remove(batch.path)
    for path in meta.glob(f"*{CLOSING}"):
        disk.remove(path)
    return state


@contextmanager
def locked(folder: Path, *, within_s: float = LOCK_S) -> Iterator[None]:
    """Hold the folder; the kernel lets it go when the process ends.

    Raises
    ------
    FolderBusy
        Somebody else holds it for longer than ``within_s``.
    """
    meta = folder / META
    meta.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + within_s
    descriptor = os.open(meta / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    disk.give_to_owner_of(folder, meta, meta / LOCK)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise FolderBusy(f"{folder} is held by another process") from None
                time.sleep(LOOK_S)
        yield
    finally:
        os.close(descriptor)
