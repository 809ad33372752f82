"""Threads of the worker that deliver: a receiver that does not answer holds one of them, and no job waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog
from django.db import connections

log = structlog.get_logger(__name__)
MOST = 8


class DeliveryThreads:
    """Sends what is due in threads beside the worker's own.

    A thread that is cut off with its process leaves its message claimed, and that is sent again.

    Parameters
    ----------
    send : callable
        Sends what is due; any number of threads may do so at a time.
    """

    def __init__(self, send: Callable[[], object], *, most: int = MOST) -> None:
        self._send, self._most = send, most
        self._lock, self._threads = threading.Lock(), set[threading.Thread]()

    def start(self) -> bool:
        """Let another thread send; False where all of them are held."""
        with self._lock:
            if len(self._threads) >= self._most:
                return False
            thread = threading.Thread(target=self._run, name="delivery", daemon=True)
            self._threads.add(thread)
            thread.start()
            return True

    def stop(self, *, within_s: float) -> None:
        """Wait so long for those that are sending."""
        end_s = time.monotonic() + within_s
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, end_s - time.monotonic()))

    def _run(self) -> None:
        try:
            self._send()
        except Exception:  # such as a database that is away: the next one tries again
            log.exception("not_sent")
        finally:
            connections.close_all()  # the thread's own
            with self._lock:
                self._threads.discard(threading.current_thread())
