"""Forecasts of a customer's consumption over the next hour, from the last days and the day so far.

Each is a pure function of a `LoadHistory`. The averages of utilities are those of their programmes for demand response
as Coughlin and others describe them [1]_; Aman and others [2]_, and Frincu and others [3]_, forecast by them. What the
papers do not say is said at each.

References
----------
.. [1] Coughlin, Piette, Goldman and Kiliccote, "Estimating Demand Response Load Impacts: Evaluation of Baseline Load
   Models for Non-Residential Buildings in California", LBNL-63728, 2008.
.. [2] Aman, Frincu, Chelmis, Noor, Simmhan and Prasanna, "Prediction Models for Dynamic Demand Response", 2015.
.. [3] Frincu, Chelmis, Noor and Prasanna, "Accurate and Efficient Selection of the Best Consumption Prediction Method
   in Smart Grids", 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .folds import hash64, splitmix64
from .learning import fitted
from .models import REGRESSOR, apply

DAYS = 15  # that a history holds: the two weeks of which averages choose, and the day before
POOL, FREE_POOL = 10, 3  # similar days to choose from: working days; days at weekends and holidays
ORDER = 4  # of the autoregression
RECENT_DAYS = 3  # of the sliding window over days
_TREE_DEPTH, _TREE_LEAF = 8, 10


@dataclass(frozen=True, slots=True)
class LoadHistory:
    """A customer's loads that are known when an hour begins. A missing reading is NaN.

    Parameters
    ----------
    days : array of shape (days, readings of a day)
        Whole days one after the other, the last one yesterday; a day without readings is all NaN.
    today : array of shape (readings so far,)
        The readings of the day that the hour is of, up to the hour.
    """

    days: np.ndarray
    free: np.ndarray
    today: np.ndarray
    today_free: bool
    steps: int

    @property
    def series(self) -> np.ndarray:
        """All readings, the newest last."""
        return np.concatenate([self.days.ravel(), self.today])

    def before(self, first_h: int, last_h: int = 0) -> np.ndarray:
        """The readings from so many hours before the hour to so many hours before it."""
        series = self.series
        end = len(series) - last_h * self.steps
        return series[max(0, len(series) - first_h * self.steps):max(0, end)]


def mean_of_known(values: np.ndarray) -> float:
    """The mean of what is not NaN; NaN where nothing is."""
    measured = values[~np.isnan(values)]
    return float(measured.mean()) if len(measured) else float("nan")


def variances(history: LoadHistory) -> list[float | None]:
    """The variance of the readings in each quarter of the last hour, and in all of it, as shares of its squared mean.

    A share, so that large customers and small ones can be compared (the squared coefficient of variation). None where
    fewer than two readings are known.
    """
    hour = history.before(1)
    level = mean_of_known(hour)
    cuts = np.array_split(hour, 4) if len(hour) >= 8 else []
    return [_variance(part, level) for part in (*cuts, hour)]


def _variance(values: np.ndarray, level: float) -> float | None:
    measured = values[~np.isnan(values)]
    return _finite(measured.var(), level**2) if len(measured) > 1 else None


def _finite(part: float, whole: float) -> float | None:
    """The share; None where it is no number."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = float(np.divide(part, whole))
    return share if isfinite(share) else None


# averages of similar days --------------------------------------------------------------------------------------------


def average_of_similar_days(
    history: LoadHistory, _: Any = None, *, most: int | None, free_most: int | None, skip: int,
    adjust_h: tuple[int, int], bound: float,
) -> np.ndarray:
    """The average of the similar days that were highest, corrected by how this day has gone ("morning adjustment").

    Parameters
    ----------
    most, free_most : int, optional
        The number of days of the pool that are averaged, of working days and of others: those with most consumption.
        None: all.
    skip : int
        The number of days before today that do not count.
    adjust_h : tuple of int
        Two numbers of hours before the hour: over these the day is held against the average.
    bound : float
        By what share the correction changes the average at most.
    """
    profile = _profile_of_similar_days(
        history, pool=FREE_POOL if history.today_free else POOL,
        most=free_most if history.today_free else most, skip=skip)
    expected = _around_midnight(profile, len(history.today), -adjust_h[0] * history.steps,
                                (adjust_h[0] - adjust_h[1]) * history.steps)
    actual = history.before(*adjust_h)
    expected = expected[len(expected) - len(actual):]
    is_complete = ~(np.isnan(actual) | np.isnan(expected))
    actual_sum, total = float(actual[is_complete].sum()), float(expected[is_complete].sum())
    factor = min(max(actual_sum / total, 1 - bound), 1 + bound) if total > 0 else 1.0
    return factor * _around_midnight(profile, len(history.today), 0, history.steps)


def _profile_of_similar_days(history: LoadHistory, *, pool: int, most: int | None, skip: int) -> np.ndarray:
    """Readings of a day: of similar days where there are any, else of all."""
    days, free = history.days[:len(history.days) - skip], history.free[:len(history.days) - skip]
    is_measured = ~np.isnan(days).all(axis=1)
    similar = days[is_measured & (free == history.today_free)][-pool:]
    if not len(similar):
        similar = history.days[~np.isnan(history.days).all(axis=1)][-pool:]
    if most is not None and len(similar) > most:
        means = np.array([mean_of_known(day) for day in similar])
        similar = similar[np.sort(np.argsort(-means, kind="stable")[:most])]
    return _mean_by_reading(similar, history.days.shape[1])


def _mean_by_reading(days: np.ndarray, width: int) -> np.ndarray:
    is_measured = ~np.isnan(days)
    counts = is_measured.sum(axis=0)
    sums = np.where(is_measured, days, 0.0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan) if len(days) else np.full(width, np.nan)


def _around_midnight(profile: np.ndarray, index: int, offset: int, count: int) -> np.ndarray:
    return profile[np.arange(index + offset, index + offset + count) % len(profile)]


# sliding windows -----------------------------------------------------------------------------------------------------


def mean_of_last_hour(history: LoadHistory, _: Any = None) -> np.ndarray:
    """The mean of the last hour with readings, for each reading of the next one."""
    series = history.series
    measured_at = np.flatnonzero(~np.isnan(series))
    if not len(measured_at):
        return np.full(history.steps, np.nan)
    end = measured_at[-1] + 1
    return np.full(history.steps, mean_of_known(series[max(0, end - history.steps):end]))


def shape_of_last_days(history: LoadHistory, _: Any = None) -> np.ndarray:
    """The average of the same readings of the last three days, whatever days, on the level of the last hour."""
    days = history.days[~np.isnan(history.days).all(axis=1)][-RECENT_DAYS:]
    profile = _mean_by_reading(days, history.days.shape[1])
    level = mean_of_known(history.before(1))
    was = mean_of_known(_around_midnight(profile, len(history.today), -history.steps, history.steps))
    shape = _around_midnight(profile, len(history.today), 0, history.steps)
    with np.errstate(over="ignore", invalid="ignore"):
        return shape * np.divide(level, was) if was > 0 and level == level else shape


# regression tree -----------------------------------------------------------------------------------------------------


def fit_tree(days: np.ndarray, free: np.ndarray, steps: int) -> dict[str, Any] | None:
    """A regression tree over the reading's place in the day, the kind of day, the same reading of the day before, and
    the mean of the hour before; None where nothing can be learned."""
    if len(days) < 2:
        return None
    count, width = days.shape
    series = days.ravel()
    hours = series.reshape(-1, steps)
    counts = (~np.isnan(hours)).sum(axis=1)
    means = np.where(counts > 0, np.nansum(hours, axis=1) / np.maximum(counts, 1), np.nan)
    rows = np.column_stack([
        np.tile(np.arange(width), count - 1), np.repeat(free[1:], width), days[:-1].ravel(),
        np.repeat(means[width // steps - 1:-1], steps)])
    targets = days[1:].ravel()
    usable = ~(np.isnan(rows).any(axis=1) | np.isnan(targets))
    if usable.sum() < 2 * _TREE_LEAF:
        return None
    return fitted(REGRESSOR, rows[usable], targets[usable], depth=_TREE_DEPTH, leaf=_TREE_LEAF)


def forecast_tree(history: LoadHistory, tree: dict[str, Any] | None) -> np.ndarray:
    """Forecasts by a regression tree, one for each reading that is asked for."""
    level, now = mean_of_known(history.before(1)), len(history.today)
    if tree is None or level != level:
        return np.full(history.steps, np.nan)
    before = history.days[-1]
    model = {"kind": REGRESSOR, **tree}
    return np.array([
        apply(model, [float(at), float(history.today_free), float(before[at]), level]) if before[at] == before[at]
        else np.nan for at in range(now, now + history.steps)])


# autoregression ------------------------------------------------------------------------------------------------------


def fit_arima(days: np.ndarray, free: np.ndarray, steps: int) -> list[float] | None:
    """ARIMA(4, 0, 0)(0, 1, 0) with the day as season, by conditional least squares: the constant and the coefficients
    of an autoregression of the differences from the day before; None where nothing can be learned."""
    differences = (days[1:] - days[:-1]).ravel()
    if len(differences) <= 4 * ORDER:
        return None
    lags = sliding_window_view(differences, ORDER + 1)
    lags = lags[~np.isnan(lags).any(axis=1)]
    if len(lags) <= 4 * ORDER:
        return None
    terms = np.column_stack([np.ones(len(lags)), lags[:, ORDER - 1::-1]])
    return [float(value) for value in np.linalg.lstsq(terms, lags[:, ORDER], rcond=None)[0]]


def forecast_arima(history: LoadHistory, coefficients: list[float] | None) -> np.ndarray:
    """The readings of the day before, and on them what the autoregression says, step by step."""
    width, steps = history.days.shape[1], history.steps
    series = history.series
    if coefficients is None or len(series) < width + ORDER:
        return np.full(steps, np.nan)
    differences = list(np.nan_to_num(series[-ORDER:] - series[-ORDER - width:-width]))
    for _ in range(steps):
        lags = differences[:-ORDER - 1:-1]
        differences.append(coefficients[0] + float(np.dot(coefficients[1:], lags)))
    return series[len(series) - width:len(series) - width + steps] + np.array(differences[ORDER:])


# the registry --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ForecastMethod:
    """A way to forecast: the forecast of a history, and what it learns of whole days, where it learns.

    ``fit`` takes the days, whether each is free, and the readings of an hour; what it gives is what JSON can say, and
    is good for a day.
    """

    forecast: Callable[[LoadHistory, Any], np.ndarray]
    fit: Callable[[np.ndarray, np.ndarray, int], Any] | None = None


METHODS: Mapping[str, ForecastMethod] = {  # `predict.FORECAST_METHODS` says what they do
    "nyiso": ForecastMethod(partial(
        average_of_similar_days, most=5, free_most=2, skip=1, adjust_h=(4, 2), bound=0.2)),
    "casce": ForecastMethod(partial(
        average_of_similar_days, most=None, free_most=None, skip=0, adjust_h=(4, 1), bound=0.4)),
    "caiso": ForecastMethod(partial(
        average_of_similar_days, most=3, free_most=3, skip=0, adjust_h=(4, 1), bound=0.2)),
    "sliding_hour": ForecastMethod(mean_of_last_hour),
    "sliding_days": ForecastMethod(shape_of_last_days),
    "tree": ForecastMethod(forecast_tree, fit_tree),
    "arima": ForecastMethod(forecast_arima, fit_arima),
}
RANDOM = "random"


def method_of(name: str, *, seed: int, customer: str, hour: int) -> str:
    """The method that forecasts an hour: the named one, or for `RANDOM` one by chance.

    Parameters
    ----------
    hour : int
        Hours since the epoch: with the seed and the customer, all that chance depends on.
    """
    if name != RANDOM:
        return name
    names = list(METHODS)
    return names[splitmix64(seed ^ hash64(customer), hour) % len(names)]


def forecast(name: str, history: LoadHistory, fit: Any) -> np.ndarray | None:
    """The readings of the next hour by a method; what it cannot say is the mean of the last hour with readings. None
    where there was no reading at all.

    Parameters
    ----------
    fit : Any
        The result of the method's ``fit`` on the history's days, None for one without.
    """
    level = mean_of_last_hour(history)
    if level[0] != level[0]:
        return None
    readings = METHODS[name].forecast(history, fit)
    return np.where(np.isfinite(readings), readings, level)


def error_of(actual: np.ndarray, forecast_: np.ndarray) -> float | None:
    """The mean absolute error, each as a share of its reading (MAPE, not in percent); None without a reading other than
    zero, or if the mean is not finite."""
    counts = ~np.isnan(actual) & (actual != 0)
    if not counts.any():
        return None
    with np.errstate(over="ignore"):
        return _finite(np.abs((actual[counts] - forecast_[counts]) / actual[counts]).sum(), counts.sum())
