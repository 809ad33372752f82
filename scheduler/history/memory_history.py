"""A history in memory: for controllers in played time, for tests, and to hold any other history to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import numpy as np

from .points import Points, folded, grid
from .series import GRAINS, MINUTE, SECOND, Annotation, Grain, Series

LATE_S = 60  # for so long after a point's end it is left as it is: values may still come


class MemoryHistory:
    """A history whose points are dictionaries by time, one for each series and grain."""

    def __init__(self) -> None:
        self._points: dict[Grain, dict[Series, dict[int, float]]] = {grain: {} for grain in GRAINS}
        self._annotations: dict[Annotation, None] = {}
        self._newest_s = -1

    def append(self, at_s: int, values: Mapping[Series, float]) -> None:
        """Take in what was measured in one second, newer than the last one."""
        if at_s <= self._newest_s:
            return
        self._newest_s = at_s
        seconds = self._points[SECOND]
        for series, value in values.items():
            seconds.setdefault(series, {})[at_s] = value

    def flush(self) -> None:
        """Do nothing: all that there is ends with the process."""

    def annotate(self, annotations: Collection[Annotation]) -> None:
        """Keep what happened."""
        self._annotations |= dict.fromkeys(annotations)

    def read(
        self, series: Collection[Series], grain: Grain, *, begin_s: int, end_s: int
    ) -> Mapping[Series, Points]:
        """Points of a grain in a range, for each series that is known."""
        first_s, count = grid(begin_s, end_s, grain.step_s)
        stored = [line for line in dict.fromkeys(series) if any(line in points for points in self._points.values())]
        return {line: Points(first_s, grain.step_s, self._values(line, grain, first_s, count)) for line in stored}

    def series_of(self, kind: str, subjects: Collection[str]) -> Sequence[Series]:
        """The series that are known of some subjects of a kind."""
        subject_set = set(subjects)
        lines = {line for points in self._points.values() for line in points}
        return sorted(
            (line for line in lines if line.kind == kind and line.subject in subject_set),
            key=lambda line: (line.subject, line.metric))

    def annotations(self, *, begin_s: int, end_s: int, subjects: Collection[tuple[str, str]]) -> Sequence[Annotation]:
        """The annotations of any of these in a range, the oldest first."""
        subject_set = set(subjects)
        return sorted(
            (note for note in self._annotations
             if begin_s <= note.at_s < end_s and (note.kind, note.subject) in subject_set),
            key=lambda note: (note.at_s, note.what, note.kind, note.subject))

    def tidy(self, now_s: int) -> None:
        """Fold what is older than a grain keeps into the next one, and forget what the coarsest no longer keeps."""
        for grain, coarse in pairwise(GRAINS):
            before_s = now_s - grain.keep_s - LATE_S
            before_s -= before_s % coarse.step_s
            for line, points in self._points[grain].items():
                self._fold_into(coarse, line, sorted(at_s for at_s in points if at_s < before_s), points)
        for points in self._points[MINUTE].values():
            for at_s in [at_s for at_s in points if at_s < now_s - MINUTE.keep_s]:
                del points[at_s]
        for by_series in self._points.values():
            for line in [line for line, points in by_series.items() if not points]:
                del by_series[line]
        self._annotations = {
            note: None for note in self._annotations if note.at_s >= now_s - MINUTE.keep_s}

    def _fold_into(self, coarse: Grain, line: Series, times_s: Sequence[int], points: dict[int, float]) -> None:
        groups: dict[int, list[float]] = {}
        for at_s in times_s:
            groups.setdefault(at_s - at_s % coarse.step_s, []).append(points.pop(at_s))
        for at_s, values in groups.items():
            self._points[coarse].setdefault(line, {})[at_s] = _fold(line, values)

    def _values(self, line: Series, grain: Grain, first_s: int, count: int) -> np.ndarray:
        """The stored values of a grain, with its gaps filled from finer ones."""
        values = np.full(count, np.nan, dtype=np.float32)
        finer = GRAINS[: GRAINS.index(grain)]
        stored_at = [at_s for fine in finer for at_s in self._points[fine].get(line, ())]
        if stored_at and count:  # only where there are any: of weeks the newest day is kept in finer grains
            begin = min(max(0, (min(stored_at) - first_s) // grain.step_s), count)
            end = min(max(begin, (max(stored_at) - first_s) // grain.step_s + 1), count)
            times = grain.step_s // finer[-1].step_s
            values[begin:end] = folded(self._values(
                line, finer[-1], first_s + begin * grain.step_s, (end - begin) * times), times, line.fold)
        points = self._points[grain].get(line, {})
        moments = range(first_s, first_s + count * grain.step_s, grain.step_s)
        for at_s in points if len(points) < count else moments:  # a short range of much that is kept is read quickly
            index = (at_s - first_s) // grain.step_s
            if 0 <= index < count and (value := points.get(at_s)) is not None:
                values[index] = value
        return values


def _fold(line: Series, values: Sequence[float]) -> float:
    return float(folded(np.array(values, dtype=np.float32), len(values), line.fold)[0])
