"""Kept series, as arrays on one grid of time: any, and those around the steps of defragmentation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from dashboard.history.store import DatabaseHistory
from scheduler.controllers.defragmentation import Candidate
from scheduler.history.points import grid
from scheduler.history.series import DATAFLOW, QUERY, STREAM, TASK, Grain, Series
from scheduler.model.estate import Estate

Line = NDArray[np.float64]  # a value for each of ``times_s``; NaN where there is none


class Lines:
    """What was measured over a range of what some candidates are about.

    Parameters
    ----------
    estate : Estate
        Where running tasks are now: their queries' CPU is asked for.
    """

    def __init__(
        self, estate: Estate, candidates: Sequence[Candidate], *, begin: datetime, end: datetime, grain: Grain
    ) -> None:
        self._estate = estate
        begin_s, end_s = int(begin.timestamp()), int(end.timestamp())
        first_s, count = grid(begin_s, end_s, grain.step_s)
        self.times_s = first_s + grain.step_s * np.arange(count)
        self._step_s = grain.step_s
        series = {line for candidate in candidates for line in self._about(candidate)}
        self._points = DatabaseHistory().read(series, grain, begin_s=begin_s, end_s=end_s) if series and count else {}

    def cores(self, tasks: Iterable[str]) -> Line:
        """CPU of the queries that these running tasks are in; of all of them or nothing."""
        return self._sum(QUERY, self._queries(tasks), "cpu")

    def rates(self, tasks: Iterable[str]) -> Line:
        """Events per second of these running tasks together."""
        return self._sum(TASK, tasks, "rate_per_s")

    def latency(self, dataflow: str) -> Line:
        """A dataflow's median latency in ms."""
        return self._line(Series(DATAFLOW, dataflow, "latency_p50_ms"))

    def channel(self, stream: tuple[str, str]) -> Line:
        """What a channel adds to a stream's latency in ms: on the way and in wait for a batch."""
        name = ">".join(stream)
        return self._line(Series(STREAM, name, "channel_p50_ms")) + np.nan_to_num(
            self._line(Series(STREAM, name, "wait_p50_ms")))

    def newest(self, line: Line, at_s: float, *, within_s: float) -> float | None:
        """The newest value of a line at a moment, no older than that; None where there is none."""
        until = int(np.searchsorted(self.times_s, at_s, side="right"))
        known = line[max(0, until - int(within_s // self._step_s)):until]
        known = known[np.isfinite(known)]
        return float(known[-1]) if len(known) else None

    def _about(self, candidate: Candidate) -> Iterator[Series]:
        yield Series(DATAFLOW, candidate.dataflow, "latency_p50_ms")
        yield from (Series(QUERY, query, "cpu") for query in self._queries(candidate.tasks))
        yield from (Series(TASK, task, "rate_per_s") for task in candidate.load_tasks)
        for stream in candidate.fusion.streams:
            yield Series(TASK, stream[0], "rate_per_s")
            for metric in ("channel_p50_ms", "wait_p50_ms"):
                yield Series(STREAM, ">".join(stream), metric)

    def _queries(self, tasks: Iterable[str]) -> list[str]:
        fragments = dict.fromkeys(self._estate.places[task][0] for task in tasks)
        return [bundle.id for name in fragments for bundle in self._estate.fragments[name].queries]

    def _sum(self, kind: str, subjects: Iterable[str], metric: str) -> Line:
        lines = [self._line(Series(kind, subject, metric)) for subject in subjects]
        return np.sum(lines, axis=0) if lines else np.full(len(self.times_s), np.nan)

    def _line(self, series: Series) -> Line:
        points = self._points.get(series)
        return np.full(len(self.times_s), np.nan) if points is None else points.values.astype(np.float64)


class Kept:
    """Kept series over a range, as arrays on one grid of time."""

    def __init__(self, series: Collection[Series], grain: Grain, begin: datetime, end: datetime) -> None:
        begin_s, end_s = int(begin.timestamp()), int(end.timestamp()) + 1
        self._first_s, count = grid(begin_s, end_s, grain.step_s)
        self._step_s = grain.step_s
        self.times_s = self._first_s + grain.step_s * np.arange(count)
        self._points = DatabaseHistory().read(
            set(series), grain, begin_s=begin_s, end_s=end_s) if series and count else {}

    def index(self, at: datetime) -> int:
        """Which point a moment is in."""
        return int((at.timestamp() - self._first_s) // self._step_s)

    def total(self, series: Sequence[Series]) -> Line:
        """The sum at each moment, of all of them or nothing."""
        return np.sum([self._line(line) for line in series], axis=0) if series else self._nothing

    def most(self, series: Sequence[Series]) -> Line:
        """The highest of those that are known at each moment."""
        return np.fmax.reduce([self._line(line) for line in series], axis=0) if series else self._nothing

    @property
    def _nothing(self) -> Line:
        return np.full(len(self.times_s), np.nan)

    def _line(self, series: Series) -> Line:
        points = self._points.get(series)
        return self._nothing if points is None else points.values.astype(np.float64)


def middle(line: Line) -> float | None:
    """The median of what was measured; None where nothing was."""
    known = line[np.isfinite(line)]
    return float(np.median(known)) if len(known) else None
