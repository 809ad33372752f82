"""Measurements along the slowest way of a latency limit: how much later events leave each query than they came."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.models import LatencyStatus
from scheduler.history.series import TEN_SECONDS
from scheduler.latency.limit_points import LatencyPoint, points_of
from scheduler.model.estate import Estate
from scheduler.model.latency_limits import LatencyLimit


def measured_along(estate: Estate, row: LatencyStatus, limit: LatencyLimit) -> dict[str, float]:
    """The seconds that events spend in each query of the way and on the way to it, in the mean over the limit's span.

    Only queries with measurements at both ends are included. A query that only writes the limit's first stream has 0,
    and one that only reads its last stream has that stream's transport. A query whose events are younger than those of
    the query before it, because it drops late ones, has 0.
    """
    submitted = estate.submitted.get(str(row.dataflow_id))
    path = [estate.fragments[query] for query, *_ in row.path if query in estate.fragments]
    if submitted is None or len(path) < len(row.path) or not all(fragment.active_tasks for fragment in path):
        return {}
    places: Sequence[LatencyPoint] = [
        LatencyPoint(), *(LatencyPoint((fragment.active_tasks[-1],)) for fragment in path)]
    if limit.along:
        queries, places = points_of(estate, str(row.dataflow_id), limit)
        if list(queries) != [fragment.id for fragment in path]:
            return {}
    means = _means(row, limit, places)
    return {
        fragment.id: max(0.0, after - before) for fragment, before, after in zip(path, means, means[1:], strict=False)
        if before is not None and after is not None}


def _means(row: LatencyStatus, limit: LatencyLimit, places: Sequence[LatencyPoint]) -> list[float | None]:
    """The mean age at each of some places, in seconds; None where it was not measured."""
    end_s = int(row.at.timestamp()) + 1
    points = DatabaseHistory().read(
        {line for point in places for line in point.series}, TEN_SECONDS,
        begin_s=end_s - max(int(limit.over_s), TEN_SECONDS.step_s), end_s=end_s)
    known_s = {series: float(np.nanmean(line.values)) / 1000 for series, line in points.items()
               if line.newest is not None}
    means: list[float | None] = []
    for point in places:
        age_s = max((known_s[line] for line in point.ages if line in known_s), default=None) if point.ages else 0.0
        if age_s is None or not known_s.keys() >= {*point.later, *point.twice}:
            means.append(None)
        else:
            means.append(age_s + sum(known_s[line] for line in point.later)
                         + sum(known_s[line] for line in point.twice) / 2)
    return means
