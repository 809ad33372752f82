"""One log file a process: a new one at each start of the supervisor, and none that grows without bound."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO

KEPT = 3
LIMIT_BYTES = 10 * 1024 * 1024


class Logs:
    """The log files of one folder, by process name."""

    def __init__(self, folder: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """The file that this process writes now."""
        return self._folder / f"{name}.log"

    def begin(self, name: str) -> None:
        """Move the last run's file aside (``.1`` is the youngest)."""
        path = self.path(name)
        if not path.exists() or path.stat().st_size == 0:
            return
        for number in range(KEPT - 1, 0, -1):
            older = path.with_suffix(f".log.{number}")
            if older.exists():
                older.replace(path.with_suffix(f".log.{number + 1}"))
        path.replace(path.with_suffix(".log.1"))

    def open(self, name: str) -> IO[bytes]:
        """The file for a child's output. It appends, so that ``bound`` can empty it under the child's hands."""
        return self.path(name).open("ab", buffering=0)

    def bound(self) -> None:
        """Empty every file past the limit, keeping what it held as ``.1``."""
        for path in self._folder.glob("*.log"):
            if path.stat().st_size > self._limit_bytes:
                with suppress(OSError):  # on a full disk what the file held is lost, which makes room
                    shutil.copyfile(path, path.with_suffix(".log.1"))
                with path.open("r+b") as file:
                    file.truncate(0)

    def ending(self, name: str, *, lines: int = 15) -> str:
        """The last lines that the process wrote, introduced, for whoever must know why it ended."""
        path = self.path(name)
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8192))
            text = file.read().decode(errors="replace")
        last = [line for line in text.splitlines() if line.strip()][-lines:]
        return "\n".join([f"the end of {path}:", *last])
