"""Plots as Plotly figures in JSON; colours and fonts are the browser's, which knows the theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dashboard.operations.history import KeptHistory

Columns = Mapping[str, Sequence[Any]]
SECONDS_FROM_MS = 2000.0
FEW_TICKS = 8
MOST_WORDED = 6  # things that happened, of which a chart has room for the words
ABOVE = {"legend": {"y": 1.02, "yanchor": "bottom"}, "margin": {"t": 46}}  # room for a legend of two lines


def rate_figure(kept_history: KeptHistory) -> dict[str, Any]:
    """Events in and out per second over time."""
    return _history_figure(kept_history, {"events_in_per_s": "in", "events_out_per_s": "out"}, unit="/s")


def latency_figure(kept_history: KeptHistory) -> dict[str, Any]:
    """Latency from source to sink over time: three percentiles, in seconds where it takes seconds."""
    series = {"latency_p50_ms": "p50", "latency_p95_ms": "p95", "latency_p99_ms": "p99"}
    highest_ms = max(
        (value for name in series for value in kept_history.values.get(name, ()) if value is not None), default=0.0)
    if highest_ms < SECONDS_FROM_MS:
        return _history_figure(kept_history, series, unit=" ms")
    return _history_figure(kept_history, series, unit=" s", scale=0.001)


def _history_figure(
    kept_history: KeptHistory, series: Mapping[str, str], *, unit: str, scale: float = 1.0
) -> dict[str, Any]:
    """Lines over a range, with a line across it for each thing that happened."""
    times_s = kept_history.times_s
    columns = {name: kept_history.values.get(name) or [None] * len(times_s) for name in series}
    is_empty = all(value is None for column in columns.values() for value in column)
    at = [] if is_empty else [_iso(at_s) for at_s in times_s]
    figure = _figure({"at": at, **({} if is_empty else columns)}, {} if is_empty else series, unit=unit, scale=scale)
    figure["layout"] |= {"shapes": [] if is_empty else [
        {"type": "line", "xref": "x", "yref": "paper", "x0": _iso(at_s), "x1": _iso(at_s), "y0": 0, "y1": 1,
         "label": {"text": text, "textposition": "end", "textangle": 0, "xanchor": "left", "font": {"size": 10}}}
        for at_s, text in _told_together(kept_history)]}
    if not is_empty:
        figure["layout"]["xaxis"] = {"range": [_iso(times_s[0]), _iso(times_s[-1] + kept_history.step_s)]}
    return figure | {"empty": "Nothing was measured in this time. The line starts with the first events."}


def _told_together(kept_history: KeptHistory) -> list[tuple[int, str]]:
    """What happened, one for each point of the range: more would lie on top of each other. Words for the newest."""
    by_point: dict[int, list[str]] = {}
    for note in kept_history.annotations:
        by_point.setdefault(note.at_s - note.at_s % kept_history.step_s, []).append(note.what.replace("_", " "))
    worded = set(sorted(by_point)[-MOST_WORDED:])
    return [(at_s, ", ".join(dict.fromkeys(words)) if at_s in worded else "") for at_s, words in by_point.items()]


def _iso(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def cost_figure(history: Columns, *, currency: str) -> dict[str, Any]:
    """What was paid over time, against what it would have been without sharing."""
    series = {"pays_nanos": "paid", "alone_nanos": "each alone"}
    figure = _figure(history, series, unit=f" {currency}", scale=1e-9)
    for trace in figure["data"]:
        trace |= {"mode": "lines+markers", "hovertemplate": "%{y:.6~f} " + currency}
    return figure | {"empty": "The line starts after two hours of charges."}


def curve_figure(
    rows: Sequence[Mapping[str, Any]], *, currency: str, bounded_by: str = ""
) -> dict[str, Any]:
    """Slots and price over the rate, from rows of ``what_if``; a rate without a schedule is a gap.

    ``bounded_by`` names the quick mapping that the rows are of, in place of one that never takes more slots.
    """
    at_most = f", at most: by {bounded_by}" if bounded_by else ""

    def column(name: str) -> list[Any]:
        return [row.get(name) for row in rows]

    held = [row["rate_per_s"] for row in rows if "error" not in row]
    rates = column("rate_per_s") if held else []
    slots = {
        "type": "scatter", "mode": "lines", "name": f"slots{at_most}", "x": rates, "y": column("slots"),
        "line": {"shape": "hvh"}, "connectgaps": False, "hovertemplate": "%{y} slots"}
    price = {
        "type": "scatter", "mode": "lines", "name": f"{currency} an hour{at_most}", "x": rates, "y": column("per_hour"),
        "yaxis": "y2", "line": {"shape": "hvh"}, "connectgaps": False,
        "hovertemplate": "%{y:.3f} " + currency + " an hour"}
    layout = {
        "xaxis": {"type": "linear", "ticksuffix": "/s", "rangemode": "tozero", "hoverformat": ".4~g"},
        "yaxis": {"tickformat": "d", **_whole_ticks(column("slots"))},
        "yaxis2": {"overlaying": "y", "side": "right", "tickmode": "auto", "nticks": 5}}
    return {"data": [slots, price], "layout": layout, "held": len(held), "most": max(held, default=None),
            "empty": "No rate up to this one has a schedule."}


def _whole_ticks(counts: Sequence[int | None]) -> dict[str, int]:
    """A tick at every whole number where there are few: else Plotly labels fractions, rounded, several times."""
    return {"dtick": 1} if max((count for count in counts if count is not None), default=0) <= FEW_TICKS else {}


def outcome_rate_figure(
    history: Columns, *, planned_per_s: float | None, predicted_per_s: float | None
) -> dict[str, Any]:
    """The measured rate over time, beside the planned one and the one that was predicted to be sustained."""
    at = list(history["at"])
    columns = {"at": at, "measured": list(history["rate_per_s"]),
               "planned": [planned_per_s] * len(at), "sustained": [predicted_per_s] * len(at)}
    figure = _figure(columns, {"measured": "measured", "planned": "planned", "sustained": "predicted to sustain"},
                     unit="/s")
    figure["layout"] |= ABOVE
    return figure | {"empty": "Nothing measured yet: the line starts within a minute after the schedule runs."}


def _figure(history: Columns, series: Mapping[str, str], *, unit: str, scale: float = 1.0) -> dict[str, Any]:
    data = [
        {"type": "scatter", "mode": "lines", "name": label, "x": list(history["at"]),
         "y": [None if value is None else value * scale for value in history[column]],
         "connectgaps": False, "hovertemplate": "%{y:.1f}" + unit}
        for column, label in series.items()
    ]
    return {"data": data, "layout": {"yaxis": {"ticksuffix": unit}}}
