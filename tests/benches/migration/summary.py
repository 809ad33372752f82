"""Rows of a measurement: what each scheme costs by the number of bundles that move at once. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .degradation import LEVELS, of_600

# Seconds of 600 with a move each minute, at 60% degradation or more, and at 100%: paper [4], 5.2, on 3 servers.
PUBLISHED = {("rebalance", 1): (279, 267), ("process", 1): (155, None), ("nonstop", 1): (20, None),
             ("nonstop", 16): (118, None), ("nonstop+", 16): (84, 53)}
DISTURBED = 0.02  # the part of quiet seconds so far down above which moves are not what is measured
COUNTED = ("events", "lost", "doubled", "altered", "disordered")
GOAL_LEVEL, GOAL_MOVED = 0.6, 8  # ours: no second so far down with so many at once, and none without any event


@dataclass(frozen=True, slots=True)
class Cell:
    """One scheme with one number of bundles at once, over all its runs."""

    workload: str
    scheme: str
    moved: int
    figures: Mapping[str, Any]

    @property
    def reaches_goal(self) -> bool:
        """Whether it does what is asked of our own scheme."""
        degraded = self.figures["degraded_s"]
        return degraded["1.0"] == 0 and (self.moved > GOAL_MOVED or degraded[str(GOAL_LEVEL)] == 0)


def cells(document: Mapping[str, Any]) -> list[Cell]:
    """All of a measurement, by workload, scheme and number."""
    by_key: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for run in document["runs"]:
        for moved, figure in run["by_moved"].items():
            by_key.setdefault((run["workload"], run["scheme"], int(moved)), []).append(figure)
    return [Cell(*key, merged(figures)) for key, figures in by_key.items()]


def merged(figures: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of several runs as of one: what is counted is added up, throughput is held to what is usual there."""
    def added(name: str) -> dict[str, int]:
        return {str(level): sum(figure[name][str(level)] for figure in figures) for level in LEVELS}

    return {
        **{name: sum(figure[name] for figure in figures) for name in ("moves", "seconds", "quiet_seconds")},
        "degraded_s": added("degraded_s"), "quiet_degraded_s": added("quiet_degraded_s"),
        "throughput_per_s": statistics.fmean(figure["throughput_per_s"] for figure in figures),
        "usual_per_s": statistics.fmean(figure["usual_per_s"] for figure in figures),
        **{name: [value for figure in figures for value in figure[name]]
           for name in ("pauses_s", "usual_pauses_s", "took_s", "rates_per_s")}}


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The table: seconds as of 600 with ten moves, beside what is published."""
    table = []
    for cell in cells(document):
        figures = cell.figures
        published = PUBLISHED.get((cell.scheme, cell.moved), (None, None))
        table.append({
            "workload": cell.workload, "scheme": cell.scheme, "M": cell.moved, "moves": figures["moves"],
            **{f"≥{level:.0%}": round(of_600(figures, level)) for level in LEVELS}, "published ≥60%": published[0],
            "throughput": f"{figures['throughput_per_s'] / figures['usual_per_s']:.0%}" if figures["usual_per_s"]
            else None,
            "pause s": round(statistics.median(figures["pauses_s"]), 2) if figures["pauses_s"] else None,
            "worst s": round(max(figures["pauses_s"], default=0.0), 2),
            "all there s": round(statistics.median(figures["took_s"]), 1) if figures["took_s"] else None})
    return table


def outputs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By workload and scheme, events that should have come, and how many are lost, doubled, altered or out of order."""
    by_key: dict[tuple[str, str], dict[str, int]] = {}
    for run in document["runs"]:
        counted = by_key.setdefault((run["workload"], run["scheme"]), {})
        for name in COUNTED:
            counted[name] = counted.get(name, 0) + run["outputs"][name]
    return [{"workload": workload, "scheme": scheme, **counted} for (workload, scheme), counted in by_key.items()]


def quiet_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the same outputs show while nothing moves, in seconds of 600: below that no scheme can be told apart."""
    by_key: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in document["runs"]:
        by_key.setdefault((run["workload"], run["scheme"]), []).append(next(iter(run["by_moved"].values())))
    return [
        {"workload": workload, "scheme": scheme, "usual /s": round(_mean(figures, "usual_per_s"), 1),
         **{f"≥{level:.0%}": round(600 * _sum(figures, level) / max(1, sum(f["quiet_seconds"] for f in figures)))
            for level in LEVELS},
         "silence s": round(statistics.median(
             [value for figure in figures for value in figure["usual_pauses_s"]] or [0.0]), 2)}
        for (workload, scheme), figures in by_key.items()]


def disturbance(document: Mapping[str, Any]) -> str:
    """What is to be said of a run on a machine that was late without any move, too; empty where it was not."""
    figures = [figure for run in document["runs"] for figure in list(run["by_moved"].values())[:1]]
    late, seconds = _sum(figures, GOAL_LEVEL), sum(figure["quiet_seconds"] for figure in figures)
    if late <= DISTURBED * seconds:
        return ""
    return (
        f"{late} of {seconds} seconds without a move were degraded by {GOAL_LEVEL:.0%} or more: the machine had other "
        "work, or too little for this topology. So these figures do not tell the schemes apart.")


def _mean(figures: Iterable[Mapping[str, Any]], name: str) -> float:
    return statistics.fmean(figure[name] for figure in figures)


def _sum(figures: Iterable[Mapping[str, Any]], level: float) -> int:
    return sum(figure["quiet_degraded_s"][str(level)] for figure in figures)
