"""Forecasts of courses that are measured, rates or machines' speeds: recent and seasonal, with the error that each had.

Every method is tried on what is known: from moments of the past it forecasts what came after them (rolling origin,
Tashman, "Out-of-sample tests of forecasting accuracy", 2000). The one that erred least over the first half of these
moments is taken, and what is stated is its error over the second half, which had no part in choosing it. Where that is
too large, or no less than that of the recent mean, the forecast is the recent mean (as WAAF), and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.simulation.loads import Rates

from .adaptation_port import Forecast

RECENT = 6  # samples that the recent mean is of
SEASONS = 7  # that are looked back at most
MOST_SAMPLES = 4 * 7 * 24 * 12  # that are looked at: four weeks of five minutes
ORIGINS = 48  # moments from which is forecast at most
LEAST_ORIGINS = 4  # in either half; with fewer no error is stated
TOO_WRONG = 0.3  # of the mean: an error from which on averages decide
AVERAGES = "averages"

CourseMethod = Callable[[Rates, int, int], Rates | None]


def forecast_last(samples: Rates, steps: int, season: int) -> Rates:
    """The newest values, repeated."""
    return np.full(steps, samples[-1])


def forecast_recent_mean(samples: Rates, steps: int, season: int) -> Rates:
    """The mean of the last `RECENT` samples goes on."""
    return np.full(steps, samples[-RECENT:].mean())


def forecast_trend(samples: Rates, steps: int, season: int) -> Rates:
    """Level and damped trend by exponential smoothing (Gardner and McKenzie 1985), of the newest samples."""
    level, trend = float(samples[-8 * RECENT:][0]), 0.0
    for value in samples[-8 * RECENT:][1:]:
        before = level
        level = 0.5 * float(value) + 0.5 * (level + 0.9 * trend)
        trend = 0.2 * (level - before) + 0.8 * 0.9 * trend
    damped = np.cumsum(0.9 ** np.arange(1, steps + 1))
    return np.maximum(0.0, level + trend * damped)


def forecast_season(samples: Rates, steps: int, season: int) -> Rates | None:
    """The smoothed mean of the same time in the seasons before, scaled by how the last samples compare with theirs;
    None with less than one season and `RECENT` samples."""
    seasons = min(SEASONS, (len(samples) - RECENT) // season)
    if season <= RECENT or seasons < 1:
        return None
    end, ahead = len(samples), np.arange(-RECENT, steps)
    smooth = _smooth(samples)
    usual = np.mean([smooth[np.minimum(end - number * season + ahead, end - 1)]
                     for number in range(1, seasons + 1)], axis=0)
    before, after = usual[:RECENT].mean(), usual[RECENT:]
    level = float(samples[-RECENT:].mean() / before) if before > 0 else 1.0
    return after * min(level, 4.0)


def _smooth(samples: Rates) -> Rates:
    padded = np.pad(samples, 1, mode="edge")
    return (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4


METHODS: dict[str, CourseMethod] = {
    "last": forecast_last, AVERAGES: forecast_recent_mean, "trend": forecast_trend, "season": forecast_season}


@dataclass(frozen=True)
class ForecastErrors:
    """The errors of a method at each step ahead: mean absolute error, as a part of what came on average; of the mean
    over all steps its standard deviation, likewise; and from how many moments that was seen."""

    by_step: tuple[float, ...]
    of_mean: float
    origins: int

    @property
    def total(self) -> float:
        """The mean over the steps."""
        return float(np.mean(self.by_step))


@dataclass(frozen=True)
class CourseForecast:
    """The expected course, the method, its error, and why averages decide where they do.

    ``errors`` is None where too little is known to state any; ``others`` has the errors of every method.
    """

    values: Rates
    method: str
    errors: ForecastErrors | None
    why_averages: str = ""
    others: Mapping[str, ForecastErrors] | None = None


def backtest(
    samples: Rates, steps: int, season: int, method: CourseMethod, origins: Sequence[int]
) -> ForecastErrors | None:
    """The errors of a method from some moments, each with so many steps known after it; None where it has no answer."""
    wrong, means, came = [], [], []
    for origin in origins:
        forecast = method(samples[:origin], steps, season)
        if forecast is None:
            return None
        actual = samples[origin:origin + steps]
        wrong.append(np.abs(forecast - actual))
        means.append(float(forecast.mean() - actual.mean()))
        came.append(float(actual.mean()))
    scale = max(float(np.mean(came)), 1e-12)
    return ForecastErrors(
        tuple(float(value) for value in np.mean(wrong, axis=0) / scale),
        float(np.sqrt(np.mean(np.square(means)))) / scale, len(origins))


def forecast_course(
    measured: Sequence[float] | Rates, steps: int, *, season: int, too_wrong: float = TOO_WRONG,
    most_origins: int = ORIGINS,
) -> CourseForecast:
    """The next values, by the method that was least wrong on the known ones.

    Parameters
    ----------
    measured : sequence of float
        Samples equally far apart, the newest last; NaN where nothing was measured: there the one before holds. At most
        the newest `MOST_SAMPLES` are looked at.
    too_wrong : float, optional
        Error relative to the mean (0.5: half of it) from which on averages decide.
    most_origins : int, optional
        From how many moments is forecast at most to see how wrong the methods are.

    Raises
    ------
    ValueError
        Nothing was measured, or no step is asked for.
    """
    samples = without_gaps(measured)
    if steps < 1 or not len(samples):
        raise ValueError("a forecast is of a step or more, from a sample or more")
    averages = forecast_recent_mean(samples, steps, season)
    origins = origins_of(len(samples), steps, season, most_origins)
    if len(origins) < 2 * LEAST_ORIGINS:
        return CourseForecast(averages, AVERAGES, None, "Too little is known to say how wrong a forecast is.")
    half = len(origins) // 2
    chosen_by, stated = {}, {}
    for name, method in METHODS.items():
        first, second = (backtest(samples, steps, season, method, some) for some in (origins[:half], origins[half:]))
        if first is not None and second is not None:
            chosen_by[name], stated[name] = first, second
    best = min(chosen_by, key=lambda name: chosen_by[name].total)
    reason = ""
    if best == AVERAGES or stated[best].total >= stated[AVERAGES].total:
        reason = "No forecast was less wrong than the recent mean."
    elif stated[best].total >= too_wrong:
        reason = f"The forecast was {stated[best].total:.0%} wrong; averages decide from {too_wrong:.0%} on."
    if reason:
        return CourseForecast(averages, AVERAGES, stated[AVERAGES], reason, stated)
    values = METHODS[best](samples, steps, season)
    assert values is not None
    return CourseForecast(values, best, stated[best], "", stated)


def origins_of(samples: int, steps: int, season: int, most: int = ORIGINS) -> list[int]:
    """The numbers of known samples from which backtests forecast: evenly over the newer half, and once a season is
    known where there is one; each has all steps after it."""
    first, last = max(RECENT + 1, samples // 2), samples - steps
    if samples - steps >= season + RECENT + 2 * LEAST_ORIGINS:
        first = max(first, season + RECENT)
    if last < first:
        return []
    return sorted({round(origin) for origin in np.linspace(first, last, min(most, last - first + 1))})


def without_gaps(measured: Sequence[float] | Rates) -> Rates:
    """The newest `MOST_SAMPLES`, with the one before where nothing was measured (at first the one after), and none
    below 0; none at all where nothing was."""
    samples = np.asarray(measured, dtype=float)[-MOST_SAMPLES:]
    measured_at = np.flatnonzero(np.isfinite(samples))
    if not len(measured_at):
        return np.empty(0)
    places = np.maximum.accumulate(np.where(np.isfinite(samples), np.arange(len(samples)), measured_at[0]))
    return np.maximum(0.0, samples[places])


def forecast_from(rates_per_s: Mapping[str, CourseForecast], speeds: Mapping[str, CourseForecast]) -> Forecast:
    """Forecasts of courses as algorithms take them; its error is the largest of those of the rates."""
    errors = [course.errors.of_mean for course in rates_per_s.values() if course.errors is not None]
    return Forecast(
        {source: course.values.tolist() for source, course in rates_per_s.items()},
        {vm: course.values.tolist() for vm, course in speeds.items()}, max(errors, default=0.0))
