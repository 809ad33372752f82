"""Reading kept history for a viewer: of what they may know of now, thinned to as many points as are wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from django.utils import timezone

from dashboard.catalog.permissions import dataflow_for
from dashboard.history import query_lines
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.query_places import query_now
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer
from dashboard.teams.selectors import slugs_known_to
from scheduler.history.points import Points, coarser, grid
from scheduler.history.series import (
    DATAFLOW,
    ESTATE,
    GRAINS,
    METRICS,
    NODE,
    QUERY,
    SLOT,
    STREAM,
    TASK,
    Annotation,
    Fold,
    Grain,
    Series,
    grain_for,
    metric_named,
)
from scheduler.model.errors import NotFound, WeirError

MOST_POINTS = 10_000  # of a series in one answer: a day at 10 s
MOST_READ = 2 * GRAINS[-1].keep_s // GRAINS[-1].step_s  # points of a series: the longest range in the coarsest grain


class InvalidRange(WeirError):
    """A range without points, or an unknown metric."""

    code = "invalid_range"


@dataclass(frozen=True, slots=True)
class Range:
    """A range of time, in seconds since the epoch; in which grain, or the finest that fits; so many points."""

    begin_s: int
    end_s: int
    grain: Grain | None = None
    most_points: int = MOST_POINTS


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """Series of one subject over a range, and what happened to it.

    ``values`` holds one for each of ``times_s`` by metric, None where nothing was measured. A point is of the
    ``step_s`` seconds that begin with it.
    """

    grain: Grain
    step_s: int
    times_s: Sequence[int]
    values: Mapping[str, Sequence[float | None]]
    annotations: Sequence[Annotation]


def history_of(
    viewer: Viewer, kind: str, subject: str, span: Range, *, metrics: Sequence[str] = (), view: View | None = None,
    annotated: bool = True,
) -> KeptHistory:
    """The history of one subject.

    Parameters
    ----------
    kind : str
        One of ``scheduler.history.series.KINDS``.
    subject : str
        Its id; of the estate there is one, the sum of what the viewer may know of. A query has one history with those
        whose place it took, by any of their ids.
    metrics : sequence of str, optional
        The names of the series; all that are known where none is named.
    annotated : bool
        True if what happened to it is read, too.

    Raises
    ------
    InvalidRange
        The range ends before it begins, or a metric is not one of this kind.
    NotFound
        The viewer may not know of the subject.
    """
    _check(kind, span, metrics)
    if kind == QUERY:
        view = view or view_for(viewer)
    require_known(viewer, kind, subject, view=view)
    subjects = _scopes_of(viewer) if kind == ESTATE else [subject]
    if kind == QUERY and view is not None and (place := query_now(view, subject)):
        subjects = list(dict.fromkeys((
            place[1].id, *query_lines.before([place[1].id], since_s=span.begin_s), subject)))
    history = DatabaseHistory()
    lines = [line for line in history.series_of(kind, subjects) if not metrics or line.metric in metrics]
    grain = span.grain or grain_for(
        span.begin_s, span.end_s, now_s=int(timezone.now().timestamp()), most_points=span.most_points)
    if (span.end_s - span.begin_s) // grain.step_s > MOST_READ:
        raise InvalidRange(
            f"The range has more than {MOST_READ:,} points that are {grain.name} apart.",
            remedy="Choose a coarser grain, none, or a shorter range.")
    by_metric: dict[str, list[tuple[Series, Points]]] = {}
    for line, points in history.read(lines, grain, begin_s=span.begin_s, end_s=span.end_s).items():
        by_metric.setdefault(line.metric, []).append((line, points))
    as_one = _joint_points if kind == ESTATE else _in_turn
    thinned = {
        metric: coarser(
            as_one([points for _, points in sorted(some, key=lambda pair: subjects.index(pair[0].subject))],
                   some[0][0].fold), span.most_points, some[0][0].fold)
        for metric, some in by_metric.items()}
    first = next(iter(thinned.values()), None) or coarser(_empty_points(span, grain), span.most_points, "mean")
    notes = history.annotations(
        begin_s=span.begin_s, end_s=span.end_s, subjects=[(kind, name) for name in subjects],
        teams=slugs_known_to(viewer)) if annotated else ()
    return KeptHistory(
        grain, first.step_s, first.times_s.tolist(),
        {metric: [None if math.isnan(value) else value for value in points.values.tolist()]
         for metric, points in thinned.items()}, notes)


def _check(kind: str, span: Range, metrics: Sequence[str]) -> None:
    if span.end_s <= span.begin_s:
        raise InvalidRange("The range ends before it begins.", remedy="Choose an end after the beginning.")
    if span.begin_s < 0 or span.end_s - span.begin_s > 2 * GRAINS[-1].keep_s:
        raise InvalidRange("The range is longer than anything is kept.", remedy="Choose at most 90 days.")
    wrong = [name for name in metrics if (metric := metric_named(name)) is None or kind not in metric.kinds]
    if wrong:
        names = [metric.name for metric in METRICS.values() if kind in metric.kinds]
        raise InvalidRange(
            f"There is no metric {wrong[0]!r} of this kind.", remedy=f"Choose among {', '.join(names)}.")


def _joint_points(some: Sequence[Points], fold: Fold) -> Points:
    """Points of several scopes as one: their sum, or the maximum for metrics that keep maxima; missing points are left
    out."""
    if len(some) == 1:
        return some[0]
    stacked = np.stack([points.values for points in some])
    if fold == "max":
        return replace(some[0], values=np.fmax.reduce(stacked, axis=0))
    values = np.where(np.isnan(stacked).all(axis=0), np.nan, np.nansum(stacked, axis=0))
    return replace(some[0], values=values.astype(np.float32))


def _in_turn(some: Sequence[Points], _: Fold) -> Points:
    """Points of queries that took each other's place, the newest first, as one: while two worked, the newer one's."""
    values = some[0].values
    for points in some[1:]:
        values = np.where(np.isnan(values), points.values, values)
    return replace(some[0], values=values)


def _empty_points(span: Range, grain: Grain) -> Points:
    first_s, count = grid(span.begin_s, span.end_s, grain.step_s)
    return Points(first_s, grain.step_s, np.full(count, np.nan, dtype=np.float32))


def _scopes_of(viewer: Viewer) -> list[str]:
    """The scopes of the estate that a viewer may know of: what is shared, and the private parts of the own teams."""
    teams = Team.objects.all() if viewer.superuser else Team.objects.filter(pk__in=viewer.team_ids)
    return ["", *teams.values_list("slug", flat=True)]


def require_known(viewer: Viewer, kind: str, subject: str, *, view: View | None = None) -> None:
    """``NotFound`` where the viewer may not know of a subject; a ``view`` of theirs saves reading another."""
    if kind == DATAFLOW:
        dataflow_for(viewer, subject)
    elif kind != ESTATE and not _KNOWN.get(kind, _unknown_to_all)(view or view_for(viewer), subject):
        raise NotFound("There is no such history.", remedy="See what is in the estate now.")


# Who may know of what -------------------------------------------------------------------------------------------------


def _unknown_to_all(view: View, subject: str) -> bool:
    return False


_KNOWN: Mapping[str, Callable[[View, str], bool]] = {
    TASK: lambda view, task: task in view.tasks,
    STREAM: lambda view, stream: set(stream.split(">")) <= view.tasks,
    QUERY: lambda view, query: query_now(view, query) is not None,
    SLOT: lambda view, slot: slot in {place.name for place in view.estate.slots},
    NODE: lambda view, node: node in {place.node for place in view.estate.slots},
}
