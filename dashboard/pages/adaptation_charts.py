"""Charts of adaptation: throughput, value, cost and profit over time, against what was asked for. Pure: from points to
Plotly figures. The chart of what comes goes on into what is expected, with the forecast's band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.operations.live_view.chart_marks import Mark
from dashboard.pages.charts import group_marks, iso_moment, mark_shapes
from scheduler.controllers.evidence.adaptations import AdaptationPoint
from scheduler.controllers.evidence.expected_rates import ExpectedMinute
from scheduler.history.series import MINUTE
from scheduler.model.dataflow_goals import DataflowGoals

RATE = "rate"


@dataclass(frozen=True, slots=True)
class AdaptationChart:
    """One of the charts: what of a point it draws, and in which unit."""

    name: str
    title: str
    line: str
    unit: str = ""


def adaptation_charts(currency: str) -> tuple[AdaptationChart, ...]:
    """The charts of the page, in order."""
    return (
        AdaptationChart("throughput", "Throughput Ω: of what could leave, the part that did", "throughput"),
        AdaptationChart("value", "Value Γ: what its alternates are worth", "value"),
        AdaptationChart("cost", "Cost of its queries", "per_hour", f"{currency} an hour"),
        AdaptationChart("profit", "Profit Θ, if it lasted", "profit"),
        AdaptationChart(RATE, "What comes from outside, and what is expected", "rate_per_s", "events/s"))


def adaptation_figure(
    chart: AdaptationChart, points: Sequence[AdaptationPoint], goals: DataflowGoals | None, *,
    marks: Sequence[Mark], begin_s: int, end_s: int, expected: Sequence[ExpectedMinute] = (),
) -> dict[str, Any]:
    """A chart's figure; a gap where nothing was measured. What is ``expected`` is in that of rates alone."""
    expected = expected if chart.name == RATE else ()
    step_s = round(points[1].at_s - points[0].at_s) if len(points) > 1 else 10
    by_s = {round(point.at_s): getattr(point, chart.line) for point in points}
    first = round(points[0].at_s) if points else begin_s
    moments = range(first, round(points[-1].at_s) + 1, step_s) if points else ()
    values = [None if (value := by_s.get(at)) is None else round(value, 6) for at in moments]
    known = any(value is not None for value in values)
    levels = [_level(name, value) for name, value in _wanted(chart, goals).items()] if known else []
    return {
        "name": chart.name, "unit": chart.unit, "over": "",
        "data": [{
            "type": "scatter", "mode": "lines", "name": chart.title.partition(":")[0], "series": 0,
            "x0": iso_moment(first), "dx": 1000 * step_s, "y": values, "connectgaps": False,
            "hovertemplate": "%{y:.4~g}"}, *_ahead(expected)] if known else [],
        "layout": {
            "xaxis": {"range": [iso_moment(begin_s), iso_moment(max(
                [end_s, *(round(each.at_s) + MINUTE.step_s for each in expected)]))]}, "yaxis": {"rangemode": "tozero"},
            "shapes": [*mark_shapes(group_marks(marks, begin_s, end_s)), *levels] if known else []},
        "empty": "" if known else "Nothing was measured in this time.",
        "summary": f"{chart.title}{f', {chart.unit}' if chart.unit else ''}."}


def _ahead(expected: Sequence[ExpectedMinute]) -> list[dict[str, Any]]:
    """The lines of a forecast: what is expected, and how far off its method was on average to either side."""
    lines = (("expected", "per_s", "dash"), ("expected, less its error", "low_per_s", "dot"),
             ("expected, and its error", "high_per_s", "dot"))
    return [{
        "type": "scatter", "mode": "lines", "name": name, "series": 1, "x0": iso_moment(round(expected[0].at_s)),
        "dx": 1000 * MINUTE.step_s, "y": [round(getattr(each, figure), 4) for each in expected], "line": {"dash": dash},
        "hovertemplate": "%{y:.4~g}"} for name, figure, dash in lines if expected]


def _wanted(chart: AdaptationChart, goals: DataflowGoals | None) -> Mapping[str, float]:
    if goals is None:
        return {}
    if chart.name == "throughput":
        return {"goal": goals.throughput, "lowest": goals.throughput - goals.tolerance}
    if chart.name == "cost":
        return {"most, at the greatest value": goals.most_per_hour, "most, at the least": goals.least_per_hour}
    return {}


def _level(name: str, value: float) -> dict[str, Any]:
    # The goal and the lowest are near each other: what is said of the one is above its line.
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": value, "y1": value, "tone": "limit",
        "label": {"text": f"{name}: {value:.4g}", "textposition": "start", "xanchor": "left",
                  "yanchor": "bottom" if name == "goal" else "top", "font": {"size": 10}}}
