"""Plots as Plotly figures in JSON; colours and fonts are the browser's, which knows the theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Columns = Mapping[str, Sequence[Any]]
SECONDS_FROM_MS = 2000.0


def rate_figure(history: Columns) -> dict[str, Any]:
    """Events in and out per second over time."""
    return _figure(history, {"events_in_per_s": "in", "events_out_per_s": "out"}, unit="/s")


def latency_figure(history: Columns) -> dict[str, Any]:
    """Latency from source to sink over time: median and 99th percentile, in seconds where it takes seconds."""
    series = {"latency_p50_ms": "p50", "latency_p99_ms": "p99"}
    highest_ms = max((value for name in series for value in history[name] if value is not None), default=0.0)
    if highest_ms < SECONDS_FROM_MS:
        return _figure(history, series, unit=" ms")
    return _figure(history, series, unit=" s", scale=0.001)


def cost_figure(history: Columns, *, currency: str) -> dict[str, Any]:
    """What was paid over time, against what it would have been without sharing."""
    series = {"pays_nanos": "paid", "alone_nanos": "each alone"}
    figure = _figure(history, series, unit=f" {currency}", scale=1e-9)
    for trace in figure["data"]:
        trace |= {"mode": "lines+markers", "hovertemplate": "%{y:.6~f} " + currency}
    return figure | {"empty": "The line starts with the second hour of charges."}


def _figure(history: Columns, series: Mapping[str, str], *, unit: str, scale: float = 1.0) -> dict[str, Any]:
    data = [
        {"type": "scatter", "mode": "lines", "name": label, "x": list(history["at"]),
         "y": [None if value is None else value * scale for value in history[column]],
         "connectgaps": False, "hovertemplate": "%{y:.1f}" + unit}
        for column, label in series.items()
    ]
    return {"data": data, "layout": {"yaxis": {"ticksuffix": unit}}}
