"""What came of experiments with schedules: a row for each, and how far predictions were right. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isnan, nan
from typing import Any

from .experiments import Fit, fit

DEFINITION = (
    "R² is the square of Pearson's correlation, as in paper [2]; in brackets 1 − Σ(predicted − actual)²/Σ(actual − "
    "mean)², which asks for equality. CPU and memory are of each slot, at the highest rate that kept up."
)
Run = Mapping[str, Any]
WITHIN = 0.05  # of the planned rate


def actual_per_s(run: Run) -> float:
    """The rate that a schedule was seen to sustain: the most that one of its stairs carried."""
    return max((stair["carried_per_s"] for stair in run.get("stairs", ())), default=nan)


def highest_stable(run: Run) -> Mapping[str, Any] | None:
    """The highest stair that kept up."""
    return max((stair for stair in run.get("stairs", ()) if stair["stable"]),
               key=lambda stair: stair["rate_per_s"], default=None)


def summary(run: Run) -> dict[str, Any]:
    """A schedule in a row of the table."""
    stair = highest_stable(run)
    pairs = list(_loads(run, "cpu"))
    latency = stair["latency_ms"] if stair else []
    return {
        "dataflow": run["dataflow"], "by": "+".join(run["pair"]), "threads": run.get("threads"),
        "slots": run.get("slots"), "planned/s": run.get("planned_per_s"), "predicted/s": run.get("predicted_per_s"),
        "actual/s": None if not run.get("stairs") else actual_per_s(run),
        "stable at/s": stair["rate_per_s"] if stair else None,
        "CPU % predicted": _percent(predicted for predicted, _ in pairs),
        "CPU % actual": _percent(measured for _, measured in pairs),
        "p50 ms": latency[len(latency) // 2] if latency else None,
        "p95 ms": latency[int(0.95 * len(latency))] if latency else None,
    }


def fits(runs: Sequence[Run]) -> dict[str, Any]:
    """How well the model tells rates, and CPU and memory of slots at the highest stable stair of each schedule."""
    rates = [(run["predicted_per_s"], actual_per_s(run)) for run in runs if run.get("stairs")]
    planned = [(run["planned_per_s"], actual_per_s(run)) for run in runs if run.get("stairs")]
    found: dict[str, Fit] = {
        "rate": fit(rates), "planned rate": fit(planned),
        "CPU": fit(pair for run in runs for pair in _loads(run, "cpu")),
        "memory": fit(pair for run in runs for pair in _loads(run, "memory")),
    }
    return {name: _plain(one) for name, one in found.items()} | {"mba_sam": _mba_sam(runs)}


def shown(kept: Mapping[str, Any]) -> str:
    """The fits in words, with their definition."""
    found = kept["fits"]
    lines = [DEFINITION]
    for name in ("rate", "planned rate", "CPU", "memory"):
        one = found[name]
        lines.append(f"{name}: R² {_figure(one['correlation'])} ({_figure(one['identity'])}), median error "
                     f"{_figure(one['error'])}, {one['points']} points")
    if found["mba_sam"]:
        lines.append("MBA+SAM with slot-aware routing, actual over planned rate: " + ", ".join(
            f"{one['dataflow']} at {one['planned_per_s']:.4g}/s {one['actual_over_planned']:.2f}"
            for one in found["mba_sam"]))
    return "\n".join(lines)


def _plain(one: Fit) -> dict[str, Any]:
    """As JSON takes it: what too few points say is None."""
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in asdict(one).items()}


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _mba_sam(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Of each schedule by MBA and SAM, the rate that it kept over the planned one."""
    return [
        {"dataflow": run["dataflow"], "planned_per_s": run["planned_per_s"],
         "actual_over_planned": actual_per_s(run) / run["planned_per_s"],
         "keeps": actual_per_s(run) >= (1 - WITHIN) * run["planned_per_s"]}
        for run in runs if run["pair"] == ["MBA", "SAM"] and run.get("stairs")
    ]


def _loads(run: Run, what: str) -> Iterator[tuple[float, float]]:
    """Predicted and measured loads of the slots that a schedule uses."""
    stair = highest_stable(run)
    if stair is None:
        return
    for slot, predicted in stair["predicted"].items():
        yield predicted[what], stair["loads"][slot][what]


def _percent(shares: Iterable[float]) -> str:
    return " ".join(f"{100 * share:.0f}" for share in shares)
