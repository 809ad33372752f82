"""Work of a driver for queries that are over: a thread in one expression that does not end.

Spark interrupts the tasks of a query that is stopped, and they notice between two events. One that is within an event,
as in a function that takes hours for it, goes on, and takes a core from the queries beside it; only the end of its
process ends it. So a slot that has let a query go looks whether something of it is left, and ends where that lasts:
its other queries are stopped between two batches first, and come back in the next driver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

LAST_MS = 30_000  # so long a task of a stopped query may take to notice
LOOK_MS = 5_000
WATCHED_MS = 120_000  # from when the last query was let go; a task that was left is found at the first look


class Leftovers:
    """Tasks that work for nobody, by looks a few seconds apart.

    Parameters
    ----------
    ask : callable
        The names of tasks that work at stages that are over.
    """

    def __init__(self, ask: Callable[[], Collection[str]]) -> None:
        self._ask = ask
        self._since_ms: dict[str, int] = {}
        self._looks_until_ms = self._looks_at_ms = 0

    def expect(self, *, now_ms: int) -> None:
        """A query was stopped, or failed."""
        self._looks_until_ms = now_ms + WATCHED_MS

    def lasting(self, *, now_ms: int) -> tuple[str, ...]:
        """The tasks that have been left for too long; none is looked for while nothing was let go."""
        if now_ms < self._looks_at_ms or (now_ms >= self._looks_until_ms and not self._since_ms):
            return ()
        self._looks_at_ms = now_ms + LOOK_MS
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in self._ask()}
        return tuple(sorted(name for name, since_ms in self._since_ms.items() if now_ms - since_ms >= LAST_MS))
