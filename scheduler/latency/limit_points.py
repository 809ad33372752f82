"""The beginning and the end of a limit, as points at which history has the ages of events. Their difference is the
measured latency."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.history.series import QUERY, STREAM, TASK, Series
from scheduler.model.estate import Estate
from scheduler.model.latency_limits import PERCENTILES, LatencyLimit

from .ways import part_of

MEAN = "latency_mean_ms"


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """A place on a way, by how old events are there in the mean: as old as they leave the slowest of some running
    tasks, and what a ``stream`` takes; or half of how far apart the batches of a ``query`` are, which its ``source``
    waits for. Without any it is where they come from outside."""

    tasks: tuple[str, ...] = ()
    stream: str = ""
    source: str = ""
    query: str = ""

    @property
    def ages(self) -> tuple[Series, ...]:
        """The series of which the highest counts."""
        return tuple(Series(TASK, task, MEAN) for task in self.tasks)

    @property
    def later(self) -> tuple[Series, ...]:
        """The series that are added to that."""
        return (Series(STREAM, self.stream, "channel_mean_ms"),) if self.stream else ()

    @property
    def twice(self) -> tuple[Series, ...]:
        """The series of which half is added."""
        return (Series(QUERY, self.query, "trigger_ms"),) if self.query else ()

    @property
    def series(self) -> tuple[Series, ...]:
        """All that it is told by."""
        return (*self.ages, *self.later, *self.twice)


def behind(estate: Estate, source: str) -> LatencyPoint:
    """The point where a batch takes the events of a source: how long that waits follows from the query that it is in
    now."""
    place = estate.places.get(source)
    return LatencyPoint(source=source, query=source if place is None else estate.fragments[place[0]].queries[0].id)


def points_of(estate: Estate, dataflow: str, limit: LatencyLimit) -> tuple[tuple[str, ...], tuple[LatencyPoint, ...]]:
    """The queries of a limit along a part, and its points: its beginning, and its end in each query.

    Empty if a task on it is inactive.
    """
    part = part_of(estate, dataflow, limit)
    if part is None:
        return (), ()
    (first, task), passed = part.path[0], part.counted.passed
    head = estate.tasks[estate.fragments[first].tasks[0]]
    if first in passed:
        begin = LatencyPoint((task,))
    elif part.counted.waits:
        begin = LatencyPoint()
    else:
        begin = LatencyPoint(head.parents, f"{head.parents[0]}>{head.id}") if head.parents else behind(estate, head.id)
    points = [begin]
    for query, leaving in part.path:
        if query in passed and len(points) > 1:
            points.append(LatencyPoint(points[-1].tasks, f"{points[-1].tasks[0]}>{estate.fragments[query].tasks[0]}"))
        else:
            points.append(LatencyPoint((leaving,)))
    return part.queries, tuple(points)


def metric_of(limit: LatencyLimit) -> str:
    """The metric by which a limit is measured; of an older one on a percentile that is not measured, the next one."""
    if limit.percentile is None:
        return MEAN
    measured = next((percentile for percentile in PERCENTILES if limit.percentile <= percentile), PERCENTILES[-1])
    return f"latency_p{measured}_ms"
