"""Bounds of a packing: numbers of slots that none goes below, by sums and by dual feasible functions.

A dual feasible function gives each size a value such that the values of what fits a slot add up to 1 at most: then no
packing has fewer slots than all values together. A packing by CPU and memory is also one by either alone, and by any
mean of the two. All of it is in whole numbers, so nothing is lost to rounding.

References
----------
.. [1] Martello and Toth, "Lower bounds and reduction procedures for the bin packing problem", 1990.
.. [2] Fekete and Schepers, "New classes of fast lower bounds for bin packing problems", 2001.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from .shapes import CAPACITY, Shapes

MEANS = 4  # of CPU and memory: in quarters
STEPS = range(1, 13)  # of the second family of functions


def least_slots(shapes: Shapes) -> int:
    """A number of slots that no packing of these shapes goes below."""
    least = 1 if len(shapes) else 0
    for part in range(MEANS + 1):
        sizes = [
            (part * cpu + (MEANS - part) * memory) // MEANS
            for cpu, memory in zip(shapes.cpu, shapes.memory, strict=True)]
        counted = sorted((size, count) for size, count in zip(sizes, shapes.counts, strict=True) if size)
        least = max(least, _by_thresholds(counted), *(_by_steps(counted, steps) for steps in STEPS))
    return least


def _by_thresholds(counted: Sequence[tuple[int, int]]) -> int:
    """The best bound over all thresholds t: sizes below t count nothing, above the capacity less t a slot [1].

    What is between counts as it is; t = 0 is the sum.
    """
    sums = [0, *accumulate(size * count for size, count in counted)]
    numbers = [0, *accumulate(count for _, count in counted)]
    best, above = 0, len(counted)
    for below, (size, _) in enumerate(counted):
        if 2 * size > CAPACITY:
            return max(best, numbers[-1] - numbers[below])
        # Nothing below this size counts; nothing is both below it and above the rest of the capacity.
        while above and counted[above - 1][0] > CAPACITY - size:
            above -= 1
        best = max(best, numbers[-1] - numbers[above] - (sums[below] - sums[above]) // CAPACITY)
    return best


def _by_steps(counted: Sequence[tuple[int, int]], steps: int) -> int:
    """A size x, as a part of a slot, counts floor((k+1)·x) / k; but x where (k+1)·x is whole [2]."""
    total = 0  # in parts of ``steps`` times the capacity
    for size, count in counted:
        whole, remainder = divmod((steps + 1) * size, CAPACITY)
        total += count * (whole * CAPACITY if remainder else size * steps)
    return -(-total // (steps * CAPACITY))
