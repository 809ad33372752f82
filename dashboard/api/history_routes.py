"""The route of kept history; ``docs/api.md`` describes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router

from dashboard.api.answers.history import SubjectHistory
from dashboard.api.query_parameters import MOMENT, GrainName, HistoryKind
from dashboard.operations.live_view.estate_history import MOST_POINTS, InvalidRange, Range, history_of
from scheduler.history.series import GRAIN_BY_NAME, metric_named

router = Router()
LATEST = timedelta(minutes=15)


@router.get("/history", response=SubjectHistory)
def history(
    request: HttpRequest, kind: HistoryKind, subject: str = Query("", max_length=210),
    metric: list[str] = Query([], max_length=30),  # noqa: B008
    begin: str = Query("", alias="from", max_length=40, **MOMENT),
    end: str = Query("", alias="to", max_length=40, **MOMENT), grain: GrainName = "",
    points: int = Query(MOST_POINTS, ge=1, le=MOST_POINTS),
) -> dict[str, Any]:
    """The measurements of one subject over a time, as columns, with annotations; by default the last 15 minutes."""
    if grain and grain not in GRAIN_BY_NAME:
        raise InvalidRange(f"There is no grain {grain!r}.", remedy=f"Choose {', '.join(GRAIN_BY_NAME)}, or none.")
    until = _moment(end, "to") or timezone.now()
    since = _moment(begin, "from") or until - LATEST
    kept_history = history_of(
        request.viewer, kind, subject,
        Range(int(since.timestamp()), int(until.timestamp()), GRAIN_BY_NAME.get(grain), points), metrics=metric)
    return {
        "kind": kind, "subject": subject, "grain": kept_history.grain.name, "step_s": kept_history.step_s,
        "at": [_iso(at_s) for at_s in kept_history.times_s],
        "units": {name: found_metric.unit for name in kept_history.values if (found_metric := metric_named(name))},
        "values": kept_history.values,
        "annotations": [
            {"at": _iso(note.at_s), "what": note.what, "text": note.text} for note in kept_history.annotations]}


def _moment(text: str, name: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or not 1971 <= moment.year < 9999:  # a year of room for zones, and for the steps of a grain
        raise InvalidRange(
            f"“{name}” is no moment.", remedy="Write it in ISO 8601, such as 2026-11-24T12:00:00Z.")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _iso(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()
