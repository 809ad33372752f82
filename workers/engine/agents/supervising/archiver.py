"""Has the archive of classes written, once, in a process of its own with the lowest priority."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from workers.processes import kill_group, spawn

from ..agent_logs import logger

_LOWEST = 19


class Archiver:
    """Runs ``workers.engine.spark.class_archive`` where the agent has nothing better to do.

    A failure is logged and nothing is tried again before the agent's next start: drivers do without an archive.
    """

    def __init__(self, env: Mapping[str, str], *, argv: Sequence[str] | None = None) -> None:
        self._env = env
        self._argv = argv or (sys.executable, "-m", "workers.engine.spark.class_archive")
        self._process: subprocess.Popen[bytes] | None = None
        self._is_done = False

    @property
    def pid(self) -> int | None:
        """Of the process that writes, while it does."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Begin, unless it was begun before."""
        if self._process is None and not self._is_done:
            self._process = spawn(self._argv, env=self._env, stdout=subprocess.DEVNULL)
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _LOWEST)

    def check(self) -> None:
        """Notice its end."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self._is_done, self._process = True, None
            if code:
                logger().warning("no archive of classes was written", code=code, command=" ".join(self._argv))
            else:
                logger().info("archive of classes is seen to")

    def end(self) -> None:
        """Stop writing; the next archiver removes the unfinished file."""
        if self._process is not None:
            kill_group(self._process)
            self._process.wait()
            self._process = None
