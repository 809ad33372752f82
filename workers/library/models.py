"""Models as plain numbers: linear regressions, decision trees and neural networks, written as JSON, read and applied.

A model is data and never code, so one that comes from elsewhere can be wrong but cannot run anything: reading it checks
its form, and its trees lead downwards alone. scikit-learn makes them (`learning`); applying one needs nothing of it.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any

LINEAR, CLASSIFIER, REGRESSOR = "linear_regression", "decision_tree_classifier", "decision_tree_regressor"
NETWORK = "neural_network_classifier"
KINDS = (LINEAR, CLASSIFIER, REGRESSOR, NETWORK)
CLASSIFIERS = (CLASSIFIER, NETWORK)  # what they say is a text
MOST_CHARACTERS = 1_000_000
MOST_FEATURES = 200
MOST_NODES = 8_191
MOST_NEURONS = 500
FARTHEST = 100.0  # standard deviations from the mean that a network sees at most
LEAF = -1  # what stands for the feature of a node without children
LARGEST_FLOAT32 = 3.4028235677973366e38  # what is as large becomes infinite there


class UnreadableModel(ValueError):
    """A text is no model; the message says why."""


def write_model(model: Mapping[str, Any]) -> str:
    """The model as JSON: equal models, equal text."""
    return json.dumps(model, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def version_of(number: int, parameters: Mapping[str, Any]) -> str:
    """A version: how many models its task had learned, and a digest of what this one says."""
    return f"{number}-{hashlib.sha256(write_model(parameters).encode()).hexdigest()[:10]}"


def read_model(text: str) -> dict[str, Any]:
    """A model from its JSON, checked.

    Raises
    ------
    UnreadableModel
        It is no model that `apply` could take.
    """
    if len(text) > MOST_CHARACTERS:
        raise _unreadable(f"it has more than {MOST_CHARACTERS:,} characters")
    try:
        model = json.loads(text)
        write_model(model).encode()  # half a character, which JSON can write, would be in no event
    except (ValueError, RecursionError):
        raise _unreadable("it is no JSON of whole characters") from None
    if not isinstance(model, dict) or model.get("kind") not in KINDS:
        raise _unreadable(f"its kind is none of {', '.join(KINDS)}")
    features = model.get("features")
    if not isinstance(features, list) or not 0 < len(features) <= MOST_FEATURES or not all(
            isinstance(name, str) for name in features) or len(set(features)) < len(features):
        raise _unreadable("it does not name its features, each once")
    if not isinstance(model.get("version"), str) or not 0 < len(model["version"]) <= 100:
        raise _unreadable("it has no version")
    if model["kind"] == LINEAR:
        _require_numbers([model.get("intercept")], 1, "intercept")
        _require_numbers(model.get("coefficients"), len(features), "coefficients")
    elif model["kind"] == NETWORK:
        _require_network(model)
    else:
        _require_tree(model)
    return model


def _unreadable(reason: str) -> UnreadableModel:
    return UnreadableModel(f"it is no model of a train task: {reason}")


def _require_numbers(values: Any, count: int, name: str) -> None:
    sound = isinstance(values, list) and len(values) == count and all(
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
        for value in values)
    if not sound:
        raise _unreadable(f"its {name} are not {count} numbers")


def _require_tree(model: Mapping[str, Any]) -> None:
    """Every node has both children behind it, or is a leaf with a value: a walk always ends at one."""
    nodes = model.get("feature")
    if not isinstance(nodes, list) or not 0 < len(nodes) <= MOST_NODES:
        raise _unreadable(f"its tree has not 1 to {MOST_NODES:,} nodes")
    count = len(nodes)
    _require_numbers(model.get("threshold"), count, "thresholds")
    _require_numbers(model.get("value"), count, "values")
    for name in ("feature", "left", "right"):
        values = model.get(name)
        _require_numbers(values, count, name)
        if not all(isinstance(value, int) for value in values):
            raise _unreadable(f"its {name} are not whole numbers")
    for number, (feature, left, right) in enumerate(zip(nodes, model["left"], model["right"], strict=True)):
        inner = 0 <= feature < len(model["features"]) and number < left < count and number < right < count
        if not inner and feature != LEAF:
            raise _unreadable(f"node {number} of its tree leads nowhere")
    if model["kind"] == CLASSIFIER:
        classes = _require_classes(model)
        if not all(isinstance(value, int) and 0 <= value < len(classes) for value in model["value"]):
            raise _unreadable("a leaf of its tree has no class")


def _require_classes(model: Mapping[str, Any]) -> list[str]:
    classes = model.get("classes")
    if not isinstance(classes, list) or not classes or not all(isinstance(name, str) for name in classes):
        raise _unreadable("it does not name its classes")
    return classes


def _require_network(model: Mapping[str, Any]) -> None:
    """Each neuron has a weight for each number that it reads."""
    hidden, features, classes = model.get("hidden"), len(model["features"]), _require_classes(model)
    if not isinstance(hidden, list) or not 0 < len(hidden) <= MOST_NEURONS:
        raise _unreadable(f"its network has not 1 to {MOST_NEURONS:,} hidden neurons")
    _require_numbers(model.get("mean"), features, "means")
    _require_numbers(model.get("scale"), features, "scales")
    if not all(scale > 0 for scale in model["scale"]):
        raise _unreadable("its scales are not above 0")
    for name, count, width in (("hidden", len(hidden), features), ("output", len(classes), len(hidden))):
        rows = model.get(name)
        if not isinstance(rows, list) or len(rows) != count:
            raise _unreadable(f"its {name} is not {count} neurons")
        for weights in rows:
            _require_numbers(weights, width + 1, f"weights of {name}")


def apply(model: Mapping[str, Any], values: Sequence[float]) -> float | str:
    """The prediction of a model for one event."""
    if model["kind"] == LINEAR:
        pairs = zip(model["coefficients"], values, strict=True)
        return model["intercept"] + sum(coefficient * value for coefficient, value in pairs)
    if model["kind"] == NETWORK:
        return _said_by_network(model, values)
    node, features, thresholds = 0, model["feature"], model["threshold"]
    while features[node] != LEAF:
        goes_left = as_float32(values[features[node]]) <= thresholds[node]
        node = model["left" if goes_left else "right"][node]
    value = model["value"][node]
    return model["classes"][value] if model["kind"] == CLASSIFIER else float(value)


def _said_by_network(model: Mapping[str, Any], values: Sequence[float]) -> str:
    """The class whose output is largest; a neuron's first weight is its bias."""
    scaled = [max(-FARTHEST, min(FARTHEST, (value - mean) / scale))
            for value, mean, scale in zip(values, model["mean"], model["scale"], strict=True)]
    hidden = [max(0.0, _weighed(weights, scaled)) for weights in model["hidden"]]
    outputs = [_weighed(weights, hidden) for weights in model["output"]]
    return model["classes"][outputs.index(max(outputs))]


def _weighed(weights: Sequence[float], values: Sequence[float]) -> float:
    return weights[0] + sum(weight * value for weight, value in zip(weights[1:], values, strict=True))


def as_float32(value: float) -> float:
    """The number as scikit-learn's trees see it: of single precision."""
    if abs(value) >= LARGEST_FLOAT32:
        return float("inf") if value > 0 else float("-inf")
    return struct.unpack("f", struct.pack("f", value))[0]
