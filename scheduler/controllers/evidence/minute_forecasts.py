"""Forecasts of the next minutes from kept history, as controllers use them: of sources' rates, and of how fast nodes'
cores are.

A forecast is of `scheduler.adaptation.course_forecasts`, of minutes, with a day as its season. It is compared with the
last minute: if it was not less wrong than that, or too wrong, it is not used, and says why. Else both count by the
inverse of the squares of their errors (Bates and Granger, "The combination of forecasts", 1969).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from scheduler.history.series import MINUTE, NODE, TASK, Series
from scheduler.model.checks import FiniteFigures
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
class MinuteForecast(FiniteFigures):
    """An expectation of a series, minute by minute.

    Parameters
    ----------
    begin_s : float
        The beginning of the first of the minutes, in seconds since the epoch.
    last : float
        The newest measured minute.
    values : tuple of float
        In the unit of the series; empty where the last minute is expected to go on.
    errors : tuple of float
        By minute the mean absolute error that the method had, as a part of what was measured.
    error : float
        The standard deviation of the mean over the minutes, as a part of it.
    method : str
        By which it was made.
    why_averages : str
        The reason for none; empty where there is.
    """

    begin_s: float
    last: float
    values: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    error: float = 0.0
    method: str = ""
    why_averages: str = ""

    def ahead(self, now_s: float) -> tuple[float, ...]:
        """The forecast for `AHEAD` minutes from a moment on, empty without one; behind its end its last minute goes
        on."""
        first = max(0, int((now_s - self.begin_s) // MINUTE.step_s))
        return (self.values[first:] + self.values[-1:] * AHEAD)[:AHEAD]


class MinuteForecasts:
    """Forecasts that whoever runs the loop keeps from one turn to the next: each is made every `AGAIN_S` at most, and
    methods are tried on what is known every `JUDGED_S` at most."""

    def __init__(self) -> None:
        self._minutes: dict[Series, tuple[float, MinuteForecast]] = {}
        self._courses: dict[Series, tuple[float, CourseForecast]] = {}

    def rates(self, history: History, sources: Collection[str], now_s: float) -> dict[str, MinuteForecast]:
        """The expected events a second of running source tasks; without those never measured."""
        return self._forecasts_of(history, {name: Series(TASK, name, "rate_per_s") for name in sources}, now_s)

    def speeds(self, history: History, nodes: Collection[str], now_s: float) -> dict[str, MinuteForecast]:
        """The expected speed of the cores of nodes, as a part of what was calibrated; without those never measured."""
        return self._forecasts_of(history, {name: Series(NODE, name, "core_speed") for name in nodes}, now_s)

    def _forecasts_of(self, history: History, lines: Mapping[str, Series], now_s: float) -> dict[str, MinuteForecast]:
        self._minutes = {line: made for line, made in self._minutes.items() if 0 <= now_s - made[0] < FORGOTTEN_S}
        self._courses = {line: judged for line, judged in self._courses.items() if 0 <= now_s - judged[0] < JUDGED_S}
        due = [line for _, line in sorted(lines.items())
               if line not in self._minutes or now_s - self._minutes[line][0] >= AGAIN_S]
        end_s = int(now_s // MINUTE.step_s) * MINUTE.step_s  # whole minutes alone
        for line, minutes in _kept_minutes(history, due, end_s):
            if line not in self._courses:
                self._courses[line] = now_s, judged_course(minutes)
            self._minutes[line] = now_s, forecast_minutes(minutes, self._courses[line][1], begin_s=end_s)
        return {name: self._minutes[line][1] for name, line in lines.items() if line in self._minutes}


def judged_course(minutes: Sequence[float] | Rates) -> CourseForecast:
    """The course by the method that is to forecast the next minutes, and the error of each method."""
    return forecast_course(minutes, STEPS, season=SEASON, most_origins=ORIGINS)


def forecast_minutes(minutes: Sequence[float] | Rates, judged: CourseForecast, *, begin_s: float) -> MinuteForecast:
    """The expectation after some minutes, far enough ahead to last until the next one.

    Parameters
    ----------
    minutes : sequence of float
        The newest last; NaN where nothing was measured. One of them was.
    judged : CourseForecast
        Of these minutes, or of those until a while ago: its method is taken.
    begin_s : float
        The end of the minutes, in seconds since the epoch.
    """
    samples = without_gaps(minutes)
    newest = float(samples[-1])
    if judged.why_averages or judged.errors is None or judged.others is None:
        return MinuteForecast(begin_s, newest, why_averages=judged.why_averages)
    errors, last = judged.errors, judged.others[LAST]
    values = METHODS[judged.method](samples, STEPS, SEASON)
    if values is None or judged.method == LAST or errors.total >= last.total:
        return MinuteForecast(begin_s, newest, why_averages="No forecast was less wrong than the last minute.")
    sum_of_squares = last.of_mean**2 + errors.of_mean**2
    trust = last.of_mean**2 / sum_of_squares if sum_of_squares else 1.0
    expected = trust * values + (1 - trust) * newest
    error = last.of_mean * errors.of_mean / math.sqrt(sum_of_squares) if sum_of_squares else 0.0
    return MinuteForecast(
        begin_s, newest, tuple(float(value) for value in expected), errors.by_step, error, judged.method)


def _kept_minutes(history: History, lines: Sequence[Series], end_s: int) -> Iterator[tuple[Series, Rates]]:
    """The minutes of series since they were first measured, as many as a forecast looks at."""
    points = history.read(
        lines, MINUTE, begin_s=max(0, end_s - MOST_SAMPLES * MINUTE.step_s), end_s=end_s) if lines else {}
    for line in lines:
        values = np.asarray(points[line].values, dtype=float) if line in points else np.empty(0)
        measured_at = np.flatnonzero(np.isfinite(values))
        if len(measured_at):
            yield line, values[measured_at[0]:]
