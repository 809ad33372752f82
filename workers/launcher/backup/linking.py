"""A snapshot of files by hard links: files that are deleted or replaced later stay in it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class LinkedFiles:
    """Files of a data folder, held in a folder of links.

    ``sizes`` is by path below the data folder: no more of a file counts, for what is appended later is not of then.
    """

    data_dir: Path
    folder: Path
    sizes: dict[str, int] = field(default_factory=dict)

    def take(self, paths: Iterable[Path], *, where: Callable[[str], bool] = lambda _: True) -> None:
        """Hold these files; what is gone by now is left out."""
        for path in paths:
            name = path.relative_to(self.data_dir).as_posix()
            if not where(name):
                continue
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                _link(path, target)
                if not stat.S_ISREG((status := target.lstat()).st_mode):  # a slot's link leads anywhere
                    target.unlink()
                    continue
                self.sizes[name] = status.st_size
            except FileNotFoundError:
                continue

    def take_sqlite(self, paths: Iterable[Path]) -> None:
        """Hold copies of files of SQLite, which are changed in place and not complete by themselves."""
        for path in paths:
            name = path.relative_to(self.data_dir).as_posix()
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            try:
                with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as source, \
                        closing(sqlite3.connect(target)) as copied:
                    source.backup(copied)
            except sqlite3.OperationalError:
                if path.exists():
                    raise
                continue  # it is gone by now
            self.sizes[name] = target.stat().st_size

    def clear(self) -> None:
        """Let everything go."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.sizes.clear()


def _link(path: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(path, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        shutil.copy2(path, target, follow_symlinks=False)


def signature(paths: Iterable[Path]) -> frozenset[tuple[str, int, int, int]]:
    """A value that changes when any of these files is made, replaced, changed or deleted."""
    entries = []
    for path in paths:
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        entries.append((str(path), status.st_ino, status.st_mtime_ns, status.st_size))
    return frozenset(entries)
