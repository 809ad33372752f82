"""A rig of a source that another package brings."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from scheduler.model.dataflow import Task
from tests.packages import EXAMPLE, ROOT, install_package
from workers.launcher import broker as embedded
from workers.processes import spawn, stop

from .rig import COLUMNS, event


class PackageRig:
    """The source of ``docs/example_plugin``, installed as a package is, and a server of its own that it reads."""

    exact, takes_garbage = True, True

    def __init__(self, folder: Path) -> None:
        prepared = embedded.prepare(folder)
        with (folder / "server.log").open("ab") as log:
            self._process = spawn(prepared.argv, stdout=log)
        deadline = time.monotonic() + 180
        while not embedded.answers(prepared.url):
            assert time.monotonic() < deadline, (folder / "server.log").read_text()
            time.sleep(0.02)
        self._client = redis.Redis.from_url(prepared.url)
        address = self._client.connection_pool.connection_kwargs
        self.server, self._password = f"{address['host']}:{address['port']}", address.get("password")
        installed = folder / "installed"
        install_package(EXAMPLE, installed)
        self.environment = {
            "WEIR_CONNECTOR_HOSTS": self.server, "PYTHONPATH": os.pathsep.join((str(ROOT), str(installed)))}
        self._stream = 0

    def anew(self) -> None:
        """A stream of its own for a test."""
        self._stream += 1

    @property
    def stream(self) -> str:
        """The key of the stream of this test."""
        return f"orders{self._stream}"

    def task(self, type: str = "redis_stream", **config: Any) -> Task:
        secret = {"password": self._password} if self._password else {}
        reads = {"columns": COLUMNS, "start": "oldest"} if type == "redis_stream" else {}
        return Task(f"e{self._stream}", type, {
            "server": self.server, "stream": self.stream, **reads, **secret, **config})

    def _add(self, *entries: dict[str, Any]) -> None:
        pipeline = self._client.pipeline()
        for entry in entries:
            pipeline.xadd(self.stream, entry)
        pipeline.execute()

    def send(self, numbers: Sequence[int]) -> None:
        self._add(*(event(number) for number in numbers))

    def send_garbage(self) -> None:
        self._add({"n": "none", "text": "such"})

    def send_other(self, number: int) -> None:
        self._add({"n": number, "more": "new"})

    def leave(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def return_(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        self.return_()
        self._client.close()
        stop(self._process, timeout_s=5)
