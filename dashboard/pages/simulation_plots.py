"""Simulations over time, as Plotly figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dashboard.simulations.selectors import ReplayedSide
from dashboard.simulations.simulation_driver import A_FIGURE_S
from scheduler.adaptation.side_by_side import STEP_S
from scheduler.latency.limits_met import TOLERATED

HOUR_S = 3600.0
COURSES = {"values": ("value Γ", ".2f"), "reached": ("throughput Ω", ".0%"), "costs": ("cost", ".3f"),
           "profits": ("profit so far", ".3f"), "cores": ("cores that are rented", "d")}


def side_by_side_figures(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures with a line for each algorithm, over hours."""
    return {course: _lines(
        ((result["name"], result[course]) for result in results), every_s=STEP_S, format=form)
        for course, (_, form) in COURSES.items()}


def replay_figures(sides: Sequence[ReplayedSide]) -> dict[str, Any]:
    """CPU, and latency as a part of what each limit tolerates, over hours: as it is, and with the plan."""
    return {
        "cores": _lines(((side.title, side.cores) for side in sides), every_s=A_FIGURE_S, format=".3f"),
        "latency": _lines(
            ((f"{limit.name}{f', limit {limit.number + 1}' if limit.number else ''}, {side.title}",
              [None if latency_s is None else latency_s / (TOLERATED * limit.limit_s) for latency_s in limit.latency_s])
             for side in sides for limit in side.limits), every_s=A_FIGURE_S, format=".0%")}


def _lines(
    courses: Iterable[tuple[str, Sequence[float | None]]], *, every_s: float, format: str
) -> dict[str, Any]:
    return {
        "data": [{
            "type": "scatter", "mode": "lines", "name": name, "x": [at * every_s / HOUR_S for at in range(len(course))],
            "y": list(course), "connectgaps": False, "hovertemplate": f"%{{y:{format}}}"} for name, course in courses],
        "layout": {"xaxis": {"type": "linear", "ticksuffix": " h"}, "yaxis": {"tickformat": format}},
        "empty": "The lines appear with the first result."}
