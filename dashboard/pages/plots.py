"""Plots as Plotly figures in JSON; colours and fonts are the browser's, which knows the theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Columns = Mapping[str, Sequence[Any]]
FEW_TICKS = 8
ABOVE = {"legend": {"y": 1.02, "yanchor": "bottom"}, "margin": {"t": 46}}  # room for a legend of two lines


def cost_figure(history: Columns, *, currency: str) -> dict[str, Any]:
    """The cost over time, against the cost without sharing, and the part for latency."""
    series = {"pays_nanos": "paid", "alone_nanos": "each alone", "latency_nanos": "paid for latency"}
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

    possible_rates = [row["rate_per_s"] for row in rows if "error" not in row]
    rates = column("rate_per_s") if possible_rates else []
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
    return {"data": [slots, price], "layout": layout, "held": len(possible_rates),
            "most": max(possible_rates, default=None), "empty": "No rate up to this one has a schedule."}


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
