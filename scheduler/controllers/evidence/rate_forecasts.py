"""What sources are expected to make in the next minutes: forecasts from kept rates, as controllers go by them.

A forecast is of `scheduler.adaptation.course_forecasts`, of minutes, with a day as its season. It stands against what
was seen last: where it was not less wrong than that, or too wrong, it is not used, and says why. Else both count by the
inverse of the squares of their errors (Bates and Granger, "The combination of forecasts", 1969).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.adaptation.course_forecasts import (
    METHODS,
    MOST_SAMPLES,
    CourseForecast,
    forecast_course,
    without_gaps,
)
from scheduler.history.port import History
from scheduler.history.series import MINUTE, TASK, Series
from scheduler.model.checks import require_finite
from scheduler.simulation.loads import Rates

AHEAD = 5  # minutes that controllers look ahead: about as long as a switch keeps them from the next
AGAIN_S = 120.0  # a forecast is made again after so long, not before
JUDGED_S = 1800.0  # and so long goes by which method, and how wrong it is: that takes longer
STEPS = AHEAD + math.ceil(AGAIN_S / MINUTE.step_s)
ORIGINS = 400  # a rise of every day at the same time is not to fall between them
SEASON = 24 * 60
FORGOTTEN_S = 3600.0  # one that nobody asked for is dropped
LAST = "last"


@dataclass(frozen=True, slots=True)
class RateForecast:
    """What a source is expected to make, minute by minute.

    Parameters
    ----------
    begin_s : float
        When the first of the minutes begins, in seconds since the epoch.
    per_s : tuple of float
        Events a second; empty where what was seen last is expected to go on.
    errors : tuple of float
        By minute the mean absolute error that the method had, as a part of what came.
    error : float
        The standard deviation of the mean over the minutes, as a part of it.
    method : str
        By which it was made.
    why_averages : str
        Why there is none; empty where there is.
    """

    begin_s: float
    per_s: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    error: float = 0.0
    method: str = ""
    why_averages: str = ""

    def __post_init__(self) -> None:
        require_finite(self)

    def ahead(self, now_s: float) -> tuple[float, ...]:
        """`AHEAD` minutes from a moment on, none where it has none; after its last one that one goes on."""
        first = max(0, int((now_s - self.begin_s) // MINUTE.step_s))
        return (self.per_s[first:] + self.per_s[-1:] * AHEAD)[:AHEAD]


class RateForecasts:
    """Forecasts of sources that whoever runs the loop keeps from one turn to the next: each is made every `AGAIN_S` at
    most, and methods are tried on what is known every `JUDGED_S` at most."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[float, RateForecast]] = {}
        self._judged: dict[str, tuple[float, CourseForecast]] = {}

    def of(self, history: History, sources: Collection[str], now_s: float) -> dict[str, RateForecast]:
        """By running source task what is expected of it; those of which nothing was measured are left out."""
        self._made = {name: made for name, made in self._made.items() if 0 <= now_s - made[0] < FORGOTTEN_S}
        self._judged = {name: judged for name, judged in self._judged.items() if 0 <= now_s - judged[0] < JUDGED_S}
        due = sorted(name for name in sources if name not in self._made or now_s - self._made[name][0] >= AGAIN_S)
        end_s = int(now_s // MINUTE.step_s) * MINUTE.step_s  # whole minutes alone
        for name, minutes in _kept_minutes(history, due, end_s).items():
            if name not in self._judged:
                self._judged[name] = now_s, judged_course(minutes)
            self._made[name] = now_s, forecast_rate(minutes, self._judged[name][1], begin_s=end_s)
        return {name: self._made[name][1] for name in sources if name in self._made}


def judged_course(minutes: Sequence[float] | Rates) -> CourseForecast:
    """By which method what comes after some minutes is to be forecast, and how wrong each is."""
    return forecast_course(minutes, STEPS, season=SEASON, most_origins=ORIGINS)


def forecast_rate(minutes: Sequence[float] | Rates, judged: CourseForecast, *, begin_s: float) -> RateForecast:
    """What comes after some minutes, so far ahead that it lasts until it is made again.

    Parameters
    ----------
    minutes : sequence of float
        Events a second, the newest last; NaN where nothing was measured. One of them was.
    judged : CourseForecast
        Of these minutes, or of those until a while ago: its method is taken.
    begin_s : float
        When they end.
    """
    if judged.why_averages or judged.errors is None or judged.others is None:
        return RateForecast(begin_s, why_averages=judged.why_averages)
    errors, last, known = judged.errors, judged.others[LAST], without_gaps(minutes)
    values = METHODS[judged.method](known, STEPS, SEASON)
    if values is None or judged.method == LAST or errors.total >= last.total:
        return RateForecast(begin_s, why_averages="No forecast was less wrong than what was seen last.")
    both = last.of_mean**2 + errors.of_mean**2
    trust = last.of_mean**2 / both if both else 1.0
    per_s = trust * values + (1 - trust) * known[-1]
    error = last.of_mean * errors.of_mean / math.sqrt(both) if both else 0.0
    return RateForecast(
        begin_s, tuple(float(each) for each in per_s), errors.by_step, error, judged.method)


def _kept_minutes(history: History, sources: Sequence[str], end_s: int) -> Mapping[str, Rates]:
    """By source its minutes since it was first measured, as many as a forecast looks at."""
    if not sources:
        return {}
    lines = {name: Series(TASK, name, "rate_per_s") for name in sources}
    points = history.read(
        list(lines.values()), MINUTE, begin_s=max(0, end_s - MOST_SAMPLES * MINUTE.step_s), end_s=end_s)
    minutes = {}
    for name, line in lines.items():
        values = np.asarray(points[line].values, dtype=float) if line in points else np.empty(0)
        measured_at = np.flatnonzero(np.isfinite(values))
        if len(measured_at):
            minutes[name] = values[measured_at[0]:]
    return minutes
