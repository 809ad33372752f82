"""The feeder's process as its agent sees it: started, told to go, listened to, and ended."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from workers.settings import ROOT
from workers.supervisor.process import spawn, stop
from workers.trials import TrialFailed

from .feeder import Assignment

PATIENCE_S = 30.0


class Feeding:
    """A context in which a query is fed once it is told to ``go``; without that the query feeds itself, from now on."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._process: subprocess.Popen[bytes] | None = None
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._sent: list[tuple[float, int]] = []
        self.began_s = 0.0

    @property
    def pids(self) -> set[int]:
        """The feeder's process, while there is one."""
        return set() if self._process is None else {self._process.pid}

    def __enter__(self) -> Feeding:
        paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self._process = spawn(
            [sys.executable, "-m", "workers.measuring.feeder"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=None, env={**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))})
        threading.Thread(target=self._listen, args=(self._process,), name="feeder", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        with suppress(OSError):
            process.stdin.close()
        stop(process, timeout_s=1.0)

    def go(self, assignment: Assignment) -> None:
        """Let it read its events, and begin gently."""
        self._write(json.dumps(asdict(assignment)))
        self._expect("ready")
        self._write("go")
        self.began_s = self._expect("began_ms") / 1000

    def faster(self) -> None:
        """Let it write at the rate: the query has started all that it needs."""
        self._write("faster")

    def offered_per_s(self, first_s: float, last_s: float) -> float:
        """How many events it wrote a second between two moments; the rate, where it said nothing then."""
        while not self._said.empty():
            said = self._said.get()
            self._sent.append((self.began_s + said["passed_s"], said["sent"]))
        within = [one for one in self._sent if first_s <= one[0] <= last_s]
        if len(within) < 2:
            return self._rate_per_s
        (at_s, sent), (then_s, more) = within[0], within[-1]
        return (more - sent) / (then_s - at_s)

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        with process.stdout:
            for line in process.stdout:
                self._said.put(json.loads(line))

    def _write(self, line: str) -> None:
        with suppress(OSError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _expect(self, what: str) -> Any:
        try:
            return self._said.get(timeout=PATIENCE_S)[what]
        except (queue.Empty, KeyError) as error:
            raise TrialFailed(
                "agent_stopped", "The process that feeds the trial did not come up",
                remedy="Order it again; the log of the node's agent says what kept it.") from error
