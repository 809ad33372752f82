"""The experiments with schedules as a page of figures: rates, loads of slots, and latencies as violins."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import cycle
from typing import Any

import plotly.graph_objects as go
from plotly.colors import qualitative

from scheduler.pairs import PAIRS

from .schedules_summary import AT_SPEED, actual_per_s, highest_stable, shown, summary

COLOURS = dict(zip(map("+".join, PAIRS), cycle(qualitative.D3), strict=False))
HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Schedules on Spark</title>
<link rel="icon" href="data:,"></head><body><h1>Schedules on Spark: planned, predicted, actual</h1>"""


def page(document: Mapping[str, Any]) -> str:
    """The whole page; it needs nothing besides itself."""
    runs = [run for run in document["runs"] if run.get("stairs")]
    figures = [
        rates(runs, "predicted_per_s", "Predicted against actual rate"),
        rates([run for run in runs if "predicted_at_speed_per_s" in run], "predicted_at_speed_per_s",
              f"Predicted {AT_SPEED} against actual rate"),
        rates(runs, "planned_per_s", "Planned against actual rate"),
        loads(runs, "cpu", "CPU of slots"), loads(runs, "memory", "Memory of slots"), violins(runs),
    ]
    parts = [figure.to_html(full_html=False, include_plotlyjs=number == 0) for number, figure in enumerate(figures)]
    words = "".join(f"<p>{escape(line)}</p>" for line in shown(document).splitlines())
    return "\n".join([HEAD, words, *parts, _table(document), "</body></html>"])


def rates(runs: list[Mapping[str, Any]], against: str, title: str) -> go.Figure:
    """A scatter plot of rates, a colour for each pair."""
    figure = _scatter(title, "events/s, " + against.removesuffix("_per_s"), "events/s, actual")
    for name in _pairs(runs):
        mine = [run for run in runs if "+".join(run["pair"]) == name]
        figure.add_scatter(
            x=[run[against] for run in mine], y=[actual_per_s(run) for run in mine], mode="markers", name=name,
            text=[run["key"] for run in mine], marker={"color": COLOURS[name], "size": 10})
    return _with_diagonal(figure)


def loads(runs: list[Mapping[str, Any]], what: str, title: str) -> go.Figure:
    """The same of the loads of slots, at the highest rate that kept up."""
    figure = _scatter(title, "% of a slot, predicted", "% of a slot, actual")
    for name in _pairs(runs):
        points = [
            (100 * predicted[what], 100 * stair["loads"][slot][what], f"{run['key']}, {slot}")
            for run in runs if "+".join(run["pair"]) == name and (stair := highest_stable(run))
            for slot, predicted in stair["predicted"].items()
        ]
        if points:
            x, y, text = zip(*points, strict=True)
            figure.add_scatter(x=x, y=y, text=text, mode="markers", name=name, marker={"color": COLOURS[name]})
    return _with_diagonal(figure)


def violins(runs: list[Mapping[str, Any]]) -> go.Figure:
    """Latency from source to sink at the highest rate that kept up."""
    figure = go.Figure(layout={
        "title": "Latency at the highest rate that kept up", "yaxis": {"title": "ms", "rangemode": "tozero"},
        "violinmode": "group"})
    for name in _pairs(runs):
        x, y = [], []
        for run in runs:
            stair = highest_stable(run)
            if stair and "+".join(run["pair"]) == name:
                x += [run["dataflow"]] * len(stair["latency_ms"])
                y += stair["latency_ms"]
        figure.add_violin(x=x, y=y, name=name, line_color=COLOURS[name], box_visible=True, meanline_visible=True,
                          spanmode="hard")
    return figure


def _pairs(runs: list[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys("+".join(run["pair"]) for run in runs))


def _scatter(title: str, x: str, y: str) -> go.Figure:
    return go.Figure(layout={
        "title": title, "height": 560, "xaxis": {"title": x, "rangemode": "tozero"},
        "yaxis": {"title": y, "rangemode": "tozero"}})


def _with_diagonal(figure: go.Figure) -> go.Figure:
    """With the line on which both are equal."""
    most = max((value for trace in figure.data for value in (*trace.x, *trace.y)), default=1.0)
    figure.add_scatter(x=[0, most], y=[0, most], mode="lines", name="equal", line={"color": "#888", "dash": "dot"})
    return figure


def _table(document: Mapping[str, Any]) -> str:
    rows = [summary(run) for run in document["runs"] if run.get("stairs")]
    if not rows:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else escape(str(value))
