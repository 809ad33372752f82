"""Adaptive output buffer sizing (paper [5], 3.5.1, equations 2 and 3) on intervals: small steps by what is measured.

What waits for a query's next batch is its output buffer: it takes an interval to fill, and events wait half of it.
Selectable in place of `pacing.pace`, and compared with it in ``docs/latency.md``.
"""

from __future__ import annotations

from scheduler.model.latency_limits import SHORTEST_S

from .buffers import BufferSizing, adapted_size

SHRINK = 0.98  # r, for each ms that events wait
GROW = 1.1  # s
FILLED = 0.8  # of its interval a batch may take, so that the next one starts in time


def shortened_s(interval_s: float, *, lifetime_s: float, batch_s: float) -> float:
    """The next interval of a query on a sequence that violates its limit.

    Parameters
    ----------
    interval_s : float
        The interval of its batches, in seconds.
    lifetime_s : float
        Twice what events were measured to wait for a batch of it.
    batch_s : float
        The cost of a batch: where events wait for less than that, it is not the wait that is slow.
    """
    sizing = BufferSizing(smallest=SHORTEST_S, shrink=SHRINK)
    wanted_s = adapted_size(interval_s, lifetime_s=lifetime_s, source_latency_s=batch_s, sizing=sizing)
    return min(interval_s, max(wanted_s, batch_s / FILLED))


def lengthened_s(interval_s: float, *, longest_s: float) -> float:
    """The next interval of a query for whose batches nobody waits."""
    return min(longest_s, GROW * interval_s)
