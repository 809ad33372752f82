"""Charts of adaptation: throughput, value, cost and profit over time, against what was asked for and decided, and
machines on order. Pure: from values to Plotly figures. The chart of what comes goes on into what is expected, with the
forecast's band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.controllers.adaptation_told import ToldCourse
from dashboard.controllers.machines_told import PaidMachine
from dashboard.operations.live_view.chart_marks import Mark
from dashboard.operations.live_view.estate_history import KeptHistory
from dashboard.pages.charts import group_marks, iso_moment, mark_shapes
from scheduler.controllers.evidence.expected_rates import ExpectedMinute
from scheduler.history.series import MINUTE
from scheduler.model.dataflow_goals import DataflowGoals

RATE, MACHINES = "rate", "machines"
_ROWS = {"works": (0, 0.44, -0.22), "is paid": (1, 0.14, -0.42)}  # series, height and offset in a machine's row


@dataclass(frozen=True, slots=True)
class AdaptationChart:
    """One of the charts: which metric it draws, what a decision expected of it, and in which unit."""

    name: str
    title: str
    metric: str
    planned: str = ""
    unit: str = ""


def adaptation_charts(currency: str) -> tuple[AdaptationChart, ...]:
    """The charts of the page over recorded figures, in order."""
    return (
        AdaptationChart(
            "throughput", "Throughput Ω: of what could leave, the part that did", "adapted_throughput", "throughput"),
        AdaptationChart("value", "Value Γ: what its alternates are worth", "adapted_value", "value"),
        AdaptationChart("cost", "Cost of its queries", "adapted_per_hour", "per_hour", f"{currency} an hour"),
        AdaptationChart("profit", "Profit Θ, if it lasted", "adapted_profit", "profit"),
        AdaptationChart(RATE, "Events from outside, measured and expected", "events_in_per_s", "", "events/s"))


def adaptation_figure(
    chart: AdaptationChart, course: ToldCourse, goals: DataflowGoals | None, *,
    marks: Sequence[Mark], begin_s: int, end_s: int, expected: Sequence[ExpectedMinute] = (),
) -> dict[str, Any]:
    """A chart's figure, with gaps where nothing was measured. Only the chart of rates shows ``expected`` ones."""
    expected = expected if chart.name == RATE else ()
    name = "came from outside" if chart.name == RATE else chart.title.partition(":")[0].partition(",")[0]
    lines = [_history_trace(course.history, chart.metric, name, 0)]
    if chart.name == RATE:
        lines += [_history_trace(course.history, metric, name, 1, dash=dash) for metric, name, dash in (
            ("expected_per_s", "was expected", "dash"), ("expected_low_per_s", "was expected, less its error", "dot"),
            ("expected_high_per_s", "was expected, and its error", "dot"))]
    elif chart.planned:
        lines.append(_planned(course, chart.planned))
    has_values = any(value is not None for value in lines[0]["y"])
    levels = [_level(name, value) for name, value in _goal_values(chart, goals).items()] if has_values else []
    return {
        "name": chart.name, "unit": chart.unit, "over": "",
        "data": [*(line for line in lines if any(value is not None for value in line["y"])),
                 *_ahead(expected)] if has_values else [],
        "layout": {
            "xaxis": {"range": [iso_moment(begin_s), iso_moment(max(
                [end_s, *(round(minute.at_s) + MINUTE.step_s for minute in expected)]))]},
            "yaxis": {"rangemode": "tozero"},
            "shapes": [*mark_shapes(group_marks(marks, begin_s, end_s)), *levels] if has_values else []},
        "empty": "" if has_values else "Nothing was recorded in this time.",
        "summary": f"{chart.title}{f', {chart.unit}' if chart.unit else ''}."}


def machines_figure(machines: Sequence[PaidMachine], *, begin_s: int, end_s: int) -> dict[str, Any]:
    """Machines on order as a Gantt chart: when each worked, and below that the hours that are paid."""
    spans = [(machine, kind, max(from_s, begin_s), until_s) for machine in machines
             for kind, span in (("works", machine.works_s), ("is paid", machine.paid_s)) if span is not None
             for from_s, until_s in [span] if until_s > begin_s and from_s < end_s]
    nodes = list(dict.fromkeys(machine.node for machine, *_ in spans))
    last_s = max([end_s, *(round(until_s) for *_, until_s in spans)])
    return {
        "name": MACHINES, "unit": "", "over": "",
        "data": [_bars([span for span in spans if span[1] == kind], kind) for kind in _ROWS
                 if any(span[1] == kind for span in spans)],
        "layout": {
            "barmode": "overlay", "hovermode": "closest", "bargap": 0,
            "xaxis": {"range": [iso_moment(begin_s), iso_moment(last_s)]},
            "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": nodes[::-1],
                      "range": [-0.5, max(1, len(nodes)) - 0.5], "showgrid": False}, "shapes": []},
        "spans": [{"from": iso_moment(from_s), "to": iso_moment(until_s), "what": f"{machine.node} {kind}",
                   "why": machine.why} for machine, kind, from_s, until_s in spans],
        "empty": "" if spans else "No machine was on order in this time.",
        "summary": f"Machines on order. {len(nodes)} in this time."}


def _bars(spans: Sequence[tuple[PaidMachine, str, float, float]], kind: str) -> dict[str, Any]:
    series, height, offset = _ROWS[kind]
    return {
        "type": "bar", "orientation": "h", "name": kind, "series": series,
        "base": [iso_moment(from_s) for _, _, from_s, _ in spans],
        "x": [1000 * (until_s - from_s) for _, _, from_s, until_s in spans], "y": [span[0].node for span in spans],
        "width": height, "offset": offset,
        "customdata": [f"{machine.node} ({machine.size}) {kind}" for machine, *_ in spans],
        "hovertemplate": "%{customdata}<extra></extra>"}


def _history_trace(history: KeptHistory, metric: str, name: str, series: int, *, dash: str = "") -> dict[str, Any]:
    values = history.values.get(metric, [None] * len(history.times_s))
    first_s = history.times_s[0] if history.times_s else 0
    return {
        "type": "scatter", "mode": "lines", "name": name, "series": series, "x0": iso_moment(first_s),
        "dx": 1000 * history.step_s, "y": [None if value is None else round(value, 6) for value in values],
        "connectgaps": False, "hovertemplate": "%{y:.4~g}"} | ({"line": {"dash": dash}} if dash else {})


def _planned(course: ToldCourse, figure: str) -> dict[str, Any]:
    """The figures that decisions were to reach, from when each was in force until the next was."""
    history, values = course.history, []
    for at_s in history.times_s:
        before = [planned for planned in course.planned if planned.at_s <= at_s]
        values.append(before[-1].figures.get(figure) if before else None)
    return {
        "type": "scatter", "mode": "lines", "name": "as decided", "series": 2,
        "x0": iso_moment(history.times_s[0] if history.times_s else 0), "dx": 1000 * history.step_s, "y": values,
        "connectgaps": False, "line": {"dash": "dash", "shape": "hv"}, "hovertemplate": "%{y:.4~g}"}


def _ahead(expected: Sequence[ExpectedMinute]) -> list[dict[str, Any]]:
    """The lines of a forecast: what is expected, and how far off its method was on average to either side."""
    lines = (("expected", "per_s", "dash"), ("expected, less its error", "low_per_s", "dot"),
             ("expected, and its error", "high_per_s", "dot"))
    return [{
        "type": "scatter", "mode": "lines", "name": name, "series": 1, "x0": iso_moment(round(expected[0].at_s)),
        "dx": 1000 * MINUTE.step_s, "y": [round(getattr(minute, figure), 4) for minute in expected],
        "line": {"dash": dash}, "hovertemplate": "%{y:.4~g}"} for name, figure, dash in lines if expected]


def _goal_values(chart: AdaptationChart, goals: DataflowGoals | None) -> Mapping[str, float]:
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
