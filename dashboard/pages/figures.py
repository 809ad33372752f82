"""Plots as Plotly figures in JSON; colours and fonts are the browser's, which knows the theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Columns = Mapping[str, Sequence[Any]]


def rate_figure(history: Columns) -> dict[str, Any]:
    """Events in and out per second over time."""
    return _figure(history, {"events_in_per_s": "in", "events_out_per_s": "out"}, unit="/s")


def latency_figure(history: Columns) -> dict[str, Any]:
    """Latency from source to sink over time: median and 99th percentile."""
    return _figure(history, {"latency_p50_ms": "p50", "latency_p99_ms": "p99"}, unit=" ms")


def _figure(history: Columns, series: Mapping[str, str], *, unit: str) -> dict[str, Any]:
    data = [
        {"type": "scatter", "mode": "lines", "name": label, "x": list(history["at"]), "y": list(history[column]),
         "connectgaps": False, "hovertemplate": "%{y:.1f}" + unit}
        for column, label in series.items()
    ]
    return {"data": data, "layout": {"yaxis": {"ticksuffix": unit}}}
