"""Figures of profiles: measured points, what lies between them, what running bundles did; and a trial's raw series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dashboard.pages.plots import ABOVE
from dashboard.profiles.models import ObservationRow, TrialRecord
from scheduler.model.profile import Profile

BEYOND = 1.25  # how far past the last measured number of threads a curve is drawn
MOST_STEPS = 160
WORDS = {"measured": "measured", "interpolated": "between measured points", "beyond": "beyond what was measured"}
SECONDS = {
    "type": "linear", "title": {"text": "seconds since the first event", "standoff": 6, "font": {"size": 11}},
    "rangemode": "tozero"}


def profile_figures(profile: Profile, observed: Iterable[ObservationRow]) -> dict[str, Any]:
    """Rate, CPU and memory over threads.

    Between measured points, and beyond them, a dotted line shows what planning and prediction take instead: it is named
    apart from what was measured, in the legend and at every point.
    """
    observations = list(observed)
    return {
        "rate": _over_threads(profile, observations, "rate_per_s", unit=" events/s"),
        "cpu": _over_threads(profile, observations, "cpu", unit="%", scale=100, idle="idle_cpu"),
        "memory": _over_threads(profile, observations, "memory", unit="%", scale=100, idle="idle_memory"),
    }


def sweep_figure(trials: Iterable[TrialRecord]) -> dict[str, Any]:
    """The trials of a sweep: rate over threads, stable and not; where less was fed than was asked for, what was fed.

    Those that were set aside look different from those that count.
    """
    ended = [trial for trial in trials if trial.stable is not None]
    done = [trial for trial in ended if not trial.set_aside]
    starved, aside = [trial for trial in done if trial.starved], [trial for trial in ended if trial.set_aside]

    def trial_points(chosen: Sequence[TrialRecord], name: str, symbol: str, series: int) -> dict[str, Any]:
        return _points(
            [trial.threads for trial in chosen],
            [trial.offered_per_s if trial.starved else trial.rate_per_s for trial in chosen], name=name, symbol=symbol,
            series=series, texts=[f"trial {trial.number}" for trial in chosen], unit=" events/s")

    data = [
        trial_points([trial for trial in done if trial.stable], "stable", "circle", 0),
        trial_points([trial for trial in done if not trial.stable and not trial.starved], "not stable", "x", 1)]
    data += [trial_points(starved, "fed less than was asked for", "triangle-up", 2)] if starved else []
    data += [trial_points(aside, "not stable, set aside", "x-open", 3)] if aside else []
    return {"trials": {
        "data": data, "least": 1, "empty": "The first trial shows here as soon as it has ended.",
        "layout": {
            "xaxis": _threads(max((trial.threads for trial in ended), default=1)), "yaxis": {"ticksuffix": "/s"},
            "hovermode": "closest"}}}


def trial_figures(trial: TrialRecord) -> dict[str, Any]:
    """A trial's raw series: latency, events/s beside what was asked for and fed, and CPU and memory above base load."""
    at, latency, rate, cpu, memory = ([row[index] for row in trial.series] for index in range(5))
    fed = {"fed, when it counted": [trial.offered_per_s] * len(at)} if trial.offered_per_s else {}
    return {
        "latency": _over_time(at, {"latency": latency}, unit=" s"),
        "rate": _over_time(at, {"got through": rate, "asked for": [trial.rate_per_s] * len(at), **fed}, unit="/s"),
        "load": _over_time(at, {"CPU": _times(cpu, 100), "memory": _times(memory, 100)}, unit="%"),
    }


def _over_threads(
    profile: Profile, observations: Sequence[ObservationRow], field: str, *, unit: str, scale: float = 1, idle: str = ""
) -> dict[str, Any]:
    estimates = [profile.estimate(threads) for threads in _steps(profile)]
    between = [scale * getattr(estimate.point, field) for estimate in estimates]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "in between",
            "series": 0,
            "line": {"dash": "dot"},
            "x": [estimate.point.threads for estimate in estimates],
            "y": between,
            "text": [WORDS[estimate.basis] for estimate in estimates],
            "hovertemplate": "%{x} threads: %{y:.4~g}" + unit + "<br>%{text}<extra></extra>",
        }
    ]
    if any(getattr(point, idle) for point in profile.points if idle):  # nobody has noted it of a published one
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "without events",
                "series": 2,
                "line": {"dash": "dash"},
                "x": [estimate.point.threads for estimate in estimates],
                "y": [scale * getattr(estimate.point, idle) for estimate in estimates],
                "hovertemplate": "without events %{y:.4~g}" + unit + "<extra></extra>",
            }
        )
    data.append(_points(
        [point.threads for point in profile.points], [scale * getattr(point, field) for point in profile.points],
        name="measured", symbol="circle", series=0, unit=unit,
        texts=["measured"] * len(profile.points)))
    observations = [point_seen for point_seen in observations if getattr(point_seen, field) is not None]
    apart = field != "rate_per_s"  # what shares a slot takes is told apart by time; its rate is its own
    for name, symbol, points in (
        ("seen running", "cross", [point_seen for point_seen in observations if not (apart and point_seen.shared)]),
        ("seen on a shared slot", "cross-open",
         [point_seen for point_seen in observations if apart and point_seen.shared]),
    ):
        if points:
            data.append(_points(
                [point.threads for point in points], [scale * getattr(point, field) for point in points], name=name,
                symbol=symbol, series=1, unit=unit, texts=[_text(point) for point in points]))
    layout = {
        "xaxis": _threads(estimates[-1].point.threads), "hovermode": "closest", **ABOVE,
        "yaxis": {"ticksuffix": unit if unit == "%" else "/s"}}
    return {"data": data, "layout": layout, "least": 1}


def _text(observation: ObservationRow) -> str:
    """The text at a point of a running bundle."""
    behind = "" if observation.stable else ", not kept up with"
    shared = ", its part by time of a slot that it shared" if observation.shared else ""
    return f"at {observation.rate_per_s:.4g} events/s{behind}{shared}"


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
        "hovertemplate": "%{x} threads: %{y:.4~g}" + unit + "<br>%{text}<extra></extra>"}


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
