"""Longer intervals under limits that hold with room: equation 3 of paper [5], and more of it. Ours.

In the paper a buffer without waiting items becomes larger. Here the interval of a query that begins a batch with each
write becomes longer. If a limit holds with much room, so do all other intervals, because each batch costs CPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from .stepping import GROW

ROOM = 0.5  # of a limit: as long as the worst sequence is below that, there is much room
FULL = 0.9  # of a limit: no step leads further
LEAST_STEP = 1.01  # a smaller one is not worth a change
NO_WAIT_S = 0.005  # events that wait for less do not wait
REMEMBERED_S = 1800.0  # for how long it is known which intervals were too long


def growth(worst_s: float, limit_s: float, intervals_s: Iterable[float]) -> float:
    """The factor by which intervals may grow together: 1 where not at all.

    Parameters
    ----------
    worst_s : float
        The latency of the worst sequence; where that is not known nothing grows.
    limit_s : float
        Its limit: that is not reached though events wait for all that the intervals become longer by.
    intervals_s : iterable of float
        The longest interval of those that grow, for each task along the sequence.
    """
    together_s = sum(intervals_s)
    if not (together_s > 0 and math.isfinite(worst_s)):
        return 1.0
    factor = 1 + (FULL * limit_s - worst_s) / together_s
    return min(GROW, factor) if factor >= LEAST_STEP else 1.0


def held_at(interval_s: float, *, worst_s: float, limit_s: float, waits_s: float) -> float:
    """The interval with which a limit that is violated would have held with some room, all others changed alike."""
    return interval_s * max(0.0, 1 - (worst_s - FULL * limit_s) / waits_s) if waits_s > 0 else 0.0


class Ceilings:
    """Upper bounds of the intervals of queries, from what was violated lately. So load that swings moves them once."""

    def __init__(self) -> None:
        self._intervals: dict[str, tuple[float, float]] = {}  # interval, and until when it counts

    def note(self, query: str, interval_s: float, *, now_s: float) -> None:
        """A longer interval than this violated a limit."""
        self._intervals[query] = (min(interval_s, self.of(query, now_s=now_s)), now_s + REMEMBERED_S)

    def of(self, query: str, *, now_s: float) -> float:
        """The longest interval that a query may have now."""
        interval_s, until_s = self._intervals.get(query, (math.inf, -math.inf))
        return interval_s if now_s < until_s else math.inf
