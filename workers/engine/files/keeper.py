"""The keeper of a node's outputs: closes what queries staged, whether they run, rest or are gone; drops old files.

It is a thread of the node's agent. An agent that is killed leaves a state from which the next one goes on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workers.engine.worker_settings import Settings

from .closing import FileLimits, close_due
from .folder import META, FolderBusy
from .retention import Retention, drop_feeds, let_go
from .spark_sink import METADATA

TURN_S = 5.0
LOOK_S = 30.0  # for new folders
RETENTION_S = 600.0
LEVELS = 128  # of folders, which have names of 200 characters at most
TRIAL = "trial-"  # folders of trials, which are removed with them
Report = Callable[..., None]


class FileKeeper:
    """Looks after all folders of file sinks of a node."""

    def __init__(self, outputs: Path, limits: FileLimits, retention: Retention, *, report: Report) -> None:
        self._outputs = outputs
        self._limits = limits
        self._retention = retention
        self._report = report
        self._problems: dict[Path, str] = {}
        self._folders: list[Path] = []
        self._looked_s = self._let_go_s = float("-inf")

    @classmethod
    def of(cls, settings: Settings, *, report: Report) -> FileKeeper:
        """The keeper that settings ask for."""
        return cls(
            settings.data_dir / "outputs", FileLimits(settings.file_mb << 20, settings.file_s),
            Retention(settings.files_keep_days, settings.files_keep_mb << 20), report=report)

    def turn(self, *, now_s: float, all_of_it: bool = False, until_s: float = float("inf")) -> None:
        """Close what is due, and every ten minutes remove what is no longer kept.

        Parameters
        ----------
        until_s : float, optional
            The time at which the rest is left for later, in seconds of the monotonic clock.
        """
        if all_of_it or now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            with self._telling(self._outputs):
                self._folders = sorted(sink_folders(self._outputs))
        for folder in self._folders:
            if time.monotonic() >= until_s:
                return
            with self._telling(folder):
                close_due(folder, self._limits, now_s=now_s, all_of_it=all_of_it)
        if now_s - self._let_go_s >= RETENTION_S:
            self._let_go_s = now_s
            with self._telling(self._outputs):
                let_go(self._outputs, self._retention, now_s=now_s)
                drop_feeds(self._outputs.parent / "feeds", now_s=now_s)

    @contextmanager
    def _telling(self, folder: Path) -> Iterator[None]:
        """What goes wrong with one folder is told once, and keeps no other one waiting."""
        try:
            yield
        except FolderBusy:
            return
        except Exception as error:  # whatever a slot has put there
            if self._problems.get(folder) != str(error):
                self._problems[folder] = str(error)
                self._report("files were not closed", folder=str(folder), error=str(error))
        else:
            self._problems.pop(folder, None)


def sink_folders(folder: Path, *, levels: int = LEVELS) -> Iterator[Path]:
    """The folders below one in which queries stage, or Spark's own sink wrote; none of trials, and none deeper."""
    if (folder / META).is_dir() or (folder / METADATA).is_dir():
        yield folder
        return
    with suppress(OSError):  # a trial's is removed meanwhile
        for entry in os.scandir(folder):
            if levels and entry.is_dir(follow_symlinks=False) and not entry.name.startswith(TRIAL):
                yield from sink_folders(Path(entry.path), levels=levels - 1)


class FileThread(threading.Thread):
    """Turns a keeper until it is stopped; then closes what is staged.

    Parameters
    ----------
    enter : callable
        Called once, in the thread: it takes away what the thread is not to reach. Where it fails, nothing is closed.
    """

    def __init__(self, keeper: FileKeeper, *, enter: Callable[[], None]) -> None:
        super().__init__(name="files", daemon=True)
        self._keeper, self._enter = keeper, enter
        self._stopping, self._until_s = threading.Event(), 0.0

    def run(self) -> None:
        """Turn until stopped."""
        self._enter()
        while not self._stopping.wait(TURN_S):
            self._keeper.turn(now_s=time.time())
        self._keeper.turn(now_s=time.time(), all_of_it=True, until_s=self._until_s)

    def stop(self, *, within_s: float) -> None:
        """Close what is staged, in this time; the rest is closed when the node is back. Only once nobody writes."""
        self._until_s = time.monotonic() + within_s
        self._stopping.set()
        if self.is_alive():
            self.join(within_s)
