"""Leftovers of ended queries in a driver: threads in an expression that does not end.

Spark interrupts the tasks of a stopped query, and they notice between two events. A task that is within one event, as
in a function that takes hours for it, goes on and takes a core from other queries. Only the end of its process ends it.
So a slot looks for leftovers after it has stopped a query, and ends if they last: its other queries are stopped between
two batches first, and come back in the next driver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

LAST_MS = 30_000  # within which a task of a stopped query has to notice
LOOK_MS = 5_000
WATCHED_MS = 120_000  # after the last query was stopped; a leftover is found at the first look


class Leftovers:
    """Finds tasks that work for nobody, by looks a few seconds apart.

    Parameters
    ----------
    ask : callable
        Gives the names of tasks that work at ended stages.
    """

    def __init__(self, ask: Callable[[], Collection[str]]) -> None:
        self._ask = ask
        self._since_ms: dict[str, int] = {}
        self._looks_until_ms = self._looks_at_ms = 0

    def expect(self, *, now_ms: int) -> None:
        """A query was stopped, or failed."""
        self._looks_until_ms = now_ms + WATCHED_MS

    def lasting(self, *, now_ms: int) -> tuple[str, ...]:
        """The tasks that have been left for too long. It looks only for a while after a query was stopped."""
        if now_ms < self._looks_at_ms or (now_ms >= self._looks_until_ms and not self._since_ms):
            return ()
        self._looks_at_ms = now_ms + LOOK_MS
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in self._ask()}
        return tuple(sorted(name for name, since_ms in self._since_ms.items() if now_ms - since_ms >= LAST_MS))
