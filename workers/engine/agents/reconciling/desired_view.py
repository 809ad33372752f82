"""A slot's view of its node's desired state, and how soon it is up to date.

A slot looks at the node's store when its agent tells it of a change, and, should that have been lost, once in a worker
cycle (T_W of paper [4], section 3.4). Between two looks it goes on with what it knows.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.contracts.desired import DesiredState

from ..node_files.node_store import NodeStore

Looking = Callable[[NodeStore], Callable[[], DesiredState]]  # by what of a node's store a slot knows what is desired


class DesiredView:
    """The desired state as a slot knows it."""

    def __init__(self, newest: Callable[[], DesiredState], *, cycle_ms: int) -> None:
        self._newest = newest
        self._cycle_ms = cycle_ms
        self._look_at_ms = 0
        self._desired = DesiredState()

    def notice(self) -> None:
        """Look the next time, whatever the cycle; from any thread."""
        self._look_at_ms = 0

    def at(self, now_ms: int) -> DesiredState:
        """The newest desired state at this time, in ms since the epoch."""
        if now_ms >= self._look_at_ms:
            self._look_at_ms = now_ms + self._cycle_ms  # before the look: a change that comes meanwhile is not missed
            self._desired = self._newest()
        return self._desired
