"""Kept series, as arrays on one grid of time: any, and those around the steps of defragmentation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.controllers.fusion_candidates import Candidate
from scheduler.history.points import grid
from scheduler.history.port import History
from scheduler.history.series import DATAFLOW, QUERY, STREAM, TASK, Grain, Series
from scheduler.model.estate import Estate

Line = NDArray[np.float64]  # a value for each of ``times_s``; NaN where there is none


@dataclass(frozen=True, slots=True)
class MeasuredMeans:
    """Kept figures at a moment or over a time: by task events out a second, by bundle its CPU in cores, the blocks that
    wait for it and how far apart its batches are (s). What was not measured is left out."""

    out_per_s: Mapping[str, float]
    cores: Mapping[str, float]
    blocks: Mapping[str, float]
    apart_s: Mapping[str, float]


class KeptSeries:
    """Kept series over a range, as arrays on one grid of time.

    Parameters
    ----------
    begin_s, end_s : float
        The range, in seconds since the epoch; both ends are part of it.
    """

    def __init__(
        self, history: History, series: Collection[Series], grain: Grain, begin_s: float, end_s: float
    ) -> None:
        first_s, last_s = int(begin_s), int(end_s) + 1
        self._first_s, count = grid(first_s, last_s, grain.step_s)
        self._step_s = grain.step_s
        self.times_s = self._first_s + grain.step_s * np.arange(count)
        self._points = history.read(set(series), grain, begin_s=first_s, end_s=last_s) if series and count else {}

    def index(self, at_s: float) -> int:
        """The index of the point that a moment is in."""
        return int((at_s - self._first_s) // self._step_s)

    def total(self, series: Sequence[Series]) -> Line:
        """The sum at each moment, of all of them or nothing."""
        return np.sum([self._line(line) for line in series], axis=0) if series else self._empty_line

    def most(self, series: Sequence[Series]) -> Line:
        """The highest of those that are known at each moment."""
        return np.fmax.reduce([self._line(line) for line in series], axis=0) if series else self._empty_line

    def newest(self, line: Line, at_s: float, *, within_s: float) -> float | None:
        """The newest value of a line at a moment, no older than that; None where there is none."""
        until = int(np.searchsorted(self.times_s, at_s, side="right"))
        values = line[max(0, until - int(within_s // self._step_s)):until]
        values = values[np.isfinite(values)]
        return float(values[-1]) if len(values) else None

    @property
    def _empty_line(self) -> Line:
        return np.full(len(self.times_s), np.nan)

    def _line(self, series: Series) -> Line:
        points = self._points.get(series)
        return self._empty_line if points is None else points.values.astype(np.float64)


class Lines:
    """Measured lines of some candidates over a range.

    Parameters
    ----------
    estate : Estate
        The present slots of running tasks: their queries' CPU is asked for.
    begin_s, end_s : float
        The range, in seconds since the epoch; its end is not part of it.
    """

    def __init__(
        self, history: History, estate: Estate, candidates: Sequence[Candidate], *, begin_s: float, end_s: float,
        grain: Grain,
    ) -> None:
        self._estate = estate
        series = {line for candidate in candidates for line in self._about(candidate)}
        self._kept_series = KeptSeries(history, series, grain, begin_s, int(end_s) - 1)
        self.times_s, self.newest = self._kept_series.times_s, self._kept_series.newest

    def cores(self, tasks: Iterable[str]) -> Line:
        """CPU of the queries that these running tasks are in; of all of them or nothing."""
        return self._kept_series.total([Series(QUERY, query, "cpu") for query in self._queries(tasks)])

    def rates(self, tasks: Iterable[str]) -> Line:
        """Events per second of these running tasks together."""
        return self._kept_series.total([Series(TASK, task, "rate_per_s") for task in tasks])

    def latency(self, dataflow: str) -> Line:
        """A dataflow's median latency in ms."""
        return self._kept_series.total([Series(DATAFLOW, dataflow, "latency_p50_ms")])

    def channel(self, stream: tuple[str, str]) -> Line:
        """The part of a channel in a stream's latency, in ms: on the way and in wait for a batch."""
        name = ">".join(stream)
        return self._kept_series.total([Series(STREAM, name, "channel_p50_ms")]) + np.nan_to_num(
            self._kept_series.total([Series(STREAM, name, "wait_p50_ms")]))

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


def middle(line: Line) -> float | None:
    """The median of what was measured; None where nothing was."""
    values = line[np.isfinite(line)]
    return float(np.median(values)) if len(values) else None
