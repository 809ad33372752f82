"""Retention: which closed files of sinks are let go. By default none is."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import disk

# What Weir writes: closed files, those of Spark's own sink in earlier versions, and those of ``file_batches``.
_OURS = re.compile(
    r"(events-\d+-\d+-\d+|part-\d+-[0-9a-f-]+(-c\d+)?(\.snappy)?|(?P<batch>\d{12,}-[0-9a-f]{16}))\.(parquet|json|jsonl)")

FEEDS_DAYS = 30


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of the files of each running sink: so many days, so many bytes; 0 is without a limit."""

    days: float = 0.0
    most_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    size: int
    written_s: float


def let_go(outputs: Path, retention: Retention, *, now_s: float) -> list[Path]:
    """Remove files of sinks that are past the limits, the oldest first; which were removed.

    Parameters
    ----------
    outputs : Path
        The data folder's ``outputs``. Files there that Weir did not write stay.
    retention : Retention
        Limits for the files of each running sink, whichever queries wrote it.
    """
    if not retention.days and not retention.most_bytes:
        return []
    by_sink: dict[Path, list[_File]] = {}
    for sink, file in _files_in(outputs):
        by_sink.setdefault(sink, []).append(file)
    return [path for files in by_sink.values() for path in _let_go(files, retention, now_s=now_s)]


def drop_feeds(folder: Path, *, now_s: float) -> None:
    """Delete what trials were fed with a month ago: it is made again where it is missing."""
    for path in folder.glob("*.arrow"):
        if now_s - path.stat().st_mtime > FEEDS_DAYS * 86_400:
            disk.remove(path)


def _let_go(files: list[_File], retention: Retention, *, now_s: float) -> Iterator[Path]:
    total = sum(file.size for file in files)
    for file in sorted(files, key=lambda file: (file.written_s, file.path.name)):
        is_old = retention.days and now_s - file.written_s > retention.days * 86_400
        is_too_much = retention.most_bytes and total > retention.most_bytes
        if not is_old and not is_too_much:
            return
        disk.remove(file.path)
        total -= file.size
        yield file.path


def _files_in(outputs: Path) -> Iterator[tuple[Path, _File]]:
    """Each file, with the folder of its sink: of what queries write, that above their own."""
    for parent, folders, names in os.walk(outputs):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            match = _OURS.fullmatch(name)
            if match is None:
                continue
            folder = Path(parent)
            status = (folder / name).lstat()
            if stat.S_ISREG(status.st_mode):
                sink = folder if match["batch"] else folder.parent
                yield sink, _File(folder / name, status.st_size, status.st_mtime)
