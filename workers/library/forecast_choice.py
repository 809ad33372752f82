"""The learned choice of a forecast: a neural network reads how much the last hour varied, and names the best method.

After Frincu, Chelmis, Noor and Prasanna, "Accurate and Efficient Selection of the Best Consumption Prediction Method in
Smart Grids" (2014), as Kumbhare's thesis (2016, 3.6) guards alternates by it. The network is a model as numbers
(`models`), so choosing needs no library. `ForecastChoice` is a fold: its choice follows from its events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import log
from typing import Any

from .models import apply, read_model

_LEAST = 1e-8  # a variance that is as good as none
_UNKNOWN = 1.0  # the variance of which nothing is known


def features_of(variances: Sequence[float | None]) -> list[float]:
    """Features of an hour for the network: the logarithms of its variances (`forecasts.variances`)."""
    return [log((_UNKNOWN if value is None else value) + _LEAST) for value in variances]


@cache
def shipped_choice() -> dict[str, Any]:
    """The model that comes with Weir: learned by ``./weir bench demand-response`` from households of `smart_meters`."""
    return read_model(resources.files(__package__).joinpath("forecast_choice.json").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class ForecastChoice:
    """``step`` takes what a customer's hour has shown, and gives (method, whether the network was asked) for the next.

    The method stays as long as its error is at most ``bound``: the network is asked for the first hour, and after each
    hour in which the error was larger or is not known.

    Parameters
    ----------
    model : mapping
        As `models.read_model` gives it.
    bound : float
        Mean absolute error, as a share (0.1 for 10%); 0: it is asked each hour.
    """

    model: Mapping[str, Any]
    bound: float

    def start(self) -> dict:
        return {"method": None}

    def step(self, state: dict, variances: Sequence[float | None], error: float | None) -> Iterable[tuple]:
        """Take an hour in."""
        evaluates = state["method"] is None or error is None or error > self.bound
        if evaluates:
            state["method"] = apply(self.model, features_of(variances))
        return [(state["method"], evaluates)]
