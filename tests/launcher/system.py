"""A running `weir up`, for tests that start the whole system."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil

from workers.processes import descendants, python_path

from .waiting import ROOT, wait_until

READY_LIMIT_S = 180.0
ENDED_LIMIT_S = 60.0


class System:
    """A running `weir up`."""

    def __init__(self, folder: Path, port: int, *, slots: int = 1) -> None:
        self.port = port
        self.lines: list[str] = []
        variables = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
        self.process = subprocess.Popen(
            (sys.executable, "-P", "-m", "workers.launcher", "--slots", str(slots),
             "--port", str(port), "--data-dir", str(folder)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**variables, "PYTHONPATH": python_path(ROOT)},
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        self.lines.extend(self.process.stdout)

    def has_said(self, words: str) -> bool:
        return any(words in line for line in self.lines)

    def until_ready(self) -> None:
        wait_until(lambda: self.has_said("ready after") or self.process.poll() is not None, limit_s=READY_LIMIT_S)
        assert self.has_said("ready after"), "".join(self.lines)

    def pids(self) -> list[int]:
        return descendants(self.process.pid)

    def child(self, words: str) -> psutil.Process:
        [child_process] = [child for child in psutil.Process(self.process.pid).children()
            if words in " ".join(child.cmdline())]
        return child_process

    def status(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def end(self, sent: signal.Signals) -> None:
        self.process.send_signal(sent)
        self.process.wait(ENDED_LIMIT_S)
