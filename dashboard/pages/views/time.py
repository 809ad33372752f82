"""Charts of one subject over the range that an address names, as JSON: what every page with charts asks for."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.approvals.recent_moves import MovePause, pauses_of_moves
from dashboard.operations.live_view.chart_marks import marks_of
from dashboard.operations.live_view.estate_history import KeptHistory, Range, history_of
from dashboard.operations.live_view.estate_view import View, one_look, view_for
from dashboard.pages.charts import RATE, Chart, Earlier, chart_figure, group_marks, mark_rows
from dashboard.pages.limit_charts import charts_of
from dashboard.pages.ranges import OVERLAYS, ChosenRange, chosen
from scheduler.history.series import DATAFLOW, ESTATE
from scheduler.model.errors import NotFound

ROWS = 60  # of a table in place of a chart


@require_safe
@one_look()
def charts(request: HttpRequest) -> JsonResponse:
    """The charts of a subject (``kind``, ``subject``), in order, with its ``marks`` and the ``range`` that they show.

    ``only`` names those that are wanted; ``rows`` thins to as many points as a table has rows.
    """
    now_s = int(timezone.now().timestamp())
    kind, subject = request.GET.get("kind", ""), request.GET.get("subject", "")
    span = chosen(request.GET, now_s=now_s)
    wanted_charts = _charts_asked_for(kind, subject, request.GET.getlist("only"))
    points = ROWS if "rows" in request.GET else 0
    view = view_for(request.viewer)
    metrics = list(dict.fromkeys(metric for chart in wanted_charts for metric in chart.lines))

    def read(wanted_span: Range) -> KeptHistory:
        return history_of(
            request.viewer, kind, subject, wanted_span, metrics=metrics, view=view, annotated=False)  # marks say more

    kept_history = read(span.span(now_s=now_s, most_points=points))
    earlier = None
    if span.over:
        earlier = Earlier(read(span.earlier(now_s=now_s, most_points=points)), span.offset_s, OVERLAYS[span.over])
    marks = marks_of(  # also of this second
        request.viewer, kind, subject, begin_s=span.begin_s, end_s=span.end_s + 1, view=view)
    pauses = _pauses(request, kind, subject, span, view) if any(chart.name == RATE for chart in wanted_charts) else []
    return JsonResponse({
        "range": _range(span, kept_history) | {"over_empty": bool(earlier and not _has_values(earlier.kept_history))},
        "charts": [
            chart_figure(chart, kept_history, earlier=earlier, marks=marks, pauses=pauses, begin_s=span.begin_s,
                         end_s=span.end_s, now_s=now_s) for chart in wanted_charts],
        "marks": mark_rows(group_marks(marks, span.begin_s, span.end_s))}, json_dumps_params={"separators": (",", ":")})


def _pauses(request: HttpRequest, kind: str, subject: str, span: ChosenRange, view: View) -> list[MovePause]:
    """The pauses of moves: of the whole estate, or of queries that work for a dataflow."""
    entry = view.estate.submitted.get(subject) if kind == DATAFLOW else None
    if kind != ESTATE and entry is None:
        return []
    return pauses_of_moves(
        request.viewer, begin_s=span.begin_s, end_s=span.end_s + 1,
        tasks=None if entry is None else set(entry.running.values()))


def _charts_asked_for(kind: str, subject: str, only: Sequence[str]) -> list[Chart]:
    wanted_charts = [chart for chart in charts_of(kind, subject) if not only or chart.name in only]
    if not wanted_charts:
        raise NotFound("There are no such charts.", remedy="See what is in the estate now.")
    return wanted_charts


def _has_values(kept_history: KeptHistory) -> bool:
    return any(value is not None for values in kept_history.values.values() for value in values)


def _range(span: ChosenRange, kept_history: KeptHistory) -> dict[str, object]:
    return {"name": span.name, "title": span.title, "from_ms": 1000 * span.begin_s, "to_ms": 1000 * span.end_s,
            "every_s": span.every_s, "step_s": kept_history.step_s, "over": OVERLAYS.get(span.over, "")}
