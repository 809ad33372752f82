"""Points on a regular grid, and how they are folded onto a coarser one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .series import Fold

Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Points:
    """A series' values from ``begin_s`` on, ``step_s`` apart; NaN where nothing was measured.

    A point is of the seconds from its own moment until the next point.
    """

    begin_s: int
    step_s: int
    values: Values

    @property
    def times_s(self) -> NDArray[np.int64]:
        """The beginning of each point, in seconds since the epoch."""
        return self.begin_s + self.step_s * np.arange(len(self.values), dtype=np.int64)

    def at(self, at_s: float) -> float | None:
        """The value of the point that a moment is in; None where nothing was measured."""
        index = int((at_s - self.begin_s) // self.step_s)
        value = self.values[index] if 0 <= index < len(self.values) else np.nan
        return None if np.isnan(value) else float(value)

    @property
    def newest(self) -> float | None:
        """The last value that was measured; None where nothing was."""
        measured = self.values[~np.isnan(self.values)]
        return float(measured[-1]) if len(measured) else None


def folded(values: Values, times: int, fold: Fold) -> Values:
    """Each ``times`` values along the last axis made into one; what is NaN counts for nothing."""
    if times == 1:
        return values
    grouped = values.reshape(*values.shape[:-1], values.shape[-1] // times, times)
    if fold == "max":
        return np.fmax.reduce(grouped, axis=-1)
    if fold == "min":
        return np.fmin.reduce(grouped, axis=-1)
    total = np.nansum(grouped, axis=-1, dtype=np.float64)
    count = np.count_nonzero(~np.isnan(grouped), axis=-1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0).astype(np.float32)


def coarser(points: Points, most_points: int, fold: Fold) -> Points:
    """The same range in ``most_points`` points, or one more; each is folded from a whole number of points."""
    times = -(-(len(points.values) - 1) // most_points)  # a range that begins between two points has one more
    if times <= 1:
        return points
    step_s = points.step_s * times
    begin_s = points.begin_s - points.begin_s % step_s  # so that a range that moves on keeps its buckets
    before = (points.begin_s - begin_s) // points.step_s
    after = -(before + len(points.values)) % times
    padded = np.pad(points.values, (before, after), constant_values=np.nan)
    return Points(begin_s, step_s, folded(padded, times, fold))


def grid(begin_s: int, end_s: int, step_s: int) -> tuple[int, int]:
    """The beginning of the first point of a range, and the number of points: every point that has a second in the
    range."""
    first_s = begin_s - begin_s % step_s
    return first_s, max(0, -(-(end_s - first_s) // step_s))
