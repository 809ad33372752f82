"""The choice of a forecast, learned: a neural network reads how much the last hour varied, and says which is best.

After Frincu, Chelmis, Noor and Prasanna, "Accurate and Efficient Selection of the Best Consumption Prediction Method in
Smart Grids" (2014), as Kumbhare's thesis (2016, 3.6) guards alternates by it. The network is a model as numbers
(`models`), so what chooses needs no library. `ForecastChoice` is a fold: what it chooses follows from what it was told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import log
from typing import Any

from .learning import NEURONS, fitted
from .models import NETWORK, apply, read_model, version_of

_LEAST = 1e-8  # a variance that is as good as none
_UNKNOWN = 1.0  # the variance of which nothing is known


def features_of(variances: Sequence[float | None]) -> list[float]:
    """What the network reads of an hour: the logarithms of its variances (`forecasts.variances`)."""
    return [log((_UNKNOWN if value is None else value) + _LEAST) for value in variances]


def best_of(errors: Mapping[str, float | None]) -> str | None:
    """The oracle: the method whose error was least, the first of equals; None where no error is known."""
    known = {name: error for name, error in errors.items() if error is not None}
    return min(known, key=lambda name: known[name]) if known else None


def learn_choice(
    rows: Sequence[Sequence[float]], best: Sequence[str], *, name: str = "", number: int = 1, neurons: int = NEURONS
) -> dict[str, Any]:
    """The model that chooses.

    Parameters
    ----------
    rows : sequence
        For each customer and hour what `features_of` gave of the hour before.
    """
    features = [f"variance_{place}" for place in range(1, len(rows[0]) + 1)]
    parameters = {"kind": NETWORK, "features": features, "target": "best",
                  **fitted(NETWORK, rows, best, depth=1, leaf=1, neurons=neurons)}
    named = {"name": name} if name else {}
    return {**parameters, **named, "version": version_of(number, parameters), "events": len(rows)}


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
        As `learn_choice` gives it, or `models.read_model`.
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
