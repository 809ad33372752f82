"""Filling: one slot after the other, each with what suits best what it has left (bin-centric vector packing).

Best fit looks for a slot for each bundle, and so leaves slots that are full of CPU and half empty of memory. Here each
slot takes the bundle that leaves least of what is scarce, until none fits: better where shapes are many.

References
----------
.. [1] Panigrahy et al., "Heuristics for Vector Bin Packing", 2011: dot product, and L2 norm-based greedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .shapes import CAPACITY, Pattern, Shapes

Suits = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # cost of each, by sizes, what is left, and weights


def filled_slots(shapes: Shapes, counts: Sequence[int]) -> Iterator[dict[Pattern, int]]:
    """A packing of so many of each shape by each way to choose."""
    for suits in (_by_dot_product, _by_distance):
        for weights in ((0.0, 0.0), (1.0, 1.0)):
            yield _filled(shapes, counts, suits, np.array(weights))


def _by_dot_product(sizes: np.ndarray, free_room: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Prefers the bundle whose use has the largest dot product with the free room, weighted by scarcity."""
    return -(weights * free_room) @ sizes


def _by_distance(sizes: np.ndarray, free_room: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Prefers the bundle that leaves the least room: squared, weighted by scarcity."""
    return weights @ (free_room[:, None] - sizes) ** 2


def _filled(shapes: Shapes, counts: Sequence[int], suits: Suits, weights: np.ndarray) -> dict[Pattern, int]:
    """A packing; a weight of 0 stands for all that is still to be packed."""
    sizes, remaining = np.array([shapes.cpu, shapes.memory], dtype=np.int64), np.array(counts, dtype=np.int64)
    parts = sizes / CAPACITY
    patterns: dict[Pattern, int] = {}
    while remaining.any():
        free_room = np.array([CAPACITY, CAPACITY], dtype=np.int64)
        pattern = np.zeros_like(remaining)
        scarce = weights if weights.any() else parts @ remaining
        fitting = np.flatnonzero(remaining)
        while fitting.size:
            room = (sizes[:, fitting] <= free_room[:, None]).all(axis=0)
            fitting = fitting[room & (pattern[fitting] < remaining[fitting])]
            if not fitting.size:
                break
            best = fitting[int(suits(parts[:, fitting], free_room / CAPACITY, scarce).argmin())]
            pattern[best] += 1
            free_room -= sizes[:, best]
        times = int((remaining[pattern > 0] // pattern[pattern > 0]).min())
        if not weights.any():  # what is scarce changes on the way
            times = max(1, times // 4)
        remaining -= times * pattern
        key = tuple(pattern.tolist())
        patterns[key] = patterns.get(key, 0) + times
    return patterns
