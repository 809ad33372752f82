"""A connector host under test, as its agent runs it; and a fragment that reads what it writes, as Spark would."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import redis

from scheduler.contracts.desired import DesiredState, Input, WantedFragment, WantedSlot
from scheduler.contracts.offsets import START, Offset
from scheduler.model.dataflow import Task
from tests.written_blocks import read_blocks
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.connectors.intake import IntakeStore
from workers.processes import spawn, stop

T = TypeVar("T")
ROOT = Path(__file__).parents[3]


def until(is_so: Callable[[], T], *, within_s: float = 180, saying: Callable[[], Any] = lambda: "") -> T:
    """What the question gives as soon as it is true."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        answer = is_so()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"it did not come true: {saying()}")


@dataclass
class Played:
    """A host of node n1 and what it was told to run."""

    broker: redis.Redis
    broker_url: str
    data_dir: Path
    environment: dict[str, str]
    version: int = 0
    process: Any = None
    reports: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    report: dict[str, Any] = field(default_factory=dict)
    seen_states: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def want(self, *fragments: WantedFragment) -> None:
        """Let the node's desired state be these fragments on its only slot."""
        self.version += 1
        NodeStore(self.data_dir, "n1").write_desired(DesiredState(
            version=self.version, node="n1", generation=self.version, slots={"0": WantedSlot(tuple(fragments))}))
        if self.process is not None:
            self.process.stdin.write(b"poke\n")
            self.process.stdin.flush()

    def start(self) -> None:
        """Start the host."""
        self.process = spawn(
            [sys.executable, "-m", "workers.engine.connectors.connector_host"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None, env={
                **os.environ, "REDIS_URL": self.broker_url, "WEIR_NODE": "n1", "WEIR_DATA_DIR": str(self.data_dir),
                "PYTHONPATH": str(ROOT), **self.environment})
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()

    def _listen(self, process: Any) -> None:
        for line in process.stdout:
            self.report = json.loads(line)
            self.events += self.report["events"]
            self.seen_states += [source["state"] for source in self.report["connectors"].values()]

    def kill(self) -> None:
        """End the host as the kernel does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def source(self, task: str) -> dict[str, Any]:
        """What the host reports of a source."""
        return self.report.get("connectors", {}).get(task, {})

    def close(self) -> None:
        """End it in order."""
        if self.process is not None:
            stop(self.process, timeout_s=8)


def fragment_of(task: Task, fragment_id: str = "f1-0", **more: Any) -> WantedFragment:
    """A fragment that begins with a live source."""
    return WantedFragment(fragment_id, (task,), inputs=(Input(keys.intake(task.id), task.id),), **more)


class PlayedReader:
    """A fragment that reads a source's channel, by the place that the broker has for it."""

    def __init__(self, broker: redis.Redis, task: str, fragment_id: str = "f1-0") -> None:
        self._channels, self._id = Channels(broker), fragment_id
        self._channel = keys.intake(task)
        self.store = IntakeStore(broker)
        self.rows: list[dict[str, Any]] = []
        self._read_to: Offset | None = None

    @property
    def has_place(self) -> bool:
        info = self._channels.info(self._channel)
        return info is not None and self._id in info.readers

    def read(self, *, commit: bool = True) -> list[dict[str, Any]]:
        """Everything that has come since, and commit it."""
        info = self._channels.info(self._channel)
        if info is None or self._id not in info.readers:
            return self.rows
        after = max(self._read_to or START, info.readers[self._id])
        assert info.trimmed <= after, "blocks are gone that were not read"
        for entry, rows in read_blocks(self._channels, self._channel, after=after, count=1000):
            self.rows += rows
            self._read_to = entry
        if commit and self._read_to is not None:
            self._channels.commit(self._channel, self._id, self._read_to)
        return self.rows

    def ends_after(self, other: PlayedReader) -> bool:
        """Take over where another ends, as a slot lets an heir do it; whether it has its place then."""
        self._channels.join(self._channel, self._id, where=other._read_to)
        self._channels.unregister(self._channel, other._id, for_good=True)
        return self.has_place

    def numbers(self) -> list[int]:
        """The numbers of the events that were read."""
        return [row["n"] for row in self.read()]
