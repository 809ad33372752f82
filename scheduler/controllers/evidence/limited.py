"""The latency of a limit over kept history, as it counts: mean or percentile, of the whole or along a part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.history.series import TASK, Series
from scheduler.latency.limit_points import LatencyPoint, behind, metric_of, points_of
from scheduler.model.estate import Estate
from scheduler.model.latency_limits import LatencyLimit

from .lines import KeptSeries, Line

METRIC = "metric"  # in a decision's arguments, where its limit is looked at
_BEGIN, _END, _SOURCE = ("heads", "heads_stream"), ("ends", "ends_stream"), "heads_source"


def measured_by(estate: Estate, dataflow: str, limit: LatencyLimit) -> dict[str, str]:
    """The arguments of a decision on a limit by which its effect can be measured: running tasks stay, whatever is
    fused."""
    submitted = estate.submitted[dataflow]
    if not limit.along:
        return {METRIC: metric_of(limit), "ends": " ".join(submitted.running[task] for task in submitted.sinks)}
    _, points = points_of(estate, dataflow, limit)
    noted = [(METRIC, metric_of(limit))]
    for names, point in zip((_BEGIN, _END), (points[0], points[-1]) if points else (), strict=False):
        noted += zip(names, (" ".join(point.tasks), point.stream), strict=True)
    noted += [(_SOURCE, point.source) for point in points[:1]]
    return {name: value for name, value in noted if value}


@dataclass(frozen=True, slots=True)
class LimitSeries:
    """The series that a limit is measured by: at its end by its own metric, and where it is along a part the mean there
    and where it begins."""

    ends: tuple[Series, ...]
    begin: LatencyPoint
    end: LatencyPoint

    @classmethod
    def of(cls, noted: Mapping[str, str], estate: Estate) -> LimitSeries:
        """The series that `measured_by` noted, as things are now; none where a decision is about no limit."""
        begin, end = (
            LatencyPoint(tuple(noted.get(tasks, "").split()), noted.get(stream, ""))
            for tasks, stream in (_BEGIN, _END))
        if source := noted.get(_SOURCE):
            begin = behind(estate, source)
        return cls(tuple(Series(TASK, task, noted.get(METRIC, "")) for task in end.tasks), begin, end)

    @property
    def is_whole(self) -> bool:
        """True if it is from when events come to when they leave its ends."""
        return self.begin == LatencyPoint() and not self.end.stream

    @property
    def all(self) -> tuple[Series, ...]:
        """The series to read."""
        return self.ends if self.is_whole else tuple(dict.fromkeys((*self.ends, *self.begin.series, *self.end.series)))

    def latency_ms(self, history: KeptSeries) -> Line:
        """The latency at each moment: of a percentile along a part as much more than the mean as it is at the end."""
        if self.is_whole:
            return history.most(self.ends)
        latency_ms = np.maximum(0.0, _age_ms(self.end, history) - _age_ms(self.begin, history))
        if self.ends == self.end.ages:
            return latency_ms
        return latency_ms * history.most(self.ends) / history.most(self.end.ages)


def _age_ms(point: LatencyPoint, history: KeptSeries) -> Line:
    """Age of events at a point. A stream of which nothing is measured is within a query by now: it takes no time."""
    parts = [history.most(point.ages) if point.ages else 0.0,
             np.nan_to_num(history.total(point.later)) if point.later else 0.0,
             history.total(point.twice) / 2 if point.twice else 0.0]
    return sum(parts, np.zeros(len(history.times_s)))
