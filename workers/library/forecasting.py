"""Forecasting as a fold: at each hour's first reading, what a customer will use in that hour, from the readings before.

The state is the readings of the last days, whatever the method, so that one method can go on with another's; what a
method learns of whole days is kept beside them for the day.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .forecasts import DAYS, METHODS, LoadHistory, error_of, forecast, method_of, variances
from .state_store import Parts

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
MOST = 1e12  # a reading beyond it counts as missing
_EPOCH_WEEKDAY = 3  # 1 January 1970 was a Thursday; Monday is 0


@dataclass(frozen=True, slots=True)
class HourlyForecast:
    """``step`` takes when a reading's interval begins (ms), its value, whether its day is a holiday and whose it is;
    gives (start, method, forecast, error, variances) at the first reading of an hour: when that begins (ms), the method
    that was used, what each of its readings will be, the error of the forecast before (a share; None where none can be
    told), and the variances of the readings of the hour before (`forecasts.variances`).

    A reading of an hour that has passed corrects what is kept, and no forecast. One that is more than a day ahead of
    the newest, or older than what is kept, is left out, for its time may be wrong; when an hour's readings in a row
    are, their time counts.

    Parameters
    ----------
    method : str
        One of `forecasts.METHODS`, or `forecasts.RANDOM`.
    interval_ms : int
        From one reading to the next; an hour has a whole number of them.
    offset_ms : int
        By how much the customers' clocks are before UTC.
    seed : int
        Of chance, where the method is random.
    """

    method: str
    interval_ms: int
    offset_ms: int = 0
    seed: int = 1

    def start(self) -> dict:
        return {"hour": None, "forecast": None, "astray": 0, "days": {}, "fits": {}}

    def parts(self) -> Parts:
        """A reading touches its day alone; none is ever due."""
        return {"days": _never, "fits": _never}

    def step(
        self, state: dict, at: float, value: float | None, holiday: bool | None, customer: str
    ) -> Iterable[tuple]:
        """Take a reading in.

        Parameters
        ----------
        at : float
            A whole number of ms.
        """
        at = int(at) + self.offset_ms
        hour, day = at // HOUR_MS, at // DAY_MS
        if state["hour"] is not None and self._is_astray(state, day):
            return []
        free = bool(holiday) or (day + _EPOCH_WEEKDAY) % 7 >= 5
        out: list[tuple] = []
        if state["hour"] is None or hour > state["hour"]:
            out = self._forecast(state, hour, free, customer) if state["hour"] is not None else []
            state["hour"] = hour
        self._keep(state["days"], day, free, at % DAY_MS // self.interval_ms, value)
        return out

    def _is_astray(self, state: dict, day: int) -> bool:
        """Whether a reading is left out; where the readings have gone elsewhere, all begins anew with it."""
        newest = state["hour"] * HOUR_MS // DAY_MS
        if newest - DAYS <= day <= newest + 1:
            state["astray"] = 0
            return False
        state["astray"] += 1
        if state["astray"] < HOUR_MS // self.interval_ms:
            return True
        state["astray"] = 0
        if not newest < day <= newest + DAYS:
            state["days"].clear()
            state["fits"].clear()
            state.update(hour=None, forecast=None)
        return False

    def _keep(self, days: dict, day: int, free: bool, index: int, value: float | None) -> None:
        if str(day) not in days:
            days[str(day)] = [free, []]
        values = days[str(day)][1]
        values.extend([None] * (index + 1 - len(values)))
        values[index] = value if value is not None and abs(value) <= MOST else None

    def _forecast(self, state: dict, hour: int, free: bool, customer: str) -> list[tuple]:
        before, day = state["hour"], hour * HOUR_MS // DAY_MS
        error = None
        if state["forecast"] is not None:
            error = error_of(self._hour(state["days"], before), np.array(state["forecast"]))
        was = before * HOUR_MS // DAY_MS
        for gone in range(was - DAYS, min(was + 1, day - DAYS)):
            state["days"].pop(str(gone), None)
        history = self._history(state["days"], hour, free)
        method = method_of(self.method, seed=self.seed, customer=customer, hour=hour)
        readings = forecast(method, history, self._fit(state["fits"], method, history, day))
        state["forecast"] = None if readings is None else readings.tolist()
        if readings is None:
            return []
        return [(hour * HOUR_MS - self.offset_ms, method, state["forecast"], error, variances(history))]

    def _fit(self, fits: dict, method: str, history: LoadHistory, day: int) -> Any:
        fit = METHODS[method].fit
        if fit is None:
            return None
        if method not in fits or fits[method][0] != day:
            fits[method] = [day, fit(history.days, history.free, history.steps)]
        return fits[method][1]

    def _history(self, days: dict, hour: int, free: bool) -> LoadHistory:
        day, steps = hour * HOUR_MS // DAY_MS, HOUR_MS // self.interval_ms
        width = 24 * steps
        rows, kinds = np.full((DAYS, width), np.nan), np.zeros(DAYS, dtype=bool)
        for index, number in enumerate(range(day - DAYS, day)):
            entry = days.get(str(number))
            if entry is not None:
                kinds[index] = entry[0]
                rows[index, :len(entry[1])] = entry[1]
        today = np.full(hour % 24 * steps, np.nan)
        entry = days.get(str(day))
        if entry is not None:
            loads = entry[1][:len(today)]
            today[:len(loads)] = loads
        return LoadHistory(rows, kinds, today, free, steps)

    def _hour(self, days: dict, hour: int) -> np.ndarray:
        steps = HOUR_MS // self.interval_ms
        readings = np.full(steps, np.nan)
        entry = days.get(str(hour * HOUR_MS // DAY_MS))
        if entry is not None:
            loads = entry[1][hour % 24 * steps:(hour % 24 + 1) * steps]
            readings[:len(loads)] = loads
        return readings


def _never(_: Any) -> None:
    return None
