"""An embedded broker that a test kills and starts again."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.launcher import broker as embedded
from workers.processes import spawn, stop


class OwnBroker:
    """The broker, which is killed and started again where it was, on what it had."""

    def __init__(self, folder: Path) -> None:
        self._prepared = embedded.prepare(folder)
        self.url = self._prepared.url
        self.start()

    def start(self) -> None:
        self.process = spawn(self._prepared.argv, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 180
        while not embedded.answers(self.url):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def own_broker(folder: Path) -> Iterator[OwnBroker]:
    """Run a broker with its state in a folder."""
    running = OwnBroker(folder)
    try:
        yield running
    finally:
        stop(running.process, timeout_s=5)
