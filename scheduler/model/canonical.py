"""Canonical configs and canonical JSON: one spelling for each meaning."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from operator import itemgetter
from typing import Any

from .dataflow import Dataflow, Task
from .paths import TASKS, path_in_form
from .task_types import Parameter, TaskType
from .units import in_unit

RATE_KEY = "rate_per_s"  # where a source's rate stands in its canonical config
DEFAULT_RATE_PER_S = 10.0  # of a source for which neither the document nor its type names a rate


def _as_dict(value: Any) -> dict[str, Any]:
    """The JSON form of values that JSON does not know: read-only mappings: read-only mappings."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def canonical_encoder(default: Callable[[Any], Any]) -> json.JSONEncoder:
    """Sorted keys and no spaces; ``default`` gives for what JSON does not know something that it does."""
    return json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=default)


_ENCODER = canonical_encoder(_as_dict)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values, equal text."""
    return _ENCODER.encode(value)


def canonical_config(task_type: TaskType, config: Mapping[str, Any]) -> dict[str, Any]:
    """A config with declared parameters present and every value in one form.

    Defaults are filled in from the declaration. A number is a float and an integer an integer, however it was written,
    in the parameter's unit where it has one; a set is sorted and has each element once; bounds are numbers in their
    shortest form; a parameter that declares a ``form`` is in that. Whatever is not declared, and whatever does not fit
    its declaration, stays exactly as it was given. A parameter that was ``added`` later is left out at its default.
    """
    canonical = {parameter.name: _in_form(parameter, parameter.default) for parameter in task_type.parameters}
    for name, value in config.items():
        parameter = task_type.parameter(name)
        if parameter is None:
            canonical[name] = plain(value)
        elif value is not None:
            canonical[name] = _in_form(parameter, value)
    for parameter in task_type.parameters:
        if parameter.added and canonical[parameter.name] == _in_form(parameter, parameter.default):
            del canonical[parameter.name]
    return canonical


def source_rate_per_s(dataflow: Dataflow, task: Task, task_type: TaskType) -> float:
    """A source's rate: the document's, else its config's or its type's ``rate_per_s``, else 10 events/s."""
    stated = dataflow.rates_per_s.get(task.id)
    if stated is None:
        stated = canonical_config(task_type, task.config).get(RATE_KEY)
    return DEFAULT_RATE_PER_S if stated is None else _as_number(stated)


def identity_config(dataflow: Dataflow, task: Task, task_type: TaskType) -> dict[str, Any]:
    """The config that a running task has: canonical, a source's with its rate in it.

    A source's rate is part of what it is, because the same source at another rate is another stream. That of a
    connector is not: what comes does not depend on what somebody expects.
    """
    config = canonical_config(task_type, task.config)
    if task_type.kind == "source" and task_type.connector is None:
        config[RATE_KEY] = source_rate_per_s(dataflow, task, task_type)
    return config


def _in_form(parameter: Parameter, value: Any) -> Any:
    if parameter.alternate_types is not None and value is not None:
        return _alternates_in_form(parameter.alternate_types, value)
    if parameter.form is not None and value is not None:
        return parameter.form(plain(value))
    if parameter.unit is not None and isinstance(value, str):
        quantity = in_unit(value, parameter.unit)
        if quantity is not None:
            value = int(quantity) if quantity.denominator == 1 else _as_float(quantity, value)
    match parameter.type:
        case "number":
            return _as_number(value)
        case "integer":
            return _as_integer(value)
        case "list" if isinstance(value, list | tuple):
            elements = [_element_in_form(parameter, element) for element in value]
            return _each_once(elements) if parameter.is_set else elements
        case "object" if parameter.bounds and isinstance(value, Mapping):
            return {name: _bounds_in_form(bounds) for name, bounds in value.items()}
    return plain(value)


def _alternates_in_form(task_types: Mapping[str, TaskType], stated: Any) -> list[Any]:
    """The alternates by name, with canonical configs, and values relative to the largest: γ = f / max f of the thesis.
    Beside value functions numbers stay as they are."""
    def config_of(task_type: str, config: Mapping[str, Any]) -> dict[str, Any]:
        return canonical_config(task_types[task_type], config) if task_type in task_types else plain(config)

    def way_of(alternate: Mapping[str, Any]) -> dict[str, Any]:
        if TASKS in alternate:
            return path_in_form(
                alternate, config_of=lambda task: config_of(task.type, task.config), text=canonical_json)
        return {"type": alternate["type"], "config": config_of(alternate["type"], alternate.get("config") or {})}

    values = [alternate.get("value", 1) for alternate in stated]
    largest = 1 if any(isinstance(value, str) for value in values) else max(values)
    alternates = [
        {
            "name": alternate["name"], **way_of(alternate),
            "value": _on_one_line(value) if isinstance(value := alternate.get("value", 1), str)
            else float(f"{value / largest:.12g}"),  # 0.1 of 0.3 is 1 of 3
            "guard": _on_one_line(alternate.get("guard") or ""),
        }
        for alternate in stated]
    return sorted(alternates, key=itemgetter("name"))


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _element_in_form(parameter: Parameter, element: Any) -> Any:
    if parameter.items == "number":
        return _as_number(element)
    return _as_integer(element) if parameter.items == "integer" else plain(element)


def _each_once(elements: list[Any]) -> list[Any]:
    by_text = {canonical_json(element): element for element in elements}
    return [by_text[text] for text in sorted(by_text)]


def _bounds_in_form(bounds: Any) -> Any:
    """Whole bounds as integers: most are written so, and an integer of any size is exact."""
    return [_as_integer(bound) for bound in plain(bounds)] if isinstance(bounds, list | tuple) else plain(bounds)


def _as_integer(value: Any) -> Any:
    """10.0 and 1e1 as 10; other numbers stay as they are."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _as_float(quantity: Fraction, text: str) -> Any:
    try:
        return float(quantity)
    except OverflowError:
        return text


def _as_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return float(value) + 0.0  # adding zero makes -0.0 the same as 0.0
    except OverflowError:
        return value


def plain(value: Any) -> Any:
    """Plain dicts and lists, whatever read-only views they came as."""
    if isinstance(value, Mapping):
        return {key: plain(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    return value
