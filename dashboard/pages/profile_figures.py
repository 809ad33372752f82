"""Figures of profiles: measured points, what lies between them, what running bundles did; and a trial's raw series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dashboard.profiles.models import ObservationRow, TrialRecord
from scheduler.model.profile import Profile

BEYOND = 1.25  # how far past the last measured number of threads a curve is drawn
MOST_STEPS = 160
WORDS = {"measured": "measured", "interpolated": "between measured points", "beyond": "beyond what was measured"}
SECONDS = {
    "type": "linear", "title": {"text": "seconds since the first event", "standoff": 6, "font": {"size": 11}},
    "rangemode": "tozero"}
ABOVE = {"legend": {"y": 1.02, "yanchor": "bottom"}, "margin": {"t": 46}}  # room for a legend of two lines


def profile_figures(profile: Profile, observed: Iterable[ObservationRow]) -> dict[str, Any]:
    """Rate, CPU and memory over threads.

    Between measured points, and beyond them, a dotted line shows what planning and prediction take instead: it is told
    apart from what was measured, in the legend and at every point.
    """
    seen = list(observed)
    return {
        "rate": _over_threads(profile, seen, "rate_per_s", unit=" events/s"),
        "cpu": _over_threads(profile, seen, "cpu", unit="%", scale=100, idle="idle_cpu"),
        "memory": _over_threads(profile, seen, "memory", unit="%", scale=100, idle="idle_memory"),
    }


def sweep_figure(trials: Iterable[TrialRecord]) -> dict[str, Any]:
    """The trials of a sweep: rate over threads, stable and not."""
    done = [trial for trial in trials if trial.stable is not None]

    def those(stable: bool, name: str, symbol: str, series: int) -> dict[str, Any]:
        chosen = [trial for trial in done if trial.stable is stable]
        return _points(
            [trial.threads for trial in chosen], [trial.rate_per_s for trial in chosen], name=name, symbol=symbol,
            series=series, texts=[f"trial {trial.number}" for trial in chosen], unit=" events/s")

    data = [those(True, "stable", "circle", 0), those(False, "not stable", "x", 1)]
    return {"trials": {
        "data": data, "least": 1, "empty": "The first trial shows here as soon as it has ended.",
        "layout": {
            "xaxis": _threads(max((trial.threads for trial in done), default=1)), "yaxis": {"ticksuffix": "/s"},
            "hovermode": "closest"}}}


def trial_figures(trial: TrialRecord) -> dict[str, Any]:
    """A trial's raw series: latency, events/s, and CPU and memory above base load, each over time."""
    at, latency, rate, cpu, memory = ([row[index] for row in trial.series] for index in range(5))
    return {
        "latency": _over_time(at, {"latency": latency}, unit=" s"),
        "rate": _over_time(at, {"came out": rate, "offered": [trial.rate_per_s] * len(at)}, unit="/s"),
        "load": _over_time(at, {"CPU": _times(cpu, 100), "memory": _times(memory, 100)}, unit="%"),
    }


def _over_threads(
    profile: Profile, seen: Sequence[ObservationRow], field: str, *, unit: str, scale: float = 1, idle: str = ""
) -> dict[str, Any]:
    estimates = [profile.estimate(threads) for threads in _steps(profile)]
    between = [scale * getattr(one.point, field) for one in estimates]
    data = [{
        "type": "scatter", "mode": "lines", "name": "in between", "series": 0, "line": {"dash": "dot"},
        "x": [one.point.threads for one in estimates], "y": between, "text": [WORDS[one.basis] for one in estimates],
        "hovertemplate": "%{x} threads: %{y:.3~g}" + unit + "<br>%{text}<extra></extra>",
    }]
    if idle:
        data.append({
            "type": "scatter", "mode": "lines", "name": "without events", "series": 2, "line": {"dash": "dash"},
            "x": [one.point.threads for one in estimates], "y": [scale * getattr(one.point, idle) for one in estimates],
            "hovertemplate": "without events %{y:.3~g}" + unit + "<extra></extra>"})
    data.append(_points(
        [point.threads for point in profile.points], [scale * getattr(point, field) for point in profile.points],
        name="measured", symbol="circle", series=0, unit=unit,
        texts=["measured"] * len(profile.points)))
    seen = [one for one in seen if getattr(one, field) is not None]
    if seen:
        data.append(_points(
            [one.threads for one in seen], [scale * getattr(one, field) for one in seen],
            name="seen running", symbol="cross", series=1, unit=unit,
            texts=[f"at {one.rate_per_s:.4g} events/s{'' if one.stable else ', not kept up with'}" for one in seen]))
    layout = {
        "xaxis": _threads(estimates[-1].point.threads), "hovermode": "closest", **ABOVE,
        "yaxis": {"ticksuffix": unit if unit == "%" else "/s"}}
    return {"data": data, "layout": layout, "least": 1}


def _threads(most: int) -> dict[str, Any]:
    """The axis of threads, which are whole."""
    few = {"dtick": 1} if most <= 10 else {}
    title = {"text": "threads", "standoff": 6, "font": {"size": 11}}
    return {"type": "linear", "title": title, "range": [0, most + max(0.5, 0.04 * most)], **few}


def _steps(profile: Profile) -> list[int]:
    """Numbers of threads to draw: all where they are few, else evenly spread, and always the measured ones."""
    last = max(profile.points[-1].threads + 1, round(BEYOND * profile.points[-1].threads))
    step = max(1, last // MOST_STEPS)
    return sorted({*range(1, last + 1, step), last, *(point.threads for point in profile.points)})


def _points(
    x: Sequence[float], y: Sequence[float], *, name: str, symbol: str, series: int, texts: Sequence[str], unit: str
) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": name, "series": series, "marker": {"symbol": symbol, "size": 9},
        "x": list(x), "y": list(y), "text": list(texts),
        "hovertemplate": "%{x} threads: %{y:.3~g}" + unit + "<br>%{text}<extra></extra>"}


def _over_time(at: Sequence[float], series: dict[str, Sequence[float | None]], *, unit: str) -> dict[str, Any]:
    data = [
        {"type": "scatter", "mode": "lines+markers", "name": name, "x": list(at), "y": list(values),
         "connectgaps": False, "hovertemplate": "%{y:.3~f}" + unit}
        for name, values in series.items()
    ]
    return {"data": data, "layout": {"xaxis": SECONDS, "yaxis": {"ticksuffix": unit}}, "least": 1,
            "empty": "No series was kept of this trial."}


def _times(values: Sequence[float | None], factor: float) -> list[float | None]:
    return [None if value is None else value * factor for value in values]
