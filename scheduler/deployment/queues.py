"""Queues: whether the events that wait for a bundle become more, by what waited over the last minutes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

LEAST_BLOCKS = 16.0  # by which a queue has to have grown: a sixteenth of what a channel holds
GROWTH = 1.5  # as a multiple of what waited before
LEAST_POINTS = 9


def grows(waiting: Sequence[float]) -> bool:
    """True if a queue grows: in each third of the time more waits than in the one before, and in the last much more.

    Medians of thirds, so that no single batch, and no wave that is shorter than a third, counts as growth.

    Parameters
    ----------
    waiting : sequence of float
        The waiting blocks at moments that are equally far apart, oldest first; NaN where that is not known.
    """
    lengths = [value for value in waiting if not math.isnan(value)]
    if len(lengths) < LEAST_POINTS:
        return False
    third = len(lengths) // 3
    first, middle, last = (median(part) for part in (lengths[:third], lengths[third:-third], lengths[-third:]))
    return first <= middle < last and last >= first + LEAST_BLOCKS and last >= GROWTH * first
