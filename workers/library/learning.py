"""Learning and predicting as folds: the order of the events alone decides which events a model learns from, and by
which model an event is predicted.

scikit-learn fits the models, on one thread and from a fixed seed, so that the same events give the same model. A fitted
model is written as plain numbers (`models`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from .models import (
    CLASSIFIER,
    CLASSIFIERS,
    FARTHEST,
    LEAF,
    LINEAR,
    NETWORK,
    UnreadableModel,
    apply,
    read_model,
    version_of,
    write_model,
)

if TYPE_CHECKING:
    import numpy as np

NO_MODEL = "no model yet"
NEURONS = 70  # of a network: as published for the choice of a forecast (docs/demand_response.md)
_ROUNDS = 100  # over all events, at most, that a network learns


@dataclass(frozen=True, slots=True)
class Learner:
    """``step`` takes seq, time, born, the target and the features of an event, and gives (seq, time, born, model,
    version, number, events, fit) when a model has been learned: the model as JSON, its version, how many the task has
    learned, from how many events, and how well it fits them (R², or the share that is classified right).

    Parameters
    ----------
    kind : str
        One of `models.KINDS`.
    window : int
        It learns from so many of the newest events at most.
    span : int
        And from none that is older than the newest by more than so many ms; 0: however old.
    every : int
        It learns after so many events; 0: by ``period``.
    period : int
        It learns whenever the events' time has reached a multiple of so many ms; 0: by ``every``.
    depth, leaf : int
        Of trees: how deep at most, and how many events stand behind a leaf at least.
    """

    kind: str
    features: tuple[str, ...]
    target: str
    window: int
    span: int
    every: int
    period: int
    depth: int
    leaf: int
    name: str = ""
    neurons: int = NEURONS

    def start(self) -> dict:
        return {"rows": [], "new": 0, "due": None, "number": 0, "last": None}

    def step(
        self, state: dict, seq: int, time: int, born: int, target: float | str | None, *features: float | None
    ) -> Iterable[tuple]:
        """Take an event in.

        Parameters
        ----------
        seq, time, born : int
            Weir's columns of the event.
        target : float or str, optional
            The value that is to be learned; an event without it, or without a feature, teaches nothing.
        """
        at = min(time, born)  # an event of the future would put off all that is due by then
        out = self._on_time(state, at) if self.period else []
        if _is_known(target) and all(_is_known(value) for value in features):
            state["rows"].append([at, target, *features])
            del state["rows"][: -self.window]
            state["new"] += 1
            state["last"] = [seq, time, born]
            if self.every and state["new"] >= self.every:
                out += self._learned(state)
        return out

    def _on_time(self, state: dict, time: int) -> list[tuple]:
        due = state["due"]
        if due is not None and time < due:
            return []
        state["due"] = (time // self.period + 1) * self.period
        return self._learned(state) if due is not None and state["new"] else []

    def _learned(self, state: dict) -> list[tuple]:
        if self.span:
            newest = max(row[0] for row in state["rows"])
            state["rows"] = [row for row in state["rows"] if newest - row[0] <= self.span]
        state["new"] = 0
        state["number"] += 1
        targets, rows = [row[1] for row in state["rows"]], [row[2:] for row in state["rows"]]
        parameters = {"kind": self.kind, "features": list(self.features), "target": self.target,
                      **fitted(self.kind, rows, targets, depth=self.depth, leaf=self.leaf, neurons=self.neurons)}
        version = version_of(state["number"], parameters)
        named = {"name": self.name} if self.name else {}
        model = {**parameters, **named, "version": version, "events": len(rows)}
        fit = goodness(model, rows, targets)
        return [(*state["last"], write_model(model), version, state["number"], len(rows), fit)]


def fitted(
    kind: str, rows: Sequence[Sequence[float]], targets: Sequence[float | str], *, depth: int, leaf: int,
    neurons: int = NEURONS,
) -> dict[str, Any]:
    """The parameters of a model, as plain numbers."""
    import numpy as np
    from sklearn.linear_model import LinearRegression
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    from threadpoolctl import threadpool_limits

    values = np.asarray(rows, dtype=np.float64)
    with threadpool_limits(1):  # a slot has one core, and the order of sums is the same each time
        if kind == LINEAR:
            numbers = np.asarray(targets, dtype=np.float64)
            line = LinearRegression().fit(values, numbers)
            intercept, coefficients = float(line.intercept_), [float(value) for value in line.coef_]
            if np.isfinite([intercept, *coefficients]).all():
                return {"intercept": intercept, "coefficients": coefficients}
            # Features that differ by next to nothing have a slope beyond all numbers: they say nothing of the target.
            return {"intercept": float(numbers.mean()), "coefficients": [0.0] * values.shape[1]}
        if kind == NETWORK:
            return _network(values, [str(target) for target in targets], neurons)
        make = DecisionTreeClassifier if kind == CLASSIFIER else DecisionTreeRegressor
        grown = make(max_depth=depth, min_samples_leaf=leaf, random_state=0).fit(values, np.asarray(targets))
    tree = grown.tree_
    leaves = tree.children_left < 0
    parameters: dict[str, Any] = {
        "feature": [LEAF if is_leaf else int(index) for is_leaf, index in zip(leaves, tree.feature, strict=True)],
        "threshold": [0.0 if is_leaf else float(bound)
                      for is_leaf, bound in zip(leaves, tree.threshold, strict=True)],
        "left": [int(index) for index in tree.children_left], "right": [int(index) for index in tree.children_right]}
    if kind == CLASSIFIER:
        return {**parameters, "classes": [str(name) for name in grown.classes_],
                "value": [int(index) for index in tree.value[:, 0, :].argmax(axis=1)]}
    return {**parameters, "value": [float(value) for value in tree.value[:, 0, 0]]}


def _network(values: np.ndarray, targets: Sequence[str], neurons: int) -> dict[str, Any]:
    """A perceptron with one hidden layer of rectified units (Rumelhart, Hinton and Williams, 1986)."""
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = values.mean(axis=0), values.std(axis=0)
    mean = np.where(np.isfinite(mean), mean, 0.0)
    scale = np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)
    with np.errstate(over="ignore"):
        scaled = np.clip((values - mean) / scale, -FARTHEST, FARTHEST)
    classes = sorted(set(targets))
    if len(classes) == 1:
        first, second = np.zeros((neurons, values.shape[1] + 1)), np.zeros((1, neurons + 1))
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what so many rounds give is the model
            network = MLPClassifier((neurons,), max_iter=_ROUNDS, random_state=0).fit(scaled, targets)
        first, second = (
            np.column_stack([bias, weights.T])
            for bias, weights in zip(network.intercepts_, network.coefs_, strict=True))
        if len(classes) == 2:  # one output: above 0 it says the second class
            second = np.vstack([np.zeros_like(second), second])
    return {"mean": mean.tolist(), "scale": scale.tolist(), "classes": classes, "hidden": first.tolist(),
            "output": second.tolist()}


def goodness(
    model: dict[str, Any], rows: Sequence[Sequence[float]], targets: Sequence[float | str]
) -> float | None:
    """The share of targets that a classifier gets right; for other models R², None if all targets are equal."""
    predicted = [apply(model, row) for row in rows]
    if model["kind"] in CLASSIFIERS:
        return sum(guess == target for guess, target in zip(predicted, targets, strict=True)) / len(targets)
    mean = sum(targets) / len(targets)
    spread = sum((target - mean) ** 2 for target in targets)
    missed = sum((target - guess) ** 2 for target, guess in zip(targets, predicted, strict=True))
    return 1.0 - missed / spread if spread else None


@dataclass(frozen=True, slots=True)
class Predictor:
    """``step`` takes a model's text (None where the event is none) and the features, and gives (predicted, version,
    problem) for an event; the newest model that came before it says what is predicted. A model gives nothing.

    What is of another kind, or of another name where a ``name`` is wanted, is for others. A model that cannot be read
    leaves the one before in its place, and ``problem`` says so. With ``drops`` an event that nothing is predicted for
    does not go on.
    """

    kind: str
    features: tuple[str, ...]
    name: str = ""
    drops: bool = False

    def start(self) -> dict:
        return {"model": None, "problem": None}

    def step(self, state: dict, model: str | None, *features: float | None) -> Iterable[tuple]:
        if model is None:
            row = predicted_by(state["model"], self.features, features, problem=state["problem"])
            return [] if self.drops and row[0] is None else [row]
        try:
            read = read_model(model)
        except UnreadableModel as wrong:
            state["problem"] = f"the newest model cannot be used: {wrong}"
            return []
        if read["kind"] == self.kind and self.name in ("", read.get("name")):
            state.update(model=read, problem=None)
        return []


def predicted_by(
    model: dict[str, Any] | None, names: Sequence[str], values: Sequence[float | None], *, problem: str | None = None
) -> tuple[float | str | None, str | None, str | None]:
    """A prediction for an event: the prediction, the model's version, and the problem, if there is one."""
    if model is None:
        return None, None, problem or NO_MODEL
    by_name = dict(zip(names, values, strict=True))
    lacking = [name for name in model["features"] if name not in by_name]
    if lacking:
        return None, model["version"], f"the model reads {', '.join(lacking)}, which is none of the features"
    missing = [name for name in model["features"] if not _is_known(by_name[name])]
    if missing:
        return None, model["version"], f"{', '.join(missing)} is missing"
    return apply(model, [by_name[name] for name in model["features"]]), model["version"], problem


@dataclass(frozen=True, slots=True)
class ErrorEstimator:
    """``step`` takes an average, a prediction and what came (each None where the event does not have it), and gives
    (actual, expected, average, error, relative, mean) for a prediction: its error, that as a share of the newest
    average, and the mean absolute error of the last ``window``.
    """

    window: int

    def start(self) -> dict:
        return {"average": None, "errors": []}

    def step(
        self, state: dict, average: float | None, predicted: float | None, actual: float | None
    ) -> Iterable[tuple]:
        """Take an event in."""
        if average is not None:
            state["average"] = average
        if predicted is None or actual is None:
            return []
        error = actual - predicted
        state["errors"].append(abs(error))
        del state["errors"][: -self.window]
        scale = state["average"]
        return [(actual, predicted, scale, error, error / scale if scale else None,
                 sum(state["errors"]) / len(state["errors"]))]


def _is_known(value: float | str | None) -> bool:
    return value is not None and (isinstance(value, str) or isfinite(value))
