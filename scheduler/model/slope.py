"""The slope of a series that single outliers do not bend (Theil–Sen)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np


def slope(at: Sequence[float], values: Sequence[float]) -> float:
    """The growth of a value with each unit of ``at``: the median of the slopes between any two points.

    One late batch (the collector's, a neighbour's) among ten bends a least-squares line as far as real growth would;
    the median takes up to a quarter of such points. Infinite where no two points differ in ``at``.

    References
    ----------
    .. [1] Sen, "Estimates of the regression coefficient based on Kendall's tau", 1968.
    """
    x, y = np.asarray(at, dtype=float), np.asarray(values, dtype=float)
    first, second = np.triu_indices(x.size, k=1)
    apart = x[second] - x[first]
    differ = apart != 0
    if not differ.any():
        return inf
    return float(np.median((y[second] - y[first])[differ] / apart[differ]))
