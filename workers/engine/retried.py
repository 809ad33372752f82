"""Retried: something that serves on a thread of its own until it is stopped, and begins again where it failed.

After a second at first, then less and less often; one that has worked for a while begins at a second again.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from workers.engine.agents import backoff
from workers.engine.agents.agent_logs import logger

STARTING, RUNNING, THROTTLED, AWAY, RETRYING = "starting", "running", "throttled", "away", "retrying"
WORKING = (RUNNING, THROTTLED)
MOST_WORDS = 2_000  # characters of what went wrong: it may name all columns of another system's table


class Retried(ABC):
    """Serves, once ``start`` was called, until ``stop``.

    Parameters
    ----------
    kind : str
        Its name in events and logs: ``connector`` or ``sink``.
    """

    def __init__(self, task: str, *, kind: str, on_event: Callable[..., None]) -> None:
        self._task, self._kind, self._on_event = task, kind, on_event
        self._stopping = threading.Event()
        self._state, self._since_ms = STARTING, now_ms()
        self._error = ""
        self._retry_at_ms: int | None = None
        self._failures = self._restarts = 0
        self._log = logger().bind(**{kind: task[:12], "task": task})
        self._thread = threading.Thread(target=self._run, name=f"{kind} {task[:12]}", daemon=True)

    def start(self) -> None:
        """Begin, on a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end."""
        self._stopping.set()

    def join(self, timeout_s: float) -> bool:
        """Wait until it has ended; False where it has not."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # -- on the thread -------------------------------------------------------------------------------------------------

    @abstractmethod
    def _serve(self) -> None:
        """Work until asked to stop; whatever it raises, it is called again."""

    @abstractmethod
    def _words_of(self, error: BaseException) -> str:
        """What went wrong, for the people whose task it is, without secrets."""

    @abstractmethod
    def _is_away(self, error: BaseException) -> bool:
        """Whether the other system does not answer."""

    def _run(self) -> None:
        while not self._stopping.is_set():
            began_ms = now_ms()
            try:
                self._serve()
            except BaseException as error:  # another system may fail in whatever way, and in Rust by a panic, which
                # is no Exception; the others go on
                self._fail(error, ran_ms=now_ms() - began_ms)
                self._stopping.wait(max(0, self._retry_at_ms - now_ms()) / 1000)

    def _become(self, state: str) -> None:
        if state == self._state:
            return
        if self._error and state in WORKING:
            self._on_event(f"{self._kind}_back", task=self._task)
            self._error, self._retry_at_ms = "", None
        self._state, self._since_ms = state, now_ms()

    def _fail(self, error: BaseException, *, ran_ms: int) -> None:
        self._failures = backoff.failures_after(self._failures, ran_ms=ran_ms if self._state in WORKING else 0)
        self._restarts += 1
        message = self._words_of(error)[:MOST_WORDS]
        if message != self._error:
            self._on_event(f"{self._kind}_failed", task=self._task, error=message)
            self._log.warning(f"{self._kind} failed", error=message)
        self._error = message
        self._retry_at_ms = now_ms() + backoff.delay_ms(self._failures)
        state = AWAY if self._is_away(error) else RETRYING
        if state != self._state:
            self._state, self._since_ms = state, now_ms()


def now_ms() -> int:
    """The time in ms since the epoch."""
    return time.time_ns() // 1_000_000
