"""What was measured along the slowest way of a latency limit: how much later events leave each query than they came."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dashboard.history.store import DatabaseHistory
from dashboard.operations.models import LatencyStatus
from scheduler.history.series import TASK, TEN_SECONDS, Series
from scheduler.model.estate import Estate
from scheduler.model.latency import LatencyLimit

MEAN = "latency_mean_ms"  # in every history; what is limited may be a percentile


def measured_along(estate: Estate, row: LatencyStatus, limit: LatencyLimit) -> dict[str, float]:
    """By query of the way the seconds that events spend there and on the way to it, in the mean over the limit's span.

    Only those are in it for which both ends were measured. Where a query's events are younger than those of the one
    before it (it leaves out those that are late), it is 0.
    """
    submitted = estate.submitted.get(str(row.dataflow_id))
    path = [estate.fragments[query] for query, *_ in row.path if query in estate.fragments]
    if submitted is None or len(path) < len(row.path) or not all(fragment.active_tasks for fragment in path):
        return {}
    lasts = [(fragment.active_tasks[-1],) for fragment in path]
    heads: tuple[str, ...] = ()
    if limit.along:
        lasts[-1] = (submitted.running[limit.along[-1]],)
        heads = tuple(estate.tasks[submitted.running[limit.along[0]]].parents)
    means = _means(row, limit, [heads, *lasts])
    if not heads:
        means[0] = 0.0
    return {
        fragment.id: max(0.0, after - before) for fragment, before, after in zip(path, means, means[1:], strict=False)
        if before is not None and after is not None}


def _means(row: LatencyStatus, limit: LatencyLimit, places: Sequence[Sequence[str]]) -> list[float | None]:
    """The mean age at each of some places, of the slowest task there, in seconds; None where it was not measured."""
    end_s = int(row.at.timestamp()) + 1
    points = DatabaseHistory().read(
        {Series(TASK, task, MEAN) for tasks in places for task in tasks}, TEN_SECONDS,
        begin_s=end_s - max(int(limit.over_s), TEN_SECONDS.step_s), end_s=end_s)
    means: list[float | None] = []
    for tasks in places:
        known = [float(np.nanmean(line.values)) / 1000 for task in tasks
                 if (line := points.get(Series(TASK, task, MEAN))) is not None and line.newest is not None]
        means.append(max(known, default=None))
    return means
