"""What came of experiments with schedules: a row for each, and how far predictions were right. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from math import isnan, nan
from statistics import median
from typing import Any

from scheduler.pairs import MODEL_BASED
from scheduler.performance.sweep import MOST_STOLEN

from .experiments import Fit, fit

AT_SPEED = "at the cores' speed"
MOST = "against the most that came through"
DEFINITION = (
    "R² is the square of Pearson's correlation, as in paper [2]; in brackets 1 − Σ(predicted − actual)²/Σ(actual − "
    "mean)², which asks for equality. Actual is the most that came through while latency did not grow, by the slope "
    "that also parts stable from unstable in profiles (or at any rate, of a run that never was stable); the most that "
    "came through at any rate stands beside it. CPU and memory are of each slot, at the highest stable rate. “" +
    AT_SPEED + "” is what is predicted from the same profiles for cores as fast as they were in that run."
)
Run = Mapping[str, Any]
WITHIN = 0.05  # of the planned rate
MOST_OTHERS = 0.35  # cores: the broker, the services and the measurement itself take up to 0.3
MOST_RUNS = 3  # of a schedule, until one is measured while hardly any CPU went elsewhere


def actual_per_s(run: Run) -> float:
    """The rate that a schedule was seen to sustain: the most that a stable stair carried, or any where none was."""
    return max((stair["carried_per_s"] for stair in run.get("stairs", ()) if stair["stable"]), default=most_per_s(run))


def most_per_s(run: Run) -> float:
    """The most that one of its stairs carried, though latency grew."""
    return max((stair["carried_per_s"] for stair in run.get("stairs", ())), default=nan)


def stolen(run: Run) -> float:
    """The part of the CPU asked for that the host of a virtual machine gave to others: of the median stair."""
    return median([stair.get("stolen", 0.0) for stair in run["stairs"]]) if run.get("stairs") else 0.0


def others_cores(run: Run) -> float:
    """What processes that have nothing to do with the slots took of the machine, in cores: during the median stair."""
    return median([stair.get("others_cores", 0.0) for stair in run["stairs"]]) if run.get("stairs") else 0.0


def is_disturbed(run: Run) -> bool:
    """Whether it says little, for the host or this machine gave the CPU to others."""
    return stolen(run) > MOST_STOLEN or others_cores(run) > MOST_OTHERS


def is_to_repeat(run: Run) -> bool:
    """Whether a run came to nothing, was never stable or was disturbed, and may be made once more."""
    return (is_disturbed(run) or highest_stable(run) is None) and run.get("runs", 1) < MOST_RUNS


def better(before: Run, now: Run) -> dict[str, Any]:
    """Of two runs of a schedule the one that was disturbed less, if it was ever stable, with the other ones as
    ``aside``.

    ``runs`` says how many there were.
    """
    is_now = _worth(now) >= _worth(before)
    current, other = (now, before) if is_now else (before, now)
    aside = [*before.get("aside", ()), *([_alone(other)] if other else ())]
    return {**_alone(current), "runs": before.get("runs", 0) + 1} | ({"aside": aside} if aside else {})


def _worth(run: Run) -> tuple[bool, bool, bool, float]:
    return bool(run.get("stairs")), others_cores(run) <= MOST_OTHERS, highest_stable(run) is not None, -stolen(run)


def _alone(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name not in ("aside", "runs")}


def highest_stable(run: Run) -> Mapping[str, Any] | None:
    """The highest stable stair."""
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
        f"{AT_SPEED}/s": run.get("predicted_at_speed_per_s"),
        "actual/s": None if not run.get("stairs") else actual_per_s(run),
        "most/s": None if not run.get("stairs") else most_per_s(run),
        "CPU % predicted": _percent(predicted for predicted, _ in pairs),
        "CPU % actual": _percent(measured for _, measured in pairs),
        "p50 ms": latency[len(latency) // 2] if latency else None,
        "p95 ms": latency[int(0.95 * len(latency))] if latency else None,
        "elsewhere %": round(100 * stolen(run)),
    }


def fits(runs: Sequence[Run]) -> dict[str, Any]:
    """How well the model tells rates, and CPU and memory of slots at the highest stable stair of each schedule."""
    ran = [run for run in runs if run.get("stairs")]
    readers: dict[str, Callable[[Run], Iterable[tuple[float, float]]]] = {
        "rate": lambda run: [(run["predicted_per_s"], actual_per_s(run))],
        "planned rate": lambda run: [(run["planned_per_s"], actual_per_s(run))],
        "CPU": partial(_loads, what="cpu"), "memory": partial(_loads, what="memory"),
        f"rate {AT_SPEED}": lambda run: [(run.get("predicted_at_speed_per_s", nan), actual_per_s(run))],
        f"rate {MOST}": lambda run: [(run["predicted_per_s"], most_per_s(run))],
        f"CPU {AT_SPEED}": partial(_loads, what="cpu", by="predicted_at_speed"),
    }
    summary: dict[str, Any] = {}
    for name, pairs in readers.items():
        points = [list(pairs(run)) for run in ran]
        summary[name] = _plain(fit(chain.from_iterable(points))) | {"schedules": sum(map(bool, points))}
    return summary | {"mba_sam": _mba_sam(ran)}


def shown(document: Mapping[str, Any]) -> str:
    """The fits in words, with their definition."""
    fits = document["fits"]
    lines = [DEFINITION]
    for name in ("rate", f"rate {AT_SPEED}", f"rate {MOST}", "planned rate", "CPU", f"CPU {AT_SPEED}", "memory"):
        fit = fits[name]
        lines.append(f"{name}: R² {_figure(fit['correlation'])} ({_figure(fit['identity'])}), median error "
                     f"{_figure(fit['error'])}, {fit['points']} points of {fit['schedules']} schedules")
    if fits["mba_sam"]:
        pair = "+".join(MODEL_BASED)
        lines.append(f"{pair} with slot-aware routing, carried of the planned rate (and at most, at any): " + ", ".join(
            f"{fit['dataflow']} at {fit['planned_per_s']:.4g}/s {fit['carried_over_planned']:.2f} "
            f"({fit['most_over_planned']:.2f})" for fit in fits["mba_sam"]))
    return "\n".join(lines)


def _plain(fit: Fit) -> dict[str, Any]:
    """As JSON takes it: what too few points say is None."""
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in asdict(fit).items()}


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _mba_sam(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """What each schedule of the paper's own pair carried of its planned rate when it was given just that.

    Also whether it kept it: sustained nearly as much, without piling up.
    """
    rows = []
    for run in runs:
        if run["pair"] == list(MODEL_BASED):
            planned = run["planned_per_s"]
            stair = min(run["stairs"], key=lambda stair: abs(stair["rate_per_s"] - planned))
            carried = stair["carried_per_s"] / planned
            rows.append({
                "dataflow": run["dataflow"], "planned_per_s": planned, "given_per_s": stair["rate_per_s"],
                "carried_over_planned": carried, "most_over_planned": most_per_s(run) / planned,
                "keeps": actual_per_s(run) >= (1 - WITHIN) * planned})
    return rows


def _loads(run: Run, what: str, by: str = "predicted") -> Iterator[tuple[float, float]]:
    """Predicted and measured loads of the slots that a schedule uses."""
    stair = highest_stable(run)
    if stair is None:
        return
    for slot, predicted in stair.get(by, {}).items():
        yield predicted[what], stair["loads"][slot][what]


def _percent(shares: Iterable[float]) -> str:
    return " ".join(f"{100 * share:.0f}" for share in shares)
