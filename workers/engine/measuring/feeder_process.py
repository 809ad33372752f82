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

from workers.engine.trial_store import TrialFailed
from workers.engine.worker_settings import ROOT
from workers.processes import python_path, spawn, stop

from .feeder import Assignment

PATIENCE_S = 30.0


class Feeding:
    """A context in which a query is fed once it is told to ``go``; without that the query feeds itself, from now on."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._process: subprocess.Popen[bytes] | None = None
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._counts: list[tuple[float, int, int]] = []  # when, events so far, how often held back so far
        self._has_begun = False
        self.began_s = 0.0

    @property
    def pids(self) -> set[int]:
        """The feeder's process, while there is one."""
        return set() if self._process is None else {self._process.pid}

    def __enter__(self) -> Feeding:
        self._process = spawn(
            [sys.executable, "-m", "workers.engine.measuring.feeder"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=None, env={**os.environ, "PYTHONPATH": python_path(ROOT)})
        threading.Thread(target=self._listen, args=(self._process,), name="feeder", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        with suppress(OSError):
            process.stdin.close()
        stop(process, timeout_s=1.0)

    def go(self, assignment: Assignment) -> None:
        """Let it read its events, and begin gently."""
        self._has_begun = True
        self._write(json.dumps(asdict(assignment)))
        self._expect("ready")
        self._write("go")
        self.began_s = self._expect("began_ms") / 1000

    def check(self) -> None:
        """Raise ``TrialFailed`` where the feeder has ended: what then comes through says nothing of the task."""
        if self._has_begun and self._process is not None and self._process.poll() is not None:
            raise TrialFailed(
                "agent_stopped", f"What feeds the task has ended with {self._process.returncode}",
                remedy="Order it again; the log of the node's agent says why.")

    def faster(self) -> None:
        """Let it write at the rate: the query has started all that it needs. A source needs nobody who feeds it."""
        if self._has_begun:
            self._write("faster")

    def offered_per_s(self, first_s: float, last_s: float) -> float:
        """The rate in events a second that it wrote between two moments; the rate, where it said nothing then."""
        within = self._between(first_s, last_s)
        if len(within) < 2:
            return self._rate_per_s
        (at_s, sent, _), (then_s, more, _) = within[0], within[-1]
        return (more - sent) / (then_s - at_s)

    def held_back(self, first_s: float, last_s: float) -> bool:
        """True where it wrote less between two moments because the query had not read what was there."""
        within = self._between(first_s, last_s)
        return bool(within) and within[-1][2] > within[0][2]

    def _between(self, first_s: float, last_s: float) -> list[tuple[float, int, int]]:
        while not self._messages.empty():
            message = self._messages.get()
            self._counts.append((self.began_s + message["passed_s"], message["sent"], message["held_back"]))
        return [entry for entry in self._counts if first_s <= entry[0] <= last_s]

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        with process.stdout:
            for line in process.stdout:
                self._messages.put(json.loads(line))

    def _write(self, line: str) -> None:
        with suppress(OSError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _expect(self, field: str) -> Any:
        try:
            return self._messages.get(timeout=PATIENCE_S)[field]
        except (queue.Empty, KeyError) as error:
            raise TrialFailed(
                "agent_stopped", "The process that feeds the trial did not come up",
                remedy="Order it again; the log of the node's agent says what kept it.") from error
